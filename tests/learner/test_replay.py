"""Updates, scores and predictions from a recording have the bits of interpreted ones."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.datasources import MatrixSource, RowFilter
from blocklearn.learner.hooks import Hook
from blocklearn.learner.training.replicas.replay import PATIENCE
from blocklearn.learner.training.scoring import TrainingScores
from blocklearn.matcache import StaleValueError, colsum, total
from blocklearn.matcache.containers.tape import Tape
from blocklearn.models import (
    ALS,
    GLM,
    LDA,
    NMF,
    SVD,
    Components,
    GaussianMixture,
    KMeans,
    PageRank,
    Ranking,
)
from blocklearn.models.lda.kept_topics import MANY
from blocklearn.optimizers import FTRL, AdaGrad, Optimizer, StreamingAverage
from tests.support.often import first_often, paired, rarely

ROWS = 8
KEPT = {"assignments": "kept", "warm_up": 1, "fresh_passes": 1}


@pytest.fixture(autouse=True)
def _no_scores_of_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock decides which blocks they interpret."""
    monkeypatch.setattr(TrainingScores, "due", lambda *_: False)


class Means(bl.Model):
    """Keeps the mean of all rows."""

    def allocate(self, shapes: Any, rng: Any) -> None:
        self.mean = self.parameter("mean", 1, shapes.columns)
        self.mass = self.parameter("mass", 1, 1)
        self.rate = self.number("rate")

    def update(self, block: bl.Block) -> None:
        self.rate.set(1.0 / max(block.rows, 1))
        self.mass <<= self.mass + total(block.weights)
        mean = colsum(block.X * block.weights) * self.rate
        self.mean <<= self.mean + (mean - self.mean) / self.mass

    def score(self, block: bl.Block) -> Any:
        return {"mean": bl.Sum(total(self.mean), 1.0)}

    def predict(self, block: bl.Block) -> Any:
        return (block.X * self.mean).mat()


class OfWeights(Means):
    """Computes with the weight of the block on the host."""

    def update(self, block: bl.Block) -> None:
        super().update(block)
        self.rate.set(0.5 ** (block.weight / block.whole_rows) - block.rows)
        self.mean <<= self.mean + self.rate


class ReadsWeights(Means):
    """Reads the weight of the block as a number."""

    def update(self, block: bl.Block) -> None:
        super().update(block)
        self.rate.set(float(block.weight))


class InPhases(Means):
    """Computes something else from pass 2 on."""

    def phases(self) -> tuple[int, ...]:
        return (0, 2)

    def update(self, block: bl.Block) -> None:
        super().update(block)
        if block.pass_ >= 2:
            self.mean <<= self.mean * 0.5


class ByPhase(InPhases):
    """Does the same, and asks for the phase."""

    def update(self, block: bl.Block) -> None:
        Means.update(self, block)
        if block.phase == 1:
            self.mean <<= self.mean * 0.5


class Reader(Means):
    """Reads a number to the host."""

    def update(self, block: bl.Block) -> None:
        super().update(block)
        if float(self.mass) < 0.0:
            self.mean <<= 0.0


def data(rows: int = 6 * ROWS + 3) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).random((rows, 5)).astype(np.float32)


def counts(rows: int = 6 * ROWS + 3) -> sp.csr_array:
    return sp.csr_array(np.random.default_rng(0).poisson(0.7, (rows, 9)).astype(np.float32))


def both(model: bl.Model, X: Any, **options: Any) -> tuple[bl.Learner, bl.Learner]:
    """Train with recordings, and without."""
    called = model.model_copy(update={"recorded": False})
    options = {"block_rows": ROWS, "passes": 4, "threads": 1, **options}
    one, other = (bl.Learner(m, X, **options).fit() for m in (model, called))
    mine, its = one.state(), other.state()
    assert mine.tensors.keys() == its.tensors.keys()
    for name, array in mine.tensors.items():
        np.testing.assert_array_equal(array, its.tensors[name], err_msg=name)
    assert mine.position.get("optimizers") == its.position.get("optimizers")
    assert replayed(other) == 0
    return one, other


