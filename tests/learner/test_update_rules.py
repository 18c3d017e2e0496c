"""Updates that would train nothing, or not the same twice, are refused when memory is planned."""

from __future__ import annotations

import operator
import random as python_random
import re
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.datasources import MatrixSource
from blocklearn.matcache import (
    AllocationAfterWarmupError,
    MatCache,
    ShapeError,
    colsum,
    from_array,
    random,
    rowsum,
    total,
)
from blocklearn.models import LDA
from blocklearn.models.errors import UpdateError
from blocklearn.optimizers import SGD, CombinationError, IncNorm

X = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)


class Sums(bl.Model):
    """The sum of all rows."""

    def allocate(self, shapes: Any, rng: Any) -> None:
        self.s = self.parameter("s", 1, shapes.columns)
        self.theta = self.scratch("theta", shapes.rows, 1)
        self.share = self.number("share")
        self.several = [self.s]
        self.calls = 0

    def update(self, block: Any) -> None:
        self.s <<= self.s + colsum(block.X)

    def score(self, block: Any) -> Any:
        return {"size": bl.Sum(total(block.X * block.X), block.weight)}

    def predict(self, block: Any) -> Any:
        return (block.X @ self.s.T).mat()


def learner_of(update: Any, **settings: Any) -> bl.Learner:
    model = type("Own", (Sums,), {"update": update})
    return bl.Learner(model(), train=X, block_rows=16, passes=1, **settings)


def line_of(update: Any) -> str:
    """Where its last statement is."""
    last = max(line for _, _, line in update.__code__.co_lines() if line is not None)
    return rf"at \S*test_update_rules\.py:{last}\b"


# ---------------------------------------------------------------- operators in place, and names


def adds(self: Any, block: Any) -> None:
    self.s += colsum(block.X)


def adds_to_a_local(self: Any, block: Any) -> None:
    s = self.s
    s += colsum(block.X)


def adds_to_one_of_a_list(self: Any, block: Any) -> None:
    self.several[0] += colsum(block.X)


def adds_to_a_parameter(self: Any, block: Any) -> None:
    self.parameters["s"] -= colsum(block.X)


def binds(self: Any, block: Any) -> None:
    self.s = self.s + colsum(block.X)


def binds_a_number(self: Any, block: Any) -> None:
    self.share = 3.0


def binds_what_is_computed(self: Any, block: Any) -> None:
    self.theta = rowsum(block.X).mat()


def adds_a_sparse_product(self: Any, block: Any) -> None:
    self.s += block.X.T @ (block.X @ self.s + 1.0)


@pytest.mark.parametrize("update", [adds, adds_to_a_local, adds_to_one_of_a_list])
def test_operators_in_place_assign_into_the_matrix(update: Any) -> None:
    found = learner_of(update).fit().parameter("s")
    assert found.tobytes() == learner_of(Sums.update).fit().parameter("s").tobytes()


def test_operators_in_place_act_through_the_table_of_parameters_and_on_numbers() -> None:
    found = learner_of(adds_to_a_parameter).fit().parameter("s")
    np.testing.assert_array_equal(found, -learner_of(Sums.update).fit().parameter("s"))

    def update(self: Any, block: Any) -> None:
        self.share <<= 3.0
        self.share *= 2.0
        self.s += self.share

    assert learner_of(update).fit().parameter("s").tolist() == [[18.0] * 3]  # three blocks


@pytest.mark.parametrize("density", [0.0, 0.3])
def test_a_sparse_product_is_added_in_place(density: float) -> None:
    class Steps(bl.Model):
        """Adds a product to the rows of the columns that occur."""

        def allocate(self, shapes: Any, rng: Any) -> None:
            self.s = self.parameter("s", shapes.columns, 2)

        update = adds_a_sparse_product

        def score(self, block: Any) -> Any:
            return {"size": bl.Sum(total(block.X @ self.s), block.weight)}

        def predict(self, block: Any) -> Any:
            return block.X @ self.s

    S = sp.random_array((40, 30), density=density, rng=np.random.default_rng(1), format="csr")
    trained = bl.Learner(
        Steps(), MatrixSource(bl.sparse(S), block_rows=16), passes=1, verbose=False
    ).fit()
    expected = np.zeros((30, 2))
    for at in range(0, 40, 16):
        part = S[at : at + 16]
        expected += part.T @ (part @ expected + 1.0)
    np.testing.assert_allclose(trained.parameter("s"), expected, rtol=1e-5)


