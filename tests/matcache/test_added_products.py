"""`table += scale * (S.T @ R)`: only rows that occur in S are written, in one kernel."""

from __future__ import annotations

from typing import Any, ClassVar
from unittest.mock import patch

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.matcache import (
    Mat,
    MatCache,
    ShapeError,
    StaleValueError,
    from_array,
    from_sparse,
    grad,
    rowwise,
    scalar,
    sddmm,
    take,
    total,
)
from blocklearn.matcache.containers import launching
from blocklearn.matcache.cuda import devices
from tests.support.backends import needs_compiler
from tests.support.cuda_device import HostDriver
from tests.support.often import crossed

ROWS, COLUMNS = 60, 40
rng = np.random.default_rng(0)


def matrix(kind: str) -> Any:
    """Whole numbers, so that sums are exact in any order."""
    x = (rng.random((ROWS, COLUMNS)) < 0.2) * rng.integers(1, 5, (ROWS, COLUMNS))
    match kind:
        case "empty rows and columns":
            x[::3], x[:, 5:30], x[:, -1] = 0, 0, 0
        case "one huge row":
            x[:] = 0
            x[17] = 1 + np.arange(COLUMNS)
        case "one huge column":
            x[:, 1:] = 0
            x[:, 3] = 1
        case "nothing":
            x[:] = 0
        case "no rows":
            x = x[:0]
    return sp.csr_array(x.astype(np.float32))


KINDS = ["plain", "empty rows and columns", "one huge row", "one huge column", "nothing", "no rows"]


def whole(*shape: int) -> Any:
    return rng.integers(-5, 6, shape).astype(np.float32)


def launched(call: Any) -> list[str]:
    """Return the operations that a call launches."""
    found: list[str] = []
    launch = launching.launch

    def noted(cache: Any, name: str, *given: Any) -> Any:
        found.append(name)
        return launch(cache, name, *given)

    with patch("blocklearn.matcache.operations.adding.launch", noted), patch(
        "blocklearn.matcache.operations.products.launch", noted
    ), patch("blocklearn.matcache.operations.dense.launch", noted):  # fmt: skip
        call()
    return found


@pytest.mark.parametrize("k", [1, 3, 20])
@pytest.mark.parametrize("kind", KINDS)
def test_sums_are_added_to_the_rows_that_occur(memory: MatCache, kind: str, k: int) -> None:
    x = matrix(kind)
    table, r = whole(COLUMNS, k), whole(x.shape[0], k)
    table[::7] = np.nan  # stays, and touches no other row
    T, X, R = from_array(memory, table), from_sparse(memory, x), from_array(memory, r)
    T += X.T @ R
    np.testing.assert_array_equal(T.numpy(), table + (x.T @ r))
    T.set(table)
    T -= 0.5 * (X.T @ R)
    np.testing.assert_array_equal(T.numpy(), table - 0.5 * (x.T @ r))


def test_absent_rows_are_not_written(memory: MatCache) -> None:
    """A sum with 0 would make 0 of -0."""
    x = sp.csr_array((np.array([2.0], np.float32), ([7], [3])), shape=(ROWS, COLUMNS))
    table = np.full((COLUMNS, 3), -0.0, np.float32)
    T, X = from_array(memory, table), from_sparse(memory, x)
    T += X.T @ from_array(memory, np.ones((ROWS, 3)))
    assert np.flatnonzero(~np.signbit(T.numpy()).all(axis=1)).tolist() == [3]


def test_a_sum_of_products_with_factors(memory: MatCache) -> None:
    x, y, r, q = matrix("plain"), matrix("one huge row"), whole(ROWS, 3), whole(ROWS, 3)
    table = whole(COLUMNS, 3)
    X, Y = from_sparse(memory, x), from_sparse(memory, y)
    R, Q = from_array(memory, r), from_array(memory, q)
    two, T = scalar(memory, 2.0), from_array(memory, table)

    def add() -> None:
        nonlocal T
        T -= -(two * (X.T @ R) - (Y.T @ Q) / 4.0) * 0.5 + (X.T @ (R * Q)) / (two + two)

    assert launched(add).count("add_transposed_product") == 3
    wanted = table + 0.5 * (2 * (x.T @ r) - (y.T @ q) / 4) - (x.T @ (r * q)) / 4
    np.testing.assert_array_equal(T.numpy(), wanted)