def replayed(learner: bl.Learner) -> int:
    assert learner.team is not None
    return sum(replica.replays.count for replica in learner.team.replicas)


def test_all_blocks_but_the_first_of_each_kind_are_replayed() -> None:
    learner, _ = both(Means(), data())
    # interpreted: block 0 of pass 0, which does what the plan did, and its last one: it is not full
    assert replayed(learner) == 4 * 7 - 1 - 1


class Rehearsed(Means):
    """Counts how often `update` runs while memory is planned."""

    times: ClassVar[int] = 0

    def update(self, block: bl.Block) -> None:
        type(self).times += self.cache.reserving
        super().update(block)


class RehearsedAfterEnds(Rehearsed):
    """Does something at the end of a pass."""

    def end_pass(self) -> None:
        self.mean <<= self.mean * 0.5


@pytest.mark.parametrize(("kind", "times"), [(Rehearsed, 2), (RehearsedAfterEnds, 3)])
def test_an_update_is_planned_again_after_ends_that_do_something(kind: Any, times: int) -> None:
    kind.times = 0
    bl.Learner(kind(), data(), block_rows=ROWS, threads=1, verbose=False).fit()
    assert kind.times == times + 1  # once as a block that is not full


class NotAsPlanned(Means):
    """Launches something in blocks that it did not launch while memory was planned."""

    def update(self, block: bl.Block) -> None:
        super().update(block)
        if not self.cache.reserving:
            self.mean <<= self.mean * 0.5


def test_blocks_that_do_not_do_what_the_plan_did_confirm_each_other() -> None:
    learner, _ = both(NotAsPlanned(), data(6 * ROWS))
    assert replayed(learner) == 4 * 6 - 2


def test_what_was_planned_and_no_block_does_is_dropped() -> None:
    """Each block would look first whether it is to do that, since it uses more earlier results."""
    learner = bl.Learner(
        LDA(topics=2, inference="vb"), counts((PATIENCE + 4) * ROWS), block_rows=ROWS, threads=1
    ).fit()
    assert learner.team is not None
    kinds = learner.team.first.replays._kinds.values()
    assert not any(take.planned for takes in kinds for take in takes._takes)


def test_replicas_replay_too() -> None:
    learner, _ = both(Means(), data(20 * ROWS), replicas=2, sync_every=2)
    assert replayed(learner) == 4 * 20 - 2


def test_a_phase_has_recordings_of_its_own() -> None:
    learner, _ = both(InPhases(), data(6 * ROWS), passes=5)
    # the first block of each pass is interpreted, since the model reads the number of the pass
    assert replayed(learner) == (6 - 1) + 5 + (6 - 1) + 5 + 5


def test_a_phase_is_no_number_of_the_block() -> None:
    learner, _ = both(ByPhase(), data(), passes=5)
    # interpreted: a full block and a last one of each phase
    assert replayed(learner) == 5 * 7 - 2 * (1 + 1)
    np.testing.assert_array_equal(
        learner.parameter("mean"), both(InPhases(), data(), passes=5)[0].parameter("mean")
    )


@pytest.mark.parametrize(
    ("settings", "interpreted"),
    first_often(
        [
            ({"topics": 2, "inference": "vb"}, [1]),
            ({"topics": 2}, [1, 1]),
            # the last phase draws by lists
            ({**KEPT, "topics": MANY["cpu"]}, [1, 1, 2, 2]),
        ],
        1,
    ),
)
def test_topics_are_replayed_from_pass_to_pass(settings: Any, interpreted: list[int]) -> None:
    learner, _ = both(LDA(**settings), counts(6 * ROWS), passes=5)
    assert len(learner.model.phases()) == len(interpreted)
    assert replayed(learner) == 5 * 6 - sum(interpreted)


def test_the_scale_of_topics_is_no_number_that_is_read() -> None:
    """So a block that is not full needs no rehearsal of its own."""
    learner, _ = both(LDA(topics=2, inference="vb"), counts())
    assert learner.team is not None and not learner.team.first.reads


