"""Several workers learn what as many replicas of one process learn, to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.datasources import MatrixSource
from blocklearn.learner.engines import choice
from blocklearn.learner.engines.exchange import Exchange
from blocklearn.learner.errors import ConfigError, WorkerError
from blocklearn.models import GLM
from blocklearn.optimizers import OPTIMIZERS, Optimizer
from tests.support.model_variants import (
    ALIKE,
    OneSided,
    Variant,
    counts,
    data_for,
    features_of,
    variants,
)
from tests.support.often import first_often, paired, rarely
from tests.support.workers import few_travel, results
from tests.support.worse_first import worse_first

CASES = {
    name: variant
    for name, variant in variants().items()
    if variant.optimizer is None or not variant.optimizer.keeps_rows
}
"""All variants but those of one replica only."""

FIRST = {name.split()[0]: name for name in reversed(CASES)}.values()
"""One variant of each model."""

LEARNT = [name for name in FIRST if name not in {"svd", "pagerank of sources", "components"}]
"""Models that merge alike have one among these: sums of a pass are added up for triangles, too."""


def data_of(variant: Variant) -> Any:
    """The data of a variant, in nine blocks of 10 rows; links in four."""
    if variant.data == "one-sided":
        return OneSided(MatrixSource(counts(), block_rows=10))
    return data_for(variant)


def made(variant: Variant, **options: Any) -> bl.Learner:
    """A learner for three passes."""
    rows = 5 if variant.data == "links" else 10
    given: dict[str, Any] = {
        "passes": 3, "block_rows": rows, "threads": 1, "seed": 3, "sync_every": 2, **options,
    }  # fmt: skip
    data = data_of(variant)
    own = {"optimizer": variant.optimizer, "mixins": variant.mixins, "eval": data}
    return bl.Learner(variant.model, data, verbose=False, **{**own, **given})


def trained(variant: Variant, **options: Any) -> bl.Learner:
    """A learner after three passes."""
    return made(variant, **options).fit()


def learnt(learner: bl.Learner) -> dict[str, Any]:
    """All that comes out of a training."""
    state = learner.state()
    return {
        "tensors": {name: array.tobytes() for name, array in state.tensors.items()},
        "optimizers": state.position["optimizers"],
        "rows": state.position["rows"],
        "position": (state.position["pass"], state.position["block"]),
        "scores": learner.progress.scores,
    }


@pytest.mark.parametrize(
    "name", [*LEARNT, *rarely(*(name for name in CASES if name not in {*LEARNT, *ALIKE}))]
)
def test_workers_learn_what_replicas_learn(name: str) -> None:
    variant, workers = CASES[name], 4 if name in FIRST else 2
    expected = trained(variant, replicas=workers)

    def work(own: Exchange) -> tuple[dict[str, Any], Any]:
        learner = trained(variant, engine=own)
        return learnt(learner), learner.predict(features_of(data_of(variant)))

    for found, rows in results(workers, work):
        assert found == learnt(expected)
        np.testing.assert_array_equal(rows, expected.predict(features_of(data_of(variant))))


def averaging() -> dict[str, Optimizer]:
    """Every optimizer that can average its iterates; averages begin within the first pass."""
    kinds = {k: kind for k, kind in OPTIMIZERS.items() if "average_from" in kind.model_fields}
    needed = {"sgld": {"rows": 100.0}}
    return {k: kind(rate=0.1, average_from=3, **needed.get(k, {})) for k, kind in kinds.items()}


@pytest.mark.parametrize("kind", first_often(averaging(), 2))
def test_workers_have_the_averages_of_replicas_and_their_states_resume(kind: str) -> None:
    """Replicas differ in how many blocks they have had: five and four of a pass."""
    variant = Variant(GLM(), averaging()[kind])
    expected = trained(variant, replicas=2)
    assert expected.state().tensors["optimizer.W.average"].any()
    whole = learnt(trained(variant, replicas=2, passes=5))

    def work(own: Exchange) -> tuple[dict[str, Any], Any]:
        learner = trained(variant, engine=own)
        return learnt(learner), learner.state()

    for found, state in results(2, work):
        assert found == learnt(expected)
        resumed = made(variant, replicas=2, passes=5)
        resumed.restore(state)
        assert learnt(resumed.fit()) == whole


def test_workers_may_have_several_replicas() -> None:
    """Replica r is on worker r % workers, and the numbers are those of one process."""
    variant = CASES["glm block"]
    expected = learnt(trained(variant, replicas=4))
    found = results(2, lambda own: learnt(trained(variant, engine=own, replicas=2)))
    assert found == [expected, expected]


@pytest.mark.parametrize("name", first_often(["als implicit cg", "als by need", "ranking softmax"]))
def test_rankings_of_several_workers_are_those_of_replicas(name: str) -> None:
    """The rows of the sample's users are fetched from the workers that own them."""
    variant = CASES[name]
    seen = data_of(variant).toarray() > 0
    held = sp.csr_array((~seen & (np.random.default_rng(1).random(seen.shape) < 0.3)) * 1.0)

    def scores(**options: Any) -> dict[str, float]:
        hooks = [bl.RankingEvaluation(4)]
        return trained(variant, eval=held, hooks=hooks, **options).progress.scores

    expected = scores(replicas=2)
    assert 0 < expected["ndcg@4"] < 1
    assert results(2, lambda own: scores(engine=own)) == [expected, expected]


class Stops(bl.Hook):
    """Stops after some blocks, and notes what it hears and sees."""

    def __init__(self, blocks: int = 10**9) -> None:
        self.blocks, self.heard, self.seen = blocks, [], []

    def block(self, learner: bl.Learner, progress: bl.Progress) -> None:
        self.heard.append((progress.pass_, progress.block))
        self.seen.append(learner.parameter(next(iter(learner.model.parameters))).tobytes())
        progress.stop = progress.stop or progress.block >= self.blocks


