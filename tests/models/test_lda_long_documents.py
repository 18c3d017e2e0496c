"""LDA that draws topics of long documents afresh before it keeps them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.models import LDA
from blocklearn.models.lda.long_documents import FEWEST, HEAT, LONG, SHORT
from tests.support.stops import check_stops


def documents(tokens: float) -> sp.csr_array:
    """30 documents of 20 words, with about so many tokens each, and exactly so many on average."""
    rng = np.random.default_rng(0)
    X = rng.multinomial(int(tokens), rng.dirichlet(np.full(20, 0.3), 30)).astype(np.float32)
    X[0, 0], X[1, 0] = X[0, 0] + 5, max(X[1, 0] - 5, 0)
    X[2, 0] += 30 * tokens - X.sum()
    return sp.csr_array(X)


def trained(tokens: float, passes: int, **options: Any) -> bl.Learner:
    """A learner in blocks of 10 documents, trained."""
    model = {name: options.pop(name) for name in list(options) if name in LDA.model_fields}
    own: dict[str, Any] = {"topics": 3, "assignments": "kept", "fresh_passes": 2} | model
    given = {"block_rows": 10, "threads": 1, "seed": 3, "verbose": False, **options}
    return bl.Learner(LDA(**own), documents(tokens), passes=passes, **given).fit()


def test_the_first_pass_has_more_sweeps_and_more_alpha() -> None:
    auto = trained(LONG, 1)
    like = trained(LONG, 1, assignments="fresh", warm_up=0, alpha=HEAT * 0.05, sweeps=FEWEST)
    np.testing.assert_array_equal(auto.parameter("lambda"), like.parameter("lambda"))
    assert f"documents have {LONG:g} tokens on average: a pass" in auto.model.notes[0]


def test_alpha_falls_from_pass_to_pass() -> None:
    found = []

    class Look(bl.Hook):
        def pass_end(self, learner: Any, progress: Any) -> None:
            found.append(float(learner.model.heat.numpy()[0, 0]))

    trained(LONG, 6, fresh_passes=4, hooks=[Look()])
    assert found == pytest.approx([HEAT ** (1 - done / 4) for done in (0, 1, 2, 3, 3, 3)])


@pytest.mark.parametrize(
    ("tokens", "same", "options"),
    [
        (LONG - 1, SHORT, {}),
        (LONG, SHORT, {"assignments": "fresh", "warm_up": 0}),
        (LONG, SHORT, {"fresh_passes": 0}),
    ],
    ids=["shorter", "never kept", "kept from the start"],
)
def test_others_are_swept_as_before(tokens: float, same: int, options: dict[str, Any]) -> None:
    auto, given = (trained(tokens, 3, **options, **each) for each in ({}, {"sweeps": same}))
    np.testing.assert_array_equal(auto.parameter("lambda"), given.parameter("lambda"))
    assert not any("documents have" in note for note in auto.model.notes)


def test_given_sweeps_stay() -> None:
    """So does alpha."""
    given = trained(LONG, 1, sweeps=4)
    like = trained(LONG, 1, assignments="fresh", warm_up=0, sweeps=4)
    np.testing.assert_array_equal(given.parameter("lambda"), like.parameter("lambda"))


@pytest.mark.parametrize(("replicas", "blocks"), [(1, [2, 4, 8]), (3, [3, 6, 9])])
def test_checkpoints_resume_to_the_same_bits(
    tmp_path: Path, replicas: int, blocks: list[int]
) -> None:
    """In the first and the second pass, and when topics are kept."""

    def learner(hooks: Any) -> bl.Learner:
        model = LDA(topics=3, assignments="kept", fresh_passes=2)
        return bl.Learner(
            model, documents(LONG), passes=4, block_rows=10, threads=1, seed=3, hooks=hooks,
            verbose=False, replicas=replicas, sync_every=1,
        )  # fmt: skip

    check_stops(learner, tmp_path, blocks)
