"""The loop: passes, evaluation, hooks, state, predictions, errors, life and death."""

from __future__ import annotations

import re
import threading
from typing import Any, ClassVar

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.datasources import DataError, MatrixSource
from blocklearn.fields import FieldError
from blocklearn.learner.errors import DivergedError
from blocklearn.matcache import ShapeError, colsum, total
from tests.support.corpora import planted
from tests.support.often import first_often
from tests.support.own_threads import no_thread_left


class Means(bl.Model):
    """Mean of each column so far: small enough to check every number by hand."""

    def allocate(self, shapes: Any, rng: Any) -> None:
        self.sums = self.parameter("sums", 1, shapes.columns)
        self.rows = self.parameter("rows", 1, 1)
        self.count = self.number("rows of the block")

    def update(self, block: Any) -> None:
        self.count.set(block.rows)
        self.sums <<= self.sums + colsum(block.X)
        self.rows <<= self.rows + self.count

    def score(self, block: Any) -> Any:
        distance = block.X - self.sums / self.rows
        real = block.row_ids >= 0.0
        return {"squared": bl.Sum(total(distance * distance * real), total(real))}

    def predict(self, block: Any) -> Any:
        return (block.X - self.sums / self.rows).mat()


class Events(bl.Hook):
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int, int]] = []

    def start(self, learner: Any, progress: Any) -> None:
        self.seen.append(("start", progress.pass_, progress.block))

    def block(self, learner: Any, progress: Any) -> None:
        self.seen.append(("block", progress.pass_, progress.block))

    def evaluated(self, learner: Any, progress: Any) -> None:
        self.seen.append(("evaluated", progress.pass_, progress.block))

    def pass_end(self, learner: Any, progress: Any) -> None:
        self.seen.append(("pass_end", progress.pass_, progress.block))

    def end(self, learner: Any, progress: Any) -> None:
        self.seen.append(("end", progress.pass_, progress.block))


@pytest.fixture
def data() -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).normal(size=(25, 4)).astype(np.float32)


def test_every_row_is_trained_on_in_every_pass(data: Any) -> None:
    learner = bl.Learner(Means(), train=data, passes=3, block_rows=10, threads=2).fit()
    np.testing.assert_allclose(
        learner.model.parameters["sums"].numpy()[0], 3 * data.sum(axis=0), rtol=1e-4, atol=1e-5
    )
    assert float(learner.model.parameters["rows"]) == 75
    assert learner.progress.rows == 75
    assert learner.progress.allocations_after_warmup == 0


def test_hooks_hear_everything_in_order(data: Any) -> None:
    events = Events()
    bl.Learner(
        Means(),
        data,
        data,
        passes=2,
        block_rows=10,
        evaluation=bl.Evaluation(every_passes=2),
        hooks=[events],
    ).fit()
    first = [("block", 0, b) for b in (1, 2, 3)] + [("pass_end", 0, 3)]
    second = [("block", 1, b) for b in (1, 2, 3)] + [("evaluated", 1, 3), ("pass_end", 1, 3)]
    assert events.seen == [("start", 0, 0), *first, *second, ("end", 1, 3)]