@pytest.mark.parametrize(
    ("model", "optimizer"),
    [
        (LDA(topics=2, inference="vb"), None),
        (LDA(topics=2, same=2), None),
        (Ranking(rank=2), None),
        (ALS(rank=2, item_equations_mib=0), "adagrad"),
    ],
)
def test_blocks_of_which_all_rows_are_held_out_change_nothing(
    model: bl.Model, optimizer: str | None
) -> None:
    rows = RowFilter(MatrixSource(counts(), block_rows=1), 0.5, 0, held=False)
    learner, _ = both(model, rows, block_rows=1, passes=2, optimizer=optimizer)
    assert all(np.isfinite(each).all() for each in learner.state().tensors.values())
    assert replayed(learner) > 90


def test_operations_are_counted_and_current_results_are_not_computed_again() -> None:
    both_sides = both(ALS(rank=3, loss="implicit"), counts(), passes=5)
    one, other = (learner.team.flops for learner in both_sides if learner.team is not None)
    assert one == other
    assert replayed(both_sides[0]) > 0


def test_a_model_that_reads_numbers_is_interpreted(caplog: pytest.LogCaptureFixture) -> None:
    learner, _ = both(Reader(), data())
    assert replayed(learner) == 0


def weighted(rows: int) -> tuple[Any, None, np.ndarray[Any, Any]]:
    X = counts(rows)
    return X.toarray(), None, np.random.default_rng(1).random(rows).astype(np.float32)


def test_arithmetic_with_numbers_of_the_block_is_replayed() -> None:
    learner, _ = both(OfWeights(), weighted(20 * ROWS), passes=1)
    assert replayed(learner) == 20 - 1


def test_a_number_that_differs_in_every_block_is_named(caplog: pytest.LogCaptureFixture) -> None:
    X = weighted(40 * ROWS)
    with caplog.at_level(logging.WARNING, "blocklearn.learner"):
        learner, _ = both(ReadsWeights(), X, passes=1)
    assert replayed(learner) == 0
    (line,) = (r.message for r in caplog.records if "interpreted" in r.message)
    assert "ReadsWeights.update is interpreted for every block" in line
    assert "rate (number).set at" in line
    assert "test_replay.py" in line
    assert len(X[0]) // ROWS > PATIENCE


@pytest.mark.parametrize("loss", ["frobenius", *rarely("kullback-leibler")])
def test_parts_of_weighted_rows_are_replayed(loss: str) -> None:
    X = counts(12 * ROWS)
    weights = np.random.default_rng(1).random(X.shape[0]).astype(np.float32)
    learner, _ = both(NMF(components=3, loss=loss), (X, None, weights))
    assert replayed(learner) > 20


def test_an_optimizer_divides_by_the_weight_of_each_block() -> None:
    X = counts(12 * ROWS)
    rng = np.random.default_rng(1)
    Y, weights = ((rng.random((X.shape[0], n)) < 0.5).astype(np.float32) for n in (2, 1))
    given = (X, Y, weights[:, 0] + 0.5)
    learner, _ = both(GLM(l2=1e-3), given, optimizer=AdaGrad(rate=0.5))
    assert replayed(learner) > 20


class Unknown(StreamingAverage):
    """Counts in `step`, and does not say what its launches depend on."""

    kind: Any = "unknown"

    @property
    def form(self) -> None:
        return None


def test_an_optimizer_of_unknown_form_is_interpreted() -> None:
    model = bl.models.LDA(topics=3, inference="cvb0")
    learner, _ = both(model, counts(), optimizer=Unknown())
    assert replayed(learner) == 0


class Keeps(Hook):
    """Keeps a value of block 4, and reads it after block 5."""

    def __init__(self) -> None:
        self.kept: Any = None

    def block(self, learner: Any, progress: Any) -> None:
        if progress.block == 4:
            self.kept = learner.model.mean * 1.0
        if progress.block == 5:
            self.kept.mat()


def test_a_value_that_a_replayed_block_overwrote_is_stale() -> None:
    learner = bl.Learner(Means(), data(), block_rows=ROWS, threads=1, hooks=[Keeps()])
    with pytest.raises(StaleValueError, match="mean: the value computed at .*test_replay.py"):
        learner.fit()
    assert replayed(learner) > 0