@paired(2, name=["lda vb", "als explicit cg", "glm block"], weight=[1.0, 0.5])
def test_a_hook_of_worker_0_stops_all_and_the_state_resumes(name: str, weight: float) -> None:
    """Also where replicas are apart: reading a parameter then needs all workers."""
    variant, options = CASES[name], {"sync_every": 1, "sync_weight": weight}
    expected = Stops(6)
    stopped = trained(variant, replicas=2, hooks=[expected], **options)
    whole = trained(variant, replicas=2, **options)
    hooks = [Stops(6), Stops(6)]

    def work(own: Exchange) -> tuple[dict[str, Any], dict[str, Any]]:
        learner = trained(variant, engine=own, hooks=[hooks[own.rank]], **options)
        state = learner.state()
        other = made(variant, engine=own, **options)
        if own.rank == 0:  # the others get it from worker 0
            other.restore(state)
        return learnt(learner), learnt(other.fit())

    found = results(2, work)
    assert (hooks[0].heard, hooks[0].seen) == (expected.heard, expected.seen)
    assert hooks[1].heard == []
    for early, late in found:
        assert early == learnt(stopped)
        assert late == learnt(whole)


def test_the_best_model_is_that_of_one_process() -> None:
    evaluation = worse_first("perplexity", "higher", patience=1, every_blocks=2)
    variant = CASES["lda vb"]
    expected = trained(variant, replicas=2, evaluation=evaluation)
    found = results(2, lambda own: trained(variant, engine=own, evaluation=evaluation))
    for learner in found:
        assert learnt(learner) == learnt(expected)
        assert learner.progress.best == expected.progress.best


def test_checkpoints_of_worker_0_resume_all(tmp_path: Any) -> None:
    variant = CASES["als explicit cg"]
    expected = learnt(trained(variant, replicas=2))

    def work(own: Exchange) -> tuple[int, dict[str, Any]]:
        def saved() -> bl.Checkpoints:
            return bl.Checkpoints(tmp_path / f"of-{own.rank}", every_blocks=4)

        first = trained(variant, engine=own, hooks=[saved(), Stops(4)])
        second = trained(variant, engine=own, hooks=[saved()])
        return first.progress.block, learnt(second)

    assert results(2, work) == [(4, expected), (4, expected)]
    assert not (tmp_path / "of-1").exists()
    resumed = trained(variant, replicas=2, hooks=[bl.Checkpoints(tmp_path / "of-0")])
    assert learnt(resumed) == expected


@paired(2, name=["lda vb", "als explicit cg", "glm block"], weight=[1.0, 0.5])
def test_fewer_workers_go_on_from_a_complete_merge(
    name: str, weight: float, tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Also where the checkpoint is of replicas that are apart; it is said that bits differ."""
    variant, options = CASES[name], {"sync_every": 1, "sync_weight": weight}
    stopped = trained(variant, replicas=3, hooks=[Stops(6)], **options)
    other = made(variant, replicas=2, **options)
    other.restore(stopped.state())
    for each in stopped.model.parameters:
        np.testing.assert_array_equal(other.parameter(each), stopped.parameter(each))
    expected = learnt(other.fit())

    def work(own: Exchange, *hooks: bl.Hook) -> dict[str, Any]:
        hooks = (*hooks, bl.Checkpoints(tmp_path)) if own.rank == 0 else ()
        return learnt(trained(variant, engine=own, hooks=hooks, **options))

    results(3, lambda own: work(own, Stops(6)))
    assert not caplog.records
    assert results(2, work) == [expected, expected]
    assert "continuing with workers=2, but the run had 3: from here on" in caplog.text


def test_another_number_of_replicas_of_each_worker_is_refused(tmp_path: Any) -> None:
    variant, saved = CASES["glm block"], bl.Checkpoints(tmp_path)
    results(2, lambda own: trained(variant, engine=own, hooks=[saved][own.rank :]))
    with pytest.raises(ConfigError, match=r"learner\.replicas"):
        trained(variant, hooks=[bl.Checkpoints(tmp_path)], passes=4, replicas=3)


@pytest.mark.parametrize(
    "name", first_often(["lda vb", "glm row", "als explicit cg", "kmeans online"], 2)
)
def test_workers_that_exchange_what_differs_learn_the_same(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choice, "FEW", 0)
    variant = CASES[name]
    expected = learnt(trained(variant, replicas=3))
    assert results(3, lambda own: learnt(trained(variant, engine=own))) == [expected] * 3


class Fails(bl.Hook):
    """Ends its worker with an error."""

    def block(self, learner: bl.Learner, progress: bl.Progress) -> None:
        raise ValueError("no such luck")


def test_nothing_is_kept_by_close_after_a_worker_has_failed() -> None:
    """Workers may differ: what one of them has learned so far is no model."""
    variant = CASES["als explicit cg"]

    def work(own: Exchange) -> None:
        learner = made(variant, engine=own, hooks=[Fails()])
        with pytest.raises(ValueError if own.rank == 0 else WorkerError, match="no such luck"):
            learner.fit()
        learner.close()
        with pytest.raises(ValueError, match="nothing is trained or loaded yet"):
            learner.parameter("items")

    results(2, work)


def test_workers_have_whole_tables_where_passes_before_kept_topics_read_them() -> None:
    """Rows do not travel as blocks need them: most words may occur in a block, so none rest."""
    case = CASES["lda kept"]
    expected = learnt(trained(case, replicas=2))
    with few_travel():
        assert results(2, lambda own: learnt(trained(case, engine=own))) == [expected] * 2