def test_blocks_are_told_to_hooks_that_hear_them_alone(
    data: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To tell of a block takes as long as to train on a small one."""

    class Passes(bl.Hook):
        rows: ClassVar[list[int]] = []

        def pass_end(self, learner: Any, progress: Any) -> None:
            self.rows.append(progress.rows)

    told: list[str] = []
    tell = bl.Learner._tell

    def noted(learner: bl.Learner, event: str) -> None:
        told.append(event)
        tell(learner, event)

    monkeypatch.setattr(bl.Learner, "_tell", noted)
    bl.Learner(Means(), data, passes=2, block_rows=10, hooks=[Passes()], verbose=False).fit()
    assert told.count("block") == 1  # the first one, after which numbers are checked
    assert Passes.rows == [25, 50]


def test_a_method_of_a_hook_alone_hears_blocks(data: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    hook, heard = bl.Hook(), []
    monkeypatch.setattr(hook, "block", lambda learner, progress: heard.append(progress.block))
    bl.Learner(Means(), data, passes=2, block_rows=10, hooks=[hook], verbose=False).fit()
    assert heard == [1, 2, 3] * 2


def test_scores_and_predictions_are_those_of_numpy(data: Any) -> None:
    other = np.random.default_rng(1).normal(size=(13, 4)).astype(np.float32)
    learner = bl.Learner(Means(), data, other, block_rows=8, threads=2).fit()
    mean = data.mean(axis=0)
    squared = ((other - mean) ** 2).sum() / 13
    assert learner.progress.scores["squared"] == pytest.approx(squared, rel=1e-5)
    assert learner.evaluate(other)["squared"] == pytest.approx(squared, rel=1e-5)
    np.testing.assert_allclose(learner.predict(other), other - mean, atol=1e-5)
    shuffled = MatrixSource(other, block_rows=8, shuffle=True, seed=3)
    np.testing.assert_allclose(learner.predict(shuffled), other - mean, atol=1e-5)


def test_texts_in_place_of_a_matrix_are_named() -> None:
    with pytest.raises(DataError, match=r"X has texts \('to be' \.\.\.\)"):
        bl.sparse(["to be"])
    with pytest.raises(DataError, match="row 1 has 1 numbers, and row 0 has 2"):
        bl.sparse([[1, 2], [3]])


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: bl.models.LDA(topcis=3), "unknown parameter; did you mean topics?"),
        (lambda: bl.optimizers.AdaGrad(rat=0.1), "unknown parameter; did you mean rate?"),
        (lambda: bl.mixins.L1(wieght=0.1), "unknown parameter; did you mean weight?"),
        (lambda: bl.models.GLM(targets=[{"colum": 1}]), "unknown parameter; did you mean column?"),
        (lambda: bl.Evaluation(metrik="auc"), "unknown parameter; did you mean metric?"),
        (lambda: bl.models.NMF(zzz=1), "unknown parameter; the parameters are components, loss"),
    ],
)
def test_a_field_that_is_unknown_gets_the_nearest_name(make: Any, told: str) -> None:
    with pytest.raises(ValueError, match=re.escape(told)):
        make()


def test_other_mistakes_are_told_beside_an_unknown_field() -> None:
    with pytest.raises(FieldError) as error:
        bl.models.LDA(topcis=3, topics=0, alpha="x")
    problems = error.value.problems
    assert set(problems) == {"alpha", "topcis", "topics"}
    assert problems["topcis"] == "unknown parameter; did you mean topics?"
    assert problems["topics"] == "must be at least 1."


def test_state_continues_to_the_same_bits() -> None:
    X, _ = planted(documents=130)
    model = bl.models.LDA(topics=4)

    def learner(passes: int) -> bl.Learner:
        return bl.Learner(model, train=X, passes=passes, block_rows=50, threads=1)

    whole = learner(4).fit().state()
    half = learner(2).fit().state()
    rest = learner(4)
    rest.restore(half)
    continued = rest.fit().state()
    assert continued.position["rows"] == whole.position["rows"] == 4 * 130
    for name, tensor in whole.tensors.items():
        assert tensor.tobytes() == continued.tensors[name].tobytes()


def test_a_pass_can_be_continued_in_the_middle() -> None:
    X, _ = planted(documents=130)

    class Stop(Exception):
        pass

    class StopAt(bl.Hook):
        def block(self, learner: Any, progress: Any) -> None:
            if (progress.pass_, progress.block) == (1, 2):
                states.append(learner.state())
                raise Stop

    states: list[Any] = []
    options: dict[str, Any] = {"train": X, "passes": 3, "block_rows": 40, "threads": 2}
    with pytest.raises(Stop):
        bl.Learner(bl.models.LDA(topics=4), **options, hooks=[StopAt()]).fit()
    rest = bl.Learner(bl.models.LDA(topics=4), **options)
    rest.restore(states[0])
    whole = bl.Learner(bl.models.LDA(topics=4), **options).fit().state()
    assert rest.fit().state().tensors["lambda"].tobytes() == whole.tensors["lambda"].tobytes()


def test_fit_after_fit_has_nothing_left_to_do(data: Any) -> None:
    learner = bl.Learner(Means(), data, passes=2).fit()
    before = learner.state().tensors["sums"]
    learner.fit()
    np.testing.assert_array_equal(learner.state().tensors["sums"], before)


def test_two_learners_do_not_disturb_each_other(data: Any) -> None:
    X, _ = planted(documents=200)
    alone = bl.Learner(bl.models.LDA(topics=4), train=X, passes=3, threads=2).fit().state()
    found: list[Any] = [None, None]

    def run(place: int) -> None:
        learner = bl.Learner(bl.models.LDA(topics=4), train=X, passes=3, threads=2)
        found[place] = learner.fit().state()

    threads = [threading.Thread(target=run, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for state in found:
        assert state.tensors["lambda"].tobytes() == alone.tensors["lambda"].tobytes()


def test_close_frees_memory_and_threads_and_keeps_the_model(data: Any) -> None:
    with no_thread_left():
        learner = bl.Learner(Means(), data, passes=1, threads=3).fit()
        predictions = learner.predict(data)
        learner.close()
    np.testing.assert_array_equal(learner.predict(data), predictions)
    learner.close()


def test_larger_blocks_than_in_training_can_be_predicted() -> None:
    X, _ = planted(documents=60)
    learner = bl.Learner(bl.models.LDA(topics=3), train=X, block_rows=32, threads=1).fit()
    dense = sp.csr_array(np.ones((50, X.shape[1]), np.float32))
    theta = learner.predict(dense)
    np.testing.assert_allclose(theta, np.broadcast_to(theta[0], theta.shape), rtol=1e-5)


def test_mistakes_are_explained(data: Any) -> None:
    with pytest.raises(ValueError, match="passes=0"):
        bl.Learner(Means(), data, passes=0)
    with pytest.raises(ValueError, match=r"passes=100,000,.*: must be at most 2,147,483,647"):
        bl.Learner(Means(), data, passes=10**20)
    with pytest.raises(ValueError, match="nothing to train on"):
        bl.Learner(Means()).fit()
    learner = bl.Learner(Means(), data, block_rows=10).fit()
    with pytest.raises(ShapeError, match="Rows are samples, columns features"):
        learner.predict(data.T)
    with pytest.raises(DataError, match="not finite|finite"):
        learner.predict(np.full((3, 4), np.nan))

    class Forgot(Means):
        def update(self, block: Any) -> None:
            self.updates["sums"] = self.sums * 1.0

    with pytest.raises(ShapeError, match="there is no optimizer"):
        bl.Learner(Forgot(), data).fit()


def test_an_untrained_model_does_not_predict(data: Any) -> None:
    learner = bl.Learner(Means(), data)
    for use in (learner.predict, learner.evaluate):
        with pytest.raises(ValueError, match="nothing is trained or loaded yet"):
            use(data)


def test_dense_and_sparse_data_are_told_apart(data: Any) -> None:
    learner = bl.Learner(Means(), data, block_rows=10).fit()
    with pytest.raises(ShapeError, match=r"the data are sparse: must be dense.* X.toarray\(\)"):
        learner.predict(sp.csr_array(data))


def test_state_of_a_model_stays_valid() -> None:
    model = bl.models.LDA(topics=3)
    with pytest.raises(ValueError, match="at least 1"):
        model.topics = -5


def test_a_model_that_fails_stops_the_run_with_its_own_error(data: Any) -> None:
    class Broken(Means):
        def update(self, block: Any) -> None:
            super().update(block)
            if block.rows == 5:
                raise RuntimeError("block of five")

    with no_thread_left():
        learner = bl.Learner(Broken(), data, block_rows=10, threads=2)
        with pytest.raises(RuntimeError, match="block of five"):
            learner.fit()
        learner.close()


def test_a_score_that_is_not_finite_stops_the_run_and_names_the_block(data: Any) -> None:
    class Diverges(Means):
        def score(self, block: Any) -> Any:
            real = block.row_ids >= 0.0
            return {"squared": bl.Sum(total(1.0 / (self.rows - self.rows)), total(real))}

    with pytest.raises(DivergedError, match="squared of block 0 is inf after 25 rows"):
        bl.Learner(Diverges(), data, data, passes=9, block_rows=10, threads=1).fit()


def test_the_plan_is_what_is_allocated(data: Any) -> None:
    X, _ = planted(documents=100)
    learner = bl.Learner(bl.models.LDA(topics=4), train=X, eval=X, block_rows=50, threads=2)
    rows = [row for row in learner.plan().rows if row.of != "scores"]  # which are not in the cache
    planned = sum(row.nbytes for row in rows if not row.name.startswith("ring"))
    learner.fit()
    assert planned <= learner.progress.cache_bytes <= planned + 256 * 60  # alignment
    assert learner.progress.allocations_after_warmup == 0


def test_a_model_that_reads_numbers_still_trains(data: Any, caplog: Any) -> None:
    class Reads(Means):
        def update(self, block: Any) -> None:
            super().update(block)
            if float(self.rows) > 10:
                self.rows <<= self.rows + 0.0

    learner = bl.Learner(Reads(), data, passes=2, block_rows=10, threads=1).fit()
    assert "the memory plan is incomplete" in caplog.text
    assert float(learner.model.parameters["rows"]) == 50


def test_a_closed_learner_still_has_its_state(data: Any) -> None:
    learner = bl.Learner(Means(), data, passes=2, block_rows=10, threads=1).fit()
    before = learner.state()
    learner.close()
    assert learner.state().position == before.position
    np.testing.assert_array_equal(learner.state().tensors["sums"], before.tensors["sums"])


@pytest.mark.parametrize("kind", first_often(["lda", "als", "nmf"]))
def test_a_closed_learner_trains_on_whatever_it_was_used_for_meanwhile(kind: str) -> None:
    """What it predicts then has smaller blocks than its training data."""
    X, _ = planted(documents=60)
    model = {
        "lda": bl.models.LDA(topics=3), "als": bl.models.ALS(rank=3),
        "nmf": bl.models.NMF(components=3),
    }[kind]  # fmt: skip
    learner, whole = (
        bl.Learner(model, X, passes=passes, block_rows=16, threads=1).fit() for passes in (2, 3)
    )
    learner.close()
    learner.predict(X[:2])
    learner.passes = 3
    learner.fit()
    tensors = whole.state().tensors
    found = {name: array.tobytes() for name, array in learner.state().tensors.items()}
    assert found == {name: array.tobytes() for name, array in tensors.items()}


def test_a_part_of_a_stream_weighs_as_a_part() -> None:
    """LDA scales what a block says to the whole: here twice the rows that it is given."""
    X, _ = planted(documents=100)
    model = bl.models.LDA(topics=4, inference="cvb0", eta=1e-6)
    sums = [
        bl.Learner(model, X, of_rows=rows, seed=1).fit().parameter("lambda").sum()
        for rows in (None, 200)
    ]
    rho = 2.0**-0.9  # of the only step, from lambdas near 1
    start = (1 - rho) * X.shape[1] * 4
    assert sums[1] - start == pytest.approx(2 * (sums[0] - start), rel=0.02)


def test_attributes_that_have_moved_are_found_with_a_warning() -> None:
    learner = bl.Learner("lda", threads=1, seed=5)
    with pytest.warns(DeprecationWarning, match="Learner.seed is now Learner.execution.seed"):
        assert learner.seed == 5
    with pytest.warns(DeprecationWarning, match="Learner.targets is now Learner.data.targets"):
        assert learner.targets is None
    with pytest.raises(AttributeError, match="no attribute 'colour'"):
        _ = learner.colour
    assert not hasattr(learner, "training") and not hasattr(learner, "open")