class Scaled(Means):
    """Shrinks the mean, by a field that a hook may change."""

    factor: float = 0.5

    def update(self, block: bl.Block) -> None:
        super().update(block)
        self.mean <<= self.mean * self.factor


class ChangesField(Hook):
    """Sets a field of the model after block 4."""

    def block(self, learner: Any, progress: Any) -> None:
        if progress.block == 4:
            learner.model.factor = 0.25


def test_a_field_that_a_hook_sets_is_read() -> None:
    learner, _ = both(Scaled(), data(), hooks=[ChangesField()])
    assert replayed(learner) > 0


class Counter(Means):
    """Counts in an attribute."""

    seen: ClassVar[int] = 0

    def update(self, block: bl.Block) -> None:
        super().update(block)
        self.seen = self.seen + 1


def test_a_model_that_counts_in_python_is_interpreted(caplog: pytest.LogCaptureFixture) -> None:
    model = Counter()
    with caplog.at_level(logging.WARNING, "blocklearn.learner"):
        learner, _ = both(model, data(30 * ROWS), passes=1)
    assert replayed(learner) == 0
    (line,) = (r.message for r in caplog.records if "interpreted" in r.message)
    assert "it sets Counter.seen at" in line
    assert "test_replay.py" in line


class CountsEntries(Means):
    """Divides by the number of entries, which the host knows."""

    def update(self, block: bl.Block) -> None:
        self.rate.set(1.0 / max(block.X.nnz, 1))
        self.mean <<= self.mean + (block.X.T @ block.weights).T * self.rate

    def predict(self, block: bl.Block) -> Any:
        return (block.X @ self.mean.T).mat()


def test_a_last_block_of_fewer_entries_has_its_own_number() -> None:
    X = sp.csr_array(np.eye(9, dtype=np.float32)[np.arange(6 * ROWS + 3) % 9])  # one in each row
    learner, _ = both(CountsEntries(), X)
    assert replayed(learner) == 0


class Weighed(Means):
    """Scores by a matrix and by numbers: the weight of the block, and a field."""

    factor: float = 0.5

    def score(self, block: bl.Block) -> Any:
        lost = total((block.X - self.mean) * block.weights)
        return {"loss": bl.Sum(lost, block.weight), "mass": bl.Sum(self.mass, self.factor)}


class KeepsScores(Hook):
    """Keeps all scores. of_a_field: changes it after the second evaluation."""

    def __init__(self, of_a_field: bool) -> None:
        self.scores: list[dict[str, float]] = []
        self.of_a_field = of_a_field

    def evaluated(self, learner: Any, progress: Any) -> None:
        self.scores.append(dict(progress.scores))
        if self.of_a_field and len(self.scores) == 2:
            learner.model.factor = 0.25


