"""Workers that keep tables in files, and what as many replicas of one process learn in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.learner.files.table_files import TableFiles
from blocklearn.learner.files.table_rows import TableRows
from blocklearn.models.lda.kept_topics import MANY

KEPT = {"kind": "lda", "topics": 3, "assignments": "kept", "warm_up": 0, "fresh_passes": 0}
MODELS: dict[str, tuple[Any, Any]] = {
    "blocks": ({"kind": "glm"}, {"kind": "adagrad", "rate": 0.5}),
    "factors": ({"kind": "fm", "factors": 3}, {"kind": "adagrad", "rate": 0.5}),
    "vb": ({"kind": "lda", "topics": 3, "inference": "vb"}, None),
    "kmeans": ({"kind": "kmeans", "clusters": 3}, None),
    "nmf": ({"kind": "nmf", "components": 3, "loss": "kullback-leibler", "l1_H": 0.01}, None),
    "kept": (KEPT, None),
    "kept later": ({**KEPT, "fresh_passes": 1}, None),
    "kept in lists": ({**KEPT, "topics": MANY["cpu"], "alpha": "auto", "eta": "auto"}, None),
    "cvb0": ({"kind": "lda", "topics": 3, "inference": "cvb0", "alpha": "auto"}, None),
    "rows": ({"kind": "glm"}, {"kind": "adagrad", "rate": 0.5, "step_per": "row"}),
    "ftrl": ({"kind": "glm"}, {"kind": "ftrl", "l1": 0.01}),
    "adam": ({"kind": "glm"}, "adam"),
    "directions": ({"kind": "kmeans", "clusters": 3, "spherical": True}, None),
}
"""One of each model first."""

WITHOUT_TARGETS = ("lda", "kmeans", "nmf")


def data_of(name: str) -> Any:
    """Nine blocks of ten rows, some of them empty; most columns occur in no block.

    Counts of words are whole numbers, and the last block has seven documents.
    """
    X = sp.random(90, 400, 0.01, format="csr", dtype=np.float32, random_state=0)
    if "assignments" in MODELS[name][0]:
        return X[:87].ceil() * 2
    y = (np.random.default_rng(1).random(90) < 0.5).astype(np.float32)
    return X if MODELS[name][0]["kind"] in WITHOUT_TARGETS else (X, y)


def made(name: str, **given: Any) -> bl.Learner:
    """A learner of two passes, with scores within a pass, which read the whole table."""
    (model, optimizer), data = MODELS[name], data_of(name)
    options: dict[str, Any] = {"passes": 2, "sync_every": 2, "engine": "local", **given}
    return bl.Learner(
        model, data, data, optimizer=optimizer, block_rows=10, seed=3, threads=1, verbose=False,
        evaluation=bl.Evaluation(every_blocks=4), **options,
    )  # fmt: skip


def whole(learner: bl.Learner) -> dict[str, Any]:
    """All that comes out of a training, with whole tables, wherever they lie."""
    state = learner.state()
    arrays = dict(state.tensors)
    if isinstance(state.pages, TableRows):
        arrays |= {name: state.pages.by_column(name) for name in state.pages.tables}
    model = learner.team.first.model if learner.team else learner.model
    return {
        "arrays": {name: array.tobytes() for name, array in arrays.items()},
        "parameters": {name: learner.parameter(name).tobytes() for name in model.parameters},
        "optimizers": state.position["optimizers"],
        "position": (state.position["pass"], state.position["block"], state.position["rows"]),
        "scores": learner.progress.scores,
    }


def filed(name: str, folder: Path, own: Any) -> dict[str, Any]:
    """What a worker learns whose tables lie in files, whose pages are as it wrote them."""
    learner = made(name, engine=own, table_folder=folder).fit()
    files = learner.placed_tables
    assert isinstance(files, TableFiles) and files.tables
    files.check_pages()
    found = whole(learner)
    learner.close()
    return found
