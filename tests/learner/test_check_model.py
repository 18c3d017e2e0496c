"""`bl.check_model` finds planted faults, and says which check, which parameter and what to do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import blocklearn as bl
from blocklearn.learner.checking.check_model import ContractError
from blocklearn.learner.checking.contract import CHECKS
from blocklearn.learner.checking.gradients import wrong_gradient
from blocklearn.learner.checking.runs import Case
from blocklearn.learner.checking.sample import SampleSource, take_sample
from blocklearn.matcache import ShapeError, colsum, rowsum, total
from blocklearn.optimizers import SGD, Gradient
from tests.models.test_row_state import Power, ratings

rng = np.random.default_rng(0)
X = rng.random((40, 4)).astype(np.float32)
Y = (X @ rng.standard_normal((4, 2)) > 0).astype(np.float32)


class Means(bl.Model):
    """Means of columns over all rows: keeps the contract."""

    def allocate(self, shapes: Any, rng: Any) -> None:
        self.sums = self.parameter("sums", 1, shapes.columns, merge="sum")
        self.count = self.parameter("count", 1, 1, 1.0, merge="sum")
        self.ones = self.scratch("ones", shapes.rows, 1)
        self.factor = self.number("factor", 1.0)

    def update(self, block: Any) -> None:
        self.sums <<= self.sums + colsum(block.X * block.weights)
        self.count <<= self.count + total(block.weights)

    def score(self, block: Any) -> Any:
        return {"size": bl.Sum(total(block.X * block.weights), total(block.weights))}

    def predict(self, block: Any) -> Any:
        return ((block.X * self.sums) / self.count).mat()


def fault(model: bl.Model, data: Any = X, **options: Any) -> ContractError:
    with pytest.raises(ContractError) as caught:
        bl.check_model(model, data, **options)
    assert str(caught.value).startswith(f"{type(model).__name__}: check {caught.value.check!r}: ")
    return caught.value


def test_a_model_without_fault() -> None:
    applied = bl.check_model(Means(), X)
    assert applied == [name for name in CHECKS if name != "gradients"]


def test_a_model_with_states_of_rows() -> None:
    assert "resume" in bl.check_model(Power(), ratings(60, 20))


def test_an_optimizer_and_mixins_take_part() -> None:
    mixins = [bl.mixins.L2(weight=0.1, parameters=["W"])]
    options: dict[str, Any] = {"optimizer": SGD(rate=0.1, momentum=0.5), "mixins": mixins}
    assert bl.check_model(Squares(), (bl.sparse(X), Y), **options) == list(CHECKS)
    sample = take_sample(Squares(), (X, Y), 40)
    learner = Case(Squares(), sample, options["optimizer"], mixins).learner()
    assert learner.optimizer == options["optimizer"] and learner.mixins == mixins


# ---- Python beside the matrices -----------------------------------------------------------------


def test_a_counter_in_python() -> None:
    class Counts(Means):
        def allocate(self, shapes: Any, rng: Any) -> None:
            super().allocate(shapes, rng)
            self.seen: list[int] = []

        def update(self, block: Any) -> None:
            self.seen.append(block.rows)
            super().update(block)

    found = fault(Counts())
    assert found.check == "python"
    assert "attribute self.seen changed in block 0 of pass 0: must stay" in str(found)
    assert "Keep it in a parameter" in str(found)


def test_random_numbers_of_numpy_in_update() -> None:
    class Draws(Means):
        def update(self, block: Any) -> None:
            self.sums <<= self.sums + float(np.random.random()) * colsum(block.X)

    found = fault(Draws())
    assert "Draws.update: must be the same each time it runs on a block" in str(found)
    assert "random(self.cache, shape, block.key)" in str(found)


def test_random_numbers_of_numpy_in_allocate() -> None:
    class Draws(Means):
        def allocate(self, shapes: Any, rng: Any) -> None:
            super().allocate(shapes, rng)
            self.sums.set(np.random.random((1, shapes.columns)))

    found = fault(Draws())
    assert found.check == "repeats"
    assert "parameter 'sums' after block 0 of pass 0: must have the same bits" in str(found)


def test_what_depends_on_the_number_of_threads() -> None:
    class Threads(Means):
        def update(self, block: Any) -> None:
            self.sums <<= self.sums + float(self.cache.backend.threads) * colsum(block.X)

    found = fault(Threads())
    assert found.check == "threads"
    assert "parameter 'sums' after block 0 of pass 0: must have the same bits with 2" in str(found)


# ---- memory and files ---------------------------------------------------------------------------


def test_an_allocation_that_comes_late() -> None:
    class Late(Means):
        def update(self, block: Any) -> None:
            scaled = self.sums * float(block.pass_ + 1)
            self.sums <<= scaled / (1.0 + total(scaled)) + colsum(block.X)

    found = fault(Late())
    assert found.check == "training"
    assert "mul(sums, 2)" in str(found) and f"{__file__}:" in str(found)


def test_what_lasts_in_scratch() -> None:
    class Scratch(Means):
        def allocate(self, shapes: Any, rng: Any) -> None:
            super().allocate(shapes, rng)
            self.last = self.scratch("last", 1, shapes.columns)

        def update(self, block: Any) -> None:
            self.sums <<= self.sums + self.last
            self.last <<= colsum(block.X)

    found = fault(Scratch())
    assert found.check == "resume"
    assert "parameter 'sums' after block 1 of pass 0, resumed after block 0 of pass 0" in str(found)
    assert "not scratch" in str(found)


def test_a_prediction_from_what_is_not_saved() -> None:
    class Unsaved(Means):
        def allocate(self, shapes: Any, rng: Any) -> None:
            self.sums = self.parameter("sums", 1, shapes.columns, saved=False)
            self.count = self.parameter("count", 1, 1, 1.0)

    found = fault(Unsaved())
    assert found.check == "folder"
    assert "predictions of the model that was saved and loaded: must have" in str(found)


def test_a_field_that_changes_when_it_is_loaded() -> None:
    class Doubled(Means):
        power: float = 1.0

        def model_dump(self, **options: Any) -> Any:
            return super().model_dump(**options) | {"power": 2 * self.power}

    found = fault(Doubled())
    assert found.check == "folder" and "power=2.0" in str(found)


def test_what_is_needed_for_training_only_is_not_missed() -> None:
    class Further(Means):
        def allocate(self, shapes: Any, rng: Any) -> None:
            super().allocate(shapes, rng)
            self.last = self.parameter("last", 1, shapes.columns, saved=False)

        def update(self, block: Any) -> None:
            super().update(block)
            self.sums <<= self.sums + self.last
            self.last <<= colsum(block.X)

    assert "folder" in bl.check_model(Further(), X)


# ---- rows that are none -------------------------------------------------------------------------


def test_padding_rows_that_count() -> None:
    class Padded(Means):
        def update(self, block: Any) -> None:
            self.ones <<= 1.0
            self.sums <<= self.sums + colsum(block.X)
            self.count <<= self.count + total(self.ones)

    found = fault(Padded())
    assert found.check == "padding"
    assert "predictions[" in str(found) and "Multiply what is summed over rows" in str(found)


def test_a_block_without_entries() -> None:
    class Shares(Means):
        def update(self, block: Any) -> None:
            self.sums <<= self.sums + colsum(block.X / rowsum(block.X))

    found = fault(Shares())
    assert found.check == "empty block"
    assert "block 1 has no entries in any row: must leave all numbers finite" in str(found)
    assert "sums is not finite after blocks 1 to 2 of pass 0" in str(found)


def test_a_score_without_entries() -> None:
    class Shares(Means):
        def predict(self, block: Any) -> Any:
            return (block.X / rowsum(block.X)).mat()

    found = fault(Shares())
    assert found.check == "empty block"
    assert "predictions[18, 0]=nan where block 1 has no entries in any row" in str(found)


def test_a_last_block_of_one_row() -> None:
    class Variances(Means):
        def update(self, block: Any) -> None:
            self.factor.set(float(np.float32(1.0) / np.maximum(np.float32(block.rows - 1), 0)))
            self.sums <<= self.sums + self.factor * colsum(block.X)

    with np.errstate(divide="ignore"):
        found = fault(Variances())
    assert found.check == "single row"
    assert "the last block has one row: must leave all numbers finite" in str(found)


# ---- gradients ----------------------------------------------------------------------------------


class Squares(bl.Model):
    """Least squares by its gradient."""

    meaning = "gradients"
    needs_targets = True
    wrong: float = 1.0

    def default_optimizer(self) -> Any:
        return SGD(rate=0.01)

    def allocate(self, shapes: Any, rng: Any) -> None:
        self.W = self.parameter("W", shapes.columns, shapes.targets)
        self.b = self.parameter("b", 1, shapes.targets)

    def update(self, block: Any) -> None:
        R = (self.predict(block) - block.Y) * block.weights / total(block.weights)
        self.updates["W"] = Gradient(block.X, R.mat())
        self.updates["b"] = self.wrong * colsum(R)

    def score(self, block: Any) -> Any:
        error = self.predict(block) - block.Y
        return {"loss": bl.Sum(0.5 * total(error * error * block.weights), total(block.weights))}

    def predict(self, block: Any) -> Any:
        return (block.X @ self.W + self.b).mat()


@pytest.mark.parametrize("data", [(X, Y), (bl.sparse(X), Y, np.linspace(0.5, 2.0, 40))])
def test_gradients(data: Any) -> None:
    assert wrong_gradient(Case(Squares(), take_sample(Squares(), data, 40), None, ())) is None
    model = Squares(wrong=1.5)
    wrong = wrong_gradient(Case(model, take_sample(model, data, 40), None, ()))
    assert not isinstance(wrong, bool) and wrong is not None
    assert wrong.parameter == "b"


def test_the_message_about_a_gradient() -> None:
    found = fault(Squares(wrong=-1.0), (X, Y))
    assert found.check == "gradients"
    assert "updates of parameter 'b' in block 0: slope=" in str(found)
    assert "Hand over the derivative of the weighted mean" in str(found)


def test_a_loss_that_is_not_known() -> None:
    class Unknown(Squares):
        def score(self, block: Any) -> Any:
            return {"error": super().score(block)["loss"]}

    assert "gradients" not in bl.check_model(Unknown(wrong=3.0), (X, Y))


# ---- data ---------------------------------------------------------------------------------------


def test_a_sample_of_any_data() -> None:
    weights = np.arange(40, dtype=np.float32)
    for data in (X, bl.sparse(X), (X, Y), (bl.sparse(X), Y, weights)):
        sample = take_sample(Means(), data, 20)
        given = data if isinstance(data, tuple) else (data,)
        dense = sample.X if isinstance(sample.X, np.ndarray) else sample.X.toarray()
        np.testing.assert_array_equal(dense, X[:20])
        assert (sample.Y is not None) == (len(given) > 1)
        assert (sample.weights is not None) == (len(given) > 2)
    again = take_sample(Means(), SampleSource(sample, [7, 7, 6], 9), 15)
    np.testing.assert_array_equal(again.X.toarray(), X[:15])
    np.testing.assert_array_equal(again.weights, weights[:15])


def test_data_that_are_too_few() -> None:
    with pytest.raises(ValueError, match="rows=5: must be at least 8. Pass more rows"):
        bl.check_model(Means(), X[:5])
    with pytest.raises(ShapeError, match="targets"):
        bl.check_model(Squares(), X)