@paired(
    4,
    replicas=[1, 2],
    case=[
        (Weighed(), data(9 * ROWS + 3)),
        (LDA(topics=3), counts()),
        (GLM(), (counts(), (np.arange(6 * ROWS + 3) % 2).astype(np.float32))),
        (ALS(rank=3), counts()),
        (NMF(components=3), counts()),
    ],
)
def test_scores_are_replayed_with_the_same_bits(
    case: tuple[bl.Model, Any], replicas: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, held = case
    called: list[bl.Block] = []
    score = type(model).score
    monkeypatch.setattr(
        type(model), "score", lambda self, block: (called.append(block), score(self, block))[1]
    )
    found = []
    for recorded in (True, False):
        hook = KeepsScores(of_a_field=isinstance(model, Weighed))
        learner = bl.Learner(
            model.model_copy(update={"recorded": recorded}),
            held,
            held,
            block_rows=ROWS,
            passes=5,
            replicas=replicas,
            threads=replicas,
            hooks=[hook],
        )
        called.clear()
        learner.fit()
        found.append((hook.scores, learner.progress.scored, len(called)))
    (scores, blocks, calls), (plain, same, all_calls) = found
    assert scores == plain
    assert blocks == same
    assert all_calls - calls > blocks / 3


def targets(rows: int = 6 * ROWS + 3) -> np.ndarray[Any, Any]:
    return (np.arange(rows) % 2).astype(np.float32)


@pytest.mark.parametrize(
    ("model", "given", "side", "replicas"),
    [
        (Means(), data(), 0, 2),
        (LDA(topics=3), counts(), 0, 1),
        (GLM(output="score"), (counts(), targets()), 0, 2),
        (ALS(rank=3), counts(), 1, 1),
        *rarely(
            (ALS(rank=3), counts(), 0, 2),
            (NMF(components=3), counts(), 0, 1),
            (GaussianMixture(components=3), data(), 0, 2),
            (SVD(components=3), counts(), 0, 1),
        ),
    ],
    ids=["means", "lda", "glm", "als-columns", "als", "nmf", "mixture", "svd"],
)
def test_predictions_are_replayed_with_the_same_bits(
    model: bl.Model, given: Any, side: int, replicas: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[bl.Block] = []
    predict = type(model).predict
    monkeypatch.setattr(
        type(model), "predict", lambda self, block: (called.append(block), predict(self, block))[1]
    )
    found = []
    for recorded in (True, False):
        learner = bl.Learner(
            model.model_copy(update={"recorded": recorded}),
            given,
            block_rows=ROWS,
            passes=2,
            replicas=replicas,
            threads=replicas,
        ).fit()
        X = given[0] if isinstance(given, tuple) else given
        X = X.T.tocsr() if side else X
        new = MatrixSource(X[np.arange(20 * ROWS + 3) % X.shape[0]], block_rows=ROWS)
        called.clear()
        rows = [learner.predict(new, side=side) for _ in range(2)]
        learner.fit(given)  # other parameters
        found.append(([*rows, learner.predict(new, side=side)], len(called)))
    (rows, calls), (plain, all_calls) = found
    for mine, its in zip(rows, plain, strict=True):
        np.testing.assert_array_equal(mine, its)
    assert not np.array_equal(rows[1], rows[2]) or isinstance(model, SVD)
    assert all_calls >= 3 * 21
    assert calls <= all_calls / 3


def test_predictions_from_tables_in_files_are_replayed(tmp_path: Path) -> None:
    X, Y = counts(), targets()
    found = []
    for recorded in (True, False):
        learner = bl.Learner(
            GLM().model_copy(update={"recorded": recorded}),
            (X, Y),
            block_rows=ROWS,
            threads=1,
            table_folder=tmp_path,
        ).fit()
        before = replayed(learner)
        found.append(learner.predict(X[np.arange(20 * ROWS) % X.shape[0]]))
        assert (replayed(learner) - before > 10) == recorded
        learner.close()
    np.testing.assert_array_equal(*found)


def ends(learner: bl.Learner) -> list[int]:
    """Return how many ends of passes each replica has replayed."""
    assert learner.team is not None
    return [replica.endings.count for replica in learner.team.replicas]


def links() -> sp.csr_array:
    return sp.csr_array(sp.random_array((40, 40), density=0.05, rng=0, dtype=np.float32))


def few_columns() -> sp.csr_array:
    """Rows of which a block has few of the columns: centres rest."""
    return sp.random_array((6 * ROWS, 4000), density=0.002, rng=0, dtype=np.float32).tocsr()


@paired(
    8,
    options=[{}, {"threads": 2}, {"replicas": 2}],
    case=[
        (GaussianMixture(components=3, covariance="full"), data()),
        (KMeans(clusters=3, update_centres="batch"), data()),
        (NMF(components=3, update_H="batch"), counts()),
        (SVD(components=3, exact=False), counts()),
        (LDA(topics=3, inference="gibbs"), counts()),
        (PageRank(tolerance=0.0), links()),
        (Components(), links()),
        (KMeans(clusters=3), few_columns()),
        (GaussianMixture(components=3), data()),
        (NMF(components=3, update_H="batch", loss="kullback-leibler"), counts()),
        (SVD(components=3), data()),
        (ALS(rank=3), counts()),
    ],
)
def test_ends_of_passes_are_replayed_with_the_same_bits(
    case: tuple[bl.Model, Any], options: dict[str, int]
) -> None:
    model, X = case
    one, other = both(model, X, **{"passes": 8, **options})
    assert sum(ends(other)) == 0
    passes = one.progress.pass_
    assert all(count >= passes - 5 for count in ends(one))
    assert passes < 6 or all(ends(one))


@pytest.mark.parametrize(
    ("model", "optimizer"),
    [
        (GLM(l2=1e-2), AdaGrad()),
        (GLM(l1=1e-3), AdaGrad(step_per="row")),
        (GLM(l1=1e-3), FTRL()),
        (LDA(topics=3, inference="cvb0"), StreamingAverage()),
    ],
    ids=["blocks", "rows", "ftrl", "estimates"],
)
def test_an_optimizer_ends_passes_from_a_recording(
    model: bl.Model, optimizer: Optimizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    called, end = [], type(optimizer).end_pass

    def noted(self: Any) -> None:
        called.append(self)
        end(self)

    monkeypatch.setattr(type(optimizer), "end_pass", noted)
    X = sp.random_array((3 * ROWS, 4000), density=0.002, rng=0, dtype=np.float32).tocsr()
    data = (X, np.arange(3 * ROWS) % 2) if isinstance(model, GLM) else X
    one, other = both(model, data, passes=8, optimizer=optimizer)
    assert len([each for each in called if each is one.optimizer]) == 3  # the plan, and two passes
    assert len([each for each in called if each is other.optimizer]) == 9


class Steps(AdaGrad):
    """Ends training by what Python counts in a step."""

    kind: Any = "steps"

    def step(self, updates: Any, objective: Any = None) -> None:
        super().step(updates, objective)
        self.converged = self.steps >= 7 * 3


class Ends(AdaGrad):
    """Ends training at the end of a pass."""

    kind: Any = "ends"

    def end_pass(self) -> None:
        super().end_pass()
        self.converged = self.steps >= 7 * 3


class Settles(Ends):
    """Ends training where rows are brought up to date."""

    kind: Any = "settles"

    def settle(self) -> None:
        super().settle()
        self.converged = self.steps >= 6 * 3


class Recorded(AdaGrad):
    """Says itself what its own end of a pass depends on."""

    kind: Any = "recorded"

    def end_pass(self) -> None:
        super().end_pass()

    @property
    def end_form(self) -> Any:
        return super().end_form


@pytest.mark.parametrize(
    ("optimizer", "steps", "of_pass"),
    [(Steps(), 0, 1), (Ends(), 1, 0), (Settles(), 1, 0), (Recorded(), 1, 1)],
    ids=["step", "end_pass", "settle", "both"],
)
def test_methods_of_a_subclass_run_unless_it_says_what_they_depend_on(
    optimizer: Optimizer, steps: int, of_pass: int
) -> None:
    """Which of steps and ends of passes are replayed."""
    data = counts(3 * ROWS), np.arange(3 * ROWS) % 2
    one, other = both(GLM(l2=1e-2), data, passes=9, optimizer=optimizer)
    assert one.progress.pass_ == other.progress.pass_ == (9 if steps and of_pass else 7)
    assert (replayed(one) > 0) == steps
    assert (ends(one)[0] > 7) == of_pass  # those of the model are, too


class Counting(Means):
    """Counts passes in an attribute."""

    passes: ClassVar[int] = 0

    def end_pass(self) -> None:
        self.passes = self.passes + 1
        self.mean <<= self.mean * 0.5


def test_the_end_of_a_pass_that_counts_in_python_is_interpreted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO, "blocklearn.learner"):
        learner, _ = both(Counting(), data(), passes=PATIENCE + 5)
    assert ends(learner) == [0]
    (line,) = (
        r.message for r in caplog.records if "end_pass is interpreted for every pass" in r.message
    )
    assert "it sets Counting.passes at" in line
    assert "test_replay.py" in line


def test_only_what_is_confirmed_is_laid_out(monkeypatch: pytest.MonkeyPatch) -> None:
    tapes: list[Tape] = []
    lay_out = Tape.lay_out
    monkeypatch.setattr(Tape, "lay_out", lambda tape: (tapes.append(tape), lay_out(tape))[1])
    bl.Learner(Means(), data(), block_rows=ROWS, passes=4, threads=1).fit()
    assert len(tapes) == 2  # blocks, ends of passes