@crossed(k=[1, 3, 8], of_sum=[np.float32, np.float64], of_table=[np.float32, np.float64])
def test_tables_and_sums_of_two_types(memory: MatCache, k: int, of_sum: Any, of_table: Any) -> None:
    """Sums are rounded to their own type, and then to that of the table."""
    x = matrix("plain")
    r, table = whole(ROWS, k).astype(of_sum), whole(COLUMNS, k).astype(of_table)
    r[0] += 2.0**-24
    X, R, T = from_sparse(memory, x), from_array(memory, r), from_array(memory, table)

    def add() -> None:
        nonlocal T
        T += 3.0 * (X.T @ R)

    assert launched(add) == ["add_transposed_product"]
    assert T.dtype == of_table
    np.testing.assert_array_equal(T.numpy(), (table + 3.0 * (x.T @ r)).astype(of_table))


@pytest.mark.parametrize("k", [1, 3, 20])
def test_the_bits_are_those_of_the_sum_at_any_number_of_threads(k: int) -> None:
    x = sp.random_array((3000, 700), density=0.05, format="csr", rng=1, dtype=np.float32)
    table = rng.normal(size=(700, k)).astype(np.float32)
    r, found = rng.normal(size=(3000, k)), []
    for threads in (1, 2, 8):
        with MatCache(threads=threads) as cache:
            X, R, T = from_sparse(cache, x), from_array(cache, r), from_array(cache, table)
            T += X.T @ R
            found.append(T.numpy())
    np.testing.assert_allclose(found[0], table + x.T @ r, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(found[1], found[0])
    np.testing.assert_array_equal(found[2], found[0])
    with MatCache(threads=1) as cache:
        X, R, T = from_sparse(cache, x), from_array(cache, r), from_array(cache, table)
        T <<= T + X.T @ R
        np.testing.assert_array_equal(T.numpy(), found[0])


def test_other_sums_are_computed_as_before(memory: MatCache) -> None:
    x, square = matrix("plain"), sp.csr_array(np.eye(COLUMNS, dtype=np.float32))
    r, table = whole(ROWS, 3), whole(COLUMNS, 3)
    X, S, R = from_sparse(memory, x), from_sparse(memory, square), from_array(memory, r)
    T, by = from_array(memory, table), from_array(memory, whole(1, 3))

    def checked(wanted: Any) -> None:
        np.testing.assert_array_equal(T.numpy(), wanted)
        T.set(table)

    T += X.T @ R + 1.0
    checked(table + x.T @ r + 1)
    T += (X.T @ R) * by
    checked(table + (x.T @ r) * by.numpy())
    T += S.T @ T
    checked(2 * table)
    T += (X.T @ R) / 0.0 * 0.0
    assert np.isnan(T.numpy()).all()
    T.set(table)
    known = X.T @ R
    known.mat()
    T += known
    checked(table + x.T @ r)
    with pytest.raises(ShapeError, match="do not fit"):
        T += X.T @ from_array(memory, whole(ROWS, 2))


def test_operands_that_have_changed_are_found(memory: MatCache) -> None:
    X, R = from_sparse(memory, matrix("plain")), from_array(memory, whole(ROWS, 3))
    T, two = from_array(memory, whole(COLUMNS, 3)), scalar(memory, 2.0)
    before = T.numpy()
    late, scaled = X.T @ R, two * (X.T @ from_array(memory, whole(ROWS, 3)))
    R <<= R + 1.0
    two.set(3.0)
    for sum in (late, scaled):
        with pytest.raises(StaleValueError):
            T += sum
    np.testing.assert_array_equal(T.numpy(), before)
    old = Mat(memory, T.slot)
    T += X.T @ R
    with pytest.raises(StaleValueError):
        old.numpy()


def test_rows_that_were_taken_are_added(memory: MatCache) -> None:
    x, r = matrix("plain"), whole(4, 3)
    X, T = from_sparse(memory, x), from_array(memory, whole(COLUMNS, 3))
    before = T.numpy()
    rows = from_array(memory, np.array([[5, 5, 0, 9]]))
    part = take(X, rows, capacity=4 * COLUMNS)
    T += part.T @ from_array(memory, r)
    np.testing.assert_array_equal(T.numpy(), before + x[[5, 5, 0, 9]].T @ r)


def test_a_gradient_steps_the_rows_that_occur(memory: MatCache) -> None:
    @rowwise
    def squares(X: Any, w: Any, y: Any) -> Any:
        return (X @ w - y) ** 2

    x, w, y = matrix("plain"), whole(COLUMNS, 1), whole(ROWS, 1)
    X, W, Y = from_sparse(memory, x), from_array(memory, w), from_array(memory, y)

    def step() -> None:
        nonlocal W
        W -= 0.25 * grad(squares, "w")(X, W, Y)

    assert "add_transposed_product" in launched(step)
    np.testing.assert_array_equal(W.numpy(), w - 0.25 * (2 * x.T @ (x @ w - y)))


# ---------------------------------------------------------------- in a model


class Factors(bl.Model):
    """Factors of rows and columns, whose products are entries, by plain steps."""

    row_states: ClassVar = {"rows": 0}
    k: int = 4

    def allocate(self, shapes: Any, rng: Any) -> None:
        """Draw both."""
        self.items = self.parameter(
            "items", shapes.columns, self.k, rng.normal(shapes.columns, self.k)
        )
        self.rows = self.row_state("rows", shapes, self.k, ("normal", 0.1))
        self.rate = self.number("rate", 0.05)

    def update(self, block: Any) -> None:
        """Step both along the gradient of squared differences."""
        x = self.rows.rows
        wrong = block.X - sddmm(x, self.items, block.X)
        step = wrong @ self.items
        self.items += self.rate * (wrong.T @ x)
        x += 0.05 * step

    def score(self, block: Any) -> Any:
        """Return squared differences."""
        wrong = block.X - sddmm(self.rows.rows, self.items, block.X)
        return {"squares": bl.Sum(total(wrong * wrong), block.weight)}

    def predict(self, block: Any) -> Any:
        """Return sums of factors."""
        return (block.X @ self.items).mat()


def test_a_plan_has_no_table_of_sums() -> None:
    columns = 5000
    x = sp.random_array((400, columns), density=0.002, format="csr", rng=0, dtype=np.float32)
    learner = bl.Learner(Factors(), x, passes=3, block_rows=50, verbose=False)
    large = {row.name for row in learner.plan().rows if row.nbytes >= columns * 4 * 4}
    assert {name for name in large if not name.startswith("ring of")} == {"items"}
    learner.fit()
    assert learner.progress.allocations_after_warmup == 0


@needs_compiler
def test_a_training_on_a_device_gives_the_numbers_of_the_cpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(devices, "open_driver", lambda number: HostDriver(seed=number))
    x = sp.random_array((90, 30), density=0.2, format="csr", rng=0, dtype=np.float32)
    found = []
    for device in ("cpu", "cuda"):
        learner = bl.Learner(
            Factors(), x, passes=3, block_rows=16, device=device, verbose=False
        ).fit()
        assert learner.progress.allocations_after_warmup == 0
        found.append(learner.parameter("items").copy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-4, atol=1e-5)


def test_a_model_keeps_all_promises() -> None:
    x = sp.random_array((90, 30), density=0.2, format="csr", rng=0, dtype=np.float32)
    assert "recorded" in bl.check_model(Factors(), x)