@pytest.mark.parametrize("update", [binds, binds_a_number, binds_what_is_computed])
def test_attributes_that_would_lose_their_matrix(update: Any) -> None:
    name = update.__code__.co_names[-1] if update is not binds_a_number else "share"
    with pytest.raises(ShapeError, match=r"^Own\.\w+ = \.\.\. " + line_of(update)) as error:
        learner_of(update).plan()
    assert re.search(r"Write self\.(s|share|theta) <<=", str(error.value)), name


def test_names_of_expressions_and_of_data_may_be_bound_anew() -> None:
    def update(self: Any, block: Any) -> None:
        rows = block.X
        rows -= 1.0
        rows *= 2.0
        sums = colsum(rows)
        sums += 1.0
        self.last = self.s  # another name
        self.last = sums  # which was no name of a matrix's own
        self.s <<= self.s + sums

    def other(self: Any, block: Any) -> None:
        self.s <<= self.s + (colsum((block.X - 1.0) * 2.0) + 1.0)

    class Own(Sums):
        last: Any = None

    found = learner_of(other).fit().parameter("s")
    model = type("Fields", (Own,), {"update": update})
    again = bl.Learner(model(), train=X, block_rows=16, passes=1).fit().parameter("s")
    np.testing.assert_array_equal(found, again)


IN_PLACE = (operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ipow)


@pytest.mark.parametrize("apply", IN_PLACE)
def test_operators_in_place_on_a_matrix_of_no_model(apply: Any) -> None:
    numbers = np.abs(X) + 1.0
    with MatCache(threads=1) as memory:
        own = from_array(memory, numbers, "own")
        nameless = own + 1.0
        assert apply(nameless, 2.0) is not nameless
        assert apply(own, 2.0) is own
        np.testing.assert_allclose(own.numpy(), apply(numbers.copy(), 2.0), rtol=1e-6)


def test_products_and_bits_in_place() -> None:
    with MatCache(threads=1) as memory:
        table = from_array(memory, np.eye(3), "table")
        table @= from_array(memory, np.full((3, 3), 2.0))
        assert table.numpy().tolist() == [[2.0] * 3] * 3
        table &= 1.0
        table |= 0.0
        assert table.numpy().tolist() == [[1.0] * 3] * 3
        with pytest.raises(ShapeError, match="str is not a matrix of this cache"):
            table += "text"
        with pytest.raises(ShapeError, match="shapes 3 x 3 and 4 x 3 do not fit"):
            table += from_array(memory, np.ones((4, 3)))


# ---------------------------------------------------------------- updates that are not the same


def draws(self: Any, block: Any) -> None:
    self.s <<= self.s + python_random.random() * colsum(block.X)


def draws_with_numpy(self: Any, block: Any) -> None:
    self.share.set(np.random.default_rng().random())


def counts(self: Any, block: Any) -> None:
    self.s <<= self.s + colsum(block.X) / float(len(self.several) + next_of(self))


def next_of(model: Any) -> int:
    """A counter."""
    model.calls += 1
    return int(model.calls)


def counts_into_an_update(self: Any, block: Any) -> None:
    self.updates["s"] = colsum(block.X) * float(next_of(self))


def does_more_at_first(self: Any, block: Any) -> None:
    self.s <<= self.s + colsum(block.X if next_of(self) > 1 else block.X * 2.0)


def stops_after_a_while(self: Any, block: Any) -> None:
    self.theta <<= rowsum(block.X)
    if next_of(self) < 2:
        self.s <<= self.s + colsum(block.X)


