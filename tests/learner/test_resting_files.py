"""Tables in files whose rows rest, and are brought up to date at the end of a pass."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.learner.errors import PageError
from blocklearn.learner.files.paging import map_of
from blocklearn.optimizers import CombinationError
from tests.support.often import crossed, first_often, rarely

COLUMNS, ROWS, BLOCK = 3000, 200, 32


def counts() -> Any:
    """Word counts, with an empty document."""
    rng = np.random.default_rng(0)
    X = sp.random_array((ROWS, COLUMNS), density=0.004, rng=rng, dtype=np.float32, format="csr")
    X.data[:] = np.ceil(3 * X.data)
    X.data[X.indptr[70] : X.indptr[71]] = 0
    X.eliminate_zeros()
    return X


def lda(folder: Path | None, model: Any = None, **settings: Any) -> bl.Learner:
    X = counts()
    chosen = {"kind": "lda", "topics": 5, "inference": "vb", **(model or {})}
    given: dict[str, Any] = {"block_rows": BLOCK, "passes": 3, "threads": 2, **settings}
    return bl.Learner(chosen, X, X[:50], table_folder=folder, **given)


def linear(folder: Path | None, model: Any, **settings: Any) -> bl.Learner:
    X = counts()
    Y = (np.random.default_rng(1).random((ROWS, 2)) < 0.3).astype(np.float32)
    given: dict[str, Any] = {"block_rows": BLOCK, "passes": 2, "threads": 2, **settings}
    return bl.Learner(model, (X, Y), (X[:50], Y[:50]), table_folder=folder, **given)


OFTEN = {"every_blocks": 3, "keep_best": False}


def alike(found: bl.Learner, wanted: bl.Learner) -> None:
    team = wanted.team
    assert team is not None
    for name in team.first.model.parameters:
        assert found.parameter(name).tobytes() == wanted.parameter(name).tobytes(), name


def scored_alike(found: bl.Learner, wanted: bl.Learner) -> None:
    clocked = ("seconds", "rows_per_s", "train_")  # and scores of training, taken by a clock
    scores = [name for name in wanted.history.columns if not name.startswith(clocked)]
    assert len(wanted.history["block"]) > 2
    for name in scores:
        assert repr(found.history[name]) == repr(wanted.history[name]), name


@pytest.mark.parametrize(
    "model",
    [
        {"inference": "cvb0", "alpha": "auto"},
        {"inference": "gibbs", "sweeps": 2},
        {"topics": 1},
        *rarely({}, {"eta": (0.01 + np.arange(COLUMNS) / COLUMNS).tolist()}),
        pytest.param({"eta": np.arange(1, 5 * COLUMNS + 1).reshape(COLUMNS, 5) / 1e4}, id="table"),
    ],
    ids=str,
)
def test_topics_in_files_have_the_bits_of_memory(model: Any, tmp_path: Path) -> None:
    """Also where they are made exact, for evaluations, in the middle of a pass."""
    memory = lda(None, model, evaluation=OFTEN).fit()
    found = lda(tmp_path, model, evaluation=OFTEN).fit()
    assert map_of(found.parameter("lambda")) is not None
    alike(found, memory)
    scored_alike(found, memory)
    assert found.predict(counts()).tobytes() == memory.predict(counts()).tobytes()


KEPT = {"kind": "lda", "topics": 20, "assignments": "kept", "warm_up": 0, "fresh_passes": 0}
OWN: dict[str, dict[str, Any]] = {
    "kept topics": KEPT,
    "k-means": {"kind": "kmeans", "clusters": 4},
    "kept topics, all of them": {**KEPT, "topics": 5},
    "kept topics after fresh ones": {**KEPT, "topics": 5, "fresh_passes": 1, "sweeps": 2},
    "kept topics, alpha: auto": {**KEPT, "alpha": "auto"},
    "a single topic": {**KEPT, "topics": 1},
    "k-means, spherical": {"kind": "kmeans", "clusters": 4, "spherical": True},
}


@pytest.mark.parametrize("name", first_often(OWN, 2))
def test_models_that_change_rows_themselves_have_the_bits_of_memory(
    name: str, tmp_path: Path
) -> None:
    """They change all rows at the end of a pass; also resumed within one.

    They have no optimizer, but where topics are first drawn afresh.
    """

    def made(folder: Path | None, **settings: Any) -> bl.Learner:
        given: dict[str, Any] = {"block_rows": BLOCK, "passes": 3, "threads": 2, **settings}
        return bl.Learner(OWN[name], counts(), counts()[:50], table_folder=folder, **given)

    memory = made(None, evaluation=OFTEN).fit()
    with closing(made(tmp_path / "a", evaluation=OFTEN)) as found:
        found.fit()
        assert found.placed_tables is not None and found.placed_tables.in_order
        alike(found, memory)
        scored_alike(found, memory)
        assert found.predict(counts()).tobytes() == memory.predict(counts()).tobytes()
    saved = bl.Checkpoints(tmp_path / "saved", every_blocks=5, keep=99)
    made(tmp_path / "b", hooks=[saved]).fit().close()
    for late in sorted((tmp_path / "saved").iterdir())[3:]:
        shutil.rmtree(late)
    for where in (tmp_path / "c", None):
        shutil.copytree(tmp_path / "saved", tmp_path / "copy", dirs_exist_ok=True)
        with closing(made(where, checkpoint=tmp_path / "copy")) as again:
            alike(again.fit(), memory)
        shutil.rmtree(tmp_path / "copy")


def test_parts_in_files_have_the_bits_of_memory(tmp_path: Path) -> None:
    """The same, of a model that lets rows rest itself; and from a checkpoint within a pass."""

    def nmf(folder: Path | None, **settings: Any) -> bl.Learner:
        model = {"kind": "nmf", "components": 4, "loss": "kullback-leibler", "l1_H": 0.01}
        given: dict[str, Any] = {"block_rows": BLOCK, "passes": 3, "threads": 2, **settings}
        return bl.Learner(model, counts(), counts()[:50], table_folder=folder, **given)

    memory = nmf(None, evaluation=OFTEN).fit()
    with closing(nmf(tmp_path / "a", evaluation=OFTEN)) as found:
        found.fit()
        assert map_of(found.parameter("H")) is not None
        alike(found, memory)
        scored_alike(found, memory)
    saved = bl.Checkpoints(tmp_path / "saved", every_blocks=5, keep=99)
    nmf(tmp_path / "b", hooks=[saved]).fit().close()
    for late in sorted((tmp_path / "saved").iterdir())[2:]:
        shutil.rmtree(late)
    again = nmf(tmp_path / "c", checkpoint=tmp_path / "saved").fit()
    assert again.parameter("H").tobytes() == memory.parameter("H").tobytes()
    damaged = nmf(tmp_path / "d", passes=1).fit()
    (file,) = (tmp_path / "d").glob("*/pull.float32")
    content = bytearray(file.read_bytes())
    content[20_000] ^= 4
    file.write_bytes(content)
    with closing(damaged), pytest.raises(PageError, match="of 'pull'.*damaged"):
        damaged.parameter("H")


@pytest.mark.parametrize(
    "given",
    first_often(
        [
            {"model": {"kind": "glm", "l2": 0.1, "l1": 0.01}},
            {"model": "glm", "optimizer": {"kind": "sgd", "average_from": 2}},
            {
                "model": {"kind": "fm", "factors": 3, "l2": 0.1, "fields": [COLUMNS // 2] * 2},
                "optimizer": "adagrad",
            },
        ],
        1,
    ),
    ids=lambda given: str(given["model"]),
)
def test_penalties_and_averages_have_the_bits_of_memory(given: Any, tmp_path: Path) -> None:
    memory = linear(None, evaluation=OFTEN, **given).fit()
    found = linear(tmp_path, evaluation=OFTEN, **given).fit()
    assert found.placed_tables is not None and found.placed_tables.in_order
    alike(found, memory)
    scored_alike(found, memory)


@pytest.mark.parametrize(
    "rule", first_often([{"kind": "ftrl"}, {"kind": "ftrl", "step_per": "row"}]), ids=str
)
def test_rows_that_ftrl_computes_anew_are_no_damage(rule: Any, tmp_path: Path) -> None:
    """Its rows follow from their state, so evaluations leave them as they made them."""
    given = {"model": {"kind": "glm", "l2": 0.1, "l1": 0.01}, "optimizer": rule}
    memory = linear(None, evaluation=OFTEN, **given).fit()
    files, saved = tmp_path / "files", tmp_path / "saved"
    found = linear(files, evaluation=OFTEN, checkpoint=saved, every_blocks=2, passes=1, **given)
    found.fit().close()
    found = linear(files, evaluation=OFTEN, checkpoint=saved, every_blocks=2, **given).fit()
    assert found.placed_tables is not None and not found.placed_tables.in_order
    alike(found, memory)
    found.close()


@crossed(tables=[True, False], stop=[12, 15, 19])
def test_a_run_resumes_with_the_same_bits(tables: bool, stop: int, tmp_path: Path) -> None:
    """From the middle of a pass, where rows rest, or after 15 blocks from the end of the second."""

    def run(where: Path | None, stop: int | None) -> bl.Learner:
        saved = bl.Checkpoints(tmp_path / "saved", every_blocks=4, keep=2)
        return lda(where, hooks=[saved, Stop(stop)], evaluation=OFTEN)

    with pytest.raises(StopHere), closing(run(tmp_path / "tables", stop)) as learner:
        learner.fit()
    found = run(tmp_path / "tables" if tables else None, None).fit()
    alike(found, lda(None, evaluation=OFTEN).fit())


@pytest.mark.parametrize(
    "stop", first_often([10, 12]), ids=lambda stop: f"after {stop} of 14 blocks"
)
def test_averages_resume_with_the_same_bits(stop: int, tmp_path: Path) -> None:
    """The first block of a pass puts the iterates in the place of all averages."""

    def run(where: Path | None, stop: int | None) -> bl.Learner:
        saved = bl.Checkpoints(tmp_path / "saved", every_blocks=2, keep=2)
        optimizer = {"kind": "sgd", "average_from": 2}
        return linear(where, "glm", optimizer=optimizer, hooks=[saved, Stop(stop)])

    with pytest.raises(StopHere), closing(run(tmp_path / "tables", stop)) as learner:
        learner.fit()
    wanted = linear(None, "glm", optimizer={"kind": "sgd", "average_from": 2}).fit()
    alike(run(tmp_path / "tables", None).fit(), wanted)


class StopHere(Exception):
    pass


class Stop(bl.Hook):
    """Fails after this block of the run."""

    def __init__(self, block: int | None) -> None:
        self.left = block

    def block(self, learner: bl.Learner, progress: bl.Progress) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left == 0:
                raise StopHere


def test_topics_of_a_closed_learner_are_exact_within_a_pass(tmp_path: Path) -> None:
    class End(bl.Hook):
        def block(self, learner: bl.Learner, progress: bl.Progress) -> None:
            if progress.block == 4:
                progress.stop = True

    memory = lda(None, hooks=[End()]).fit()
    found = lda(tmp_path, hooks=[End()]).fit()
    found.close()
    assert found.parameter("lambda").tobytes() == memory.parameter("lambda").tobytes()
    memory.close()
    assert found.parameter("lambda").tobytes() == memory.parameter("lambda").tobytes()


def test_the_plan_has_tables_and_their_copies_in_files(tmp_path: Path) -> None:
    memory, files = lda(None).plan(), lda(tmp_path).plan()
    lam, seen = 4 * 5 * COLUMNS, 8 * COLUMNS
    assert files.table_files == {
        "lambda.float32": lam,
        "optimizer.lambda.seen.float64": seen,
        "lambda while it is read.float32": lam,
        "optimizer.lambda.seen while it is read.float64": seen,
    }
    (needed,) = [row for row in files.rows if row.name.startswith("rows of tables")]
    assert needed.shape[1] == 4 * 5 + 8 and 0 < needed.shape[0] < COLUMNS
    (digests,) = [row for row in files.rows if row.name == "digests of pages"]
    assert memory.total - files.total == 2 * (lam + seen) - needed.held - digests.held
    assert list(tmp_path.iterdir()) == []


def test_the_plan_tells_tables_from_scratch_of_the_sampler(tmp_path: Path) -> None:
    """While topics are drawn afresh, the sampler counts, too."""
    drawn = {**OWN["kept topics after fresh ones"], "inference": "gibbs"}
    found = lda(tmp_path, drawn, row_folder=tmp_path / "rows").plan()
    assert found.table_files["counts.float32"] == found.table_files["lambda.float32"]


@pytest.mark.parametrize(
    ("model", "settings", "text"),
    [
        ({}, {"block_rows": ROWS}, "at most half as many as the 3,000 columns.*smaller block_rows"),
        (
            {"inference": "gibbs", "assignments": "kept", "fresh_passes": 1},
            {"block_rows": ROWS},
            "'lambda' is a whole table.*smaller block_rows",
        ),
        ({"eta": "auto"}, {}, "'lambda' is a whole table"),
        ({"seeds": {"wine": ["7"]}}, {}, "'seeds' at .* is as large as a table, in memory"),
    ],
    ids=["large blocks", "large blocks before topics are kept", "learned eta", "seeds"],
)
def test_topics_that_need_whole_tables_are_refused(
    model: Any, settings: Any, text: str, tmp_path: Path
) -> None:
    with pytest.raises(CombinationError, match=text):
        lda(tmp_path, model, **settings).fit()
    assert list(tmp_path.iterdir()) == []