@pytest.mark.parametrize("update", [draws, draws_with_numpy, counts, does_more_at_first])
def test_what_python_draws_or_counts_is_noticed(update: Any) -> None:
    with pytest.raises(UpdateError, match=r"^Own\.update: must be the same.*" + line_of(update)):
        learner_of(update).plan()


def test_in_updates_for_an_optimizer_too() -> None:
    with pytest.raises(UpdateError, match=line_of(counts_into_an_update) + ".* 1.0, and then 2"):
        learner_of(counts_into_an_update, optimizer=SGD()).plan()


def test_work_that_comes_once_is_noticed() -> None:
    with pytest.raises(UpdateError, match=r"test_update_rules\.py:\d+ was called in one run only"):
        learner_of(stops_after_a_while).plan()


def test_random_numbers_of_the_cache_and_counters_that_do_nothing_are_allowed() -> None:
    def update(self: Any, block: Any) -> None:
        self.calls += 1
        noise = random(self.cache, self.theta.shape, block.key, 1)
        self.theta <<= rowsum(block.X) + 0.0 * noise
        self.share.set(1.0 / block.rows)
        self.s <<= self.s + colsum(block.X)

    np.testing.assert_allclose(learner_of(update).fit().parameter("s")[0], X.sum(0), rtol=1e-4)


# ---------------------------------------------------------------- numbers of a block


def with_number(self: Any, block: Any) -> None:
    self.share.set(1.0 / block.rows)
    self.s <<= self.s + ((self.share * block.X).T @ self.theta).T


@pytest.mark.parametrize(("take", "sizes"), [(lambda rows: rows, {16}), (int, {8, 16})])
def test_part_of_a_block_is_planned_only_for_a_model_that_reads_sizes(
    take: Any, sizes: set[int]
) -> None:
    taken: list[Any] = []

    def update(self: Any, block: Any) -> None:
        taken.append(take(block.rows))
        with_number(self, block)

    learner_of(update).plan()
    assert set(map(int, taken)) == sizes


def scaled(rows: Any, number: float) -> Any:
    return (rows * (1.0 / number)).mat()


@pytest.mark.parametrize("number", ["rows", "weight"])
@pytest.mark.parametrize("method", ["update", "score", "predict"])
def test_numbers_of_a_block_in_containers_are_noticed_at_planning(method: str, number: str) -> None:
    def used(self: Any, block: Any) -> Any:
        found = scaled(block.X, getattr(block, number)) @ self.s.T
        if method == "update":
            self.theta <<= found
        return {"size": bl.Sum(total(found), 1.0)} if method == "score" else found.mat()

    model = type("Own", (Sums,), {method: used})
    learner = bl.Learner(model(), train=X[:32], block_rows=16)  # full blocks only
    with pytest.raises(AllocationAfterWarmupError, match=line_of(scaled)) as error:
        learner.plan()
    assert "a block that is not full" in str(error.value)
    assert "Operand 2 was 0.0625 during warm-up" in str(error.value)
    assert "belongs in a Scalar" in str(error.value)


def test_a_number_of_the_model_may_change() -> None:
    learner = learner_of(with_number).fit()
    assert learner.progress.allocations_after_warmup == 0


# ---------------------------------------------------------------- optimizers that take the scale


@pytest.mark.parametrize("inference", ["vb", "cvb0"])
def test_inc_norm_is_for_models_whose_columns_have_no_scale(inference: Any) -> None:
    counts = np.random.default_rng(0).poisson(0.5, (32, 12)).astype(np.float32)
    model = LDA(topics=3, inference=inference)
    learner = bl.Learner(model, train=sp.csr_array(counts), optimizer=IncNorm(), block_rows=16)
    if inference != "vb":
        assert learner.plan().rows
        return
    with pytest.raises(
        CombinationError, match="^optimizer=inc-norm: .* vb reads .*inference: cvb0"
    ):
        learner.plan()
