"""Records as arguments of row-wise functions: what a function takes as one object."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pytest

from blocklearn.matcache import (
    Mat,
    MatCache,
    Row,
    Rows,
    ShapeError,
    Sparse,
    Table,
    copy,
    exp,
    from_array,
    from_sparse,
    full,
    lgamma,
    maximum,
    named,
    ones_like,
    repeat,
    rowdot,
    rownnz,
    rowsum,
    rowwise,
    sddmm,
)
from blocklearn.matcache.program.instructions import walk
from blocklearn.matcache.program.records import flatten, rebuild
from tests.matcache.test_rounding import BACKENDS, opened
from tests.matcache.test_rowwise import compare, data
from tests.support import programs


@dataclass(frozen=True)
class Penalty:
    """Part of a record: a number per row, and a row that may be missing."""

    ridge: float
    free: Row | None = None

    def of(self, R: Sparse, u: Rows) -> Rows:
        u = self.ridge * rownnz(R) * u
        return u if self.free is None else self.free * u


@dataclass(frozen=True)
class Equations:
    """Least squares of each row, as `programs.conjugate_gradients` has them."""

    R: Sparse
    items: Table
    penalty: Penalty

    def __post_init__(self) -> None:
        assert self.penalty.ridge > 0.0  # which is not a question for traced values

    def residual(self, u: Rows) -> Rows:
        error = self.R - sddmm(u, self.items, self.R)
        return error @ self.items - self.penalty.of(self.R, u)

    def times(self, u: Rows) -> Rows:
        return sddmm(u, self.items, self.R) @ self.items + self.penalty.of(self.R, u)


@rowwise
def solve(equations: Equations, u: Rows, steps: Any) -> Rows:
    """`programs.conjugate_gradients`, from the object."""
    r = equations.residual(u)
    p = copy(r)
    old = rowdot(r, r)
    for _ in repeat(steps):
        Ap = equations.times(p)
        step = old / maximum(rowdot(p, Ap), 1e-30)
        u <<= u + step * p
        r <<= r - step * Ap
        new = rowdot(r, r)
        p <<= r + (new / maximum(old, 1e-30)) * p
        old <<= new
    return old


def numbers(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(len(shape)).uniform(0.5, 1.5, shape)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("free", [False, True])
def test_a_record_is_its_fields(backend: str, free: bool) -> None:
    X, start, items = data("plain"), numbers(12, 3), numbers(9, 3)
    chosen = np.array([[1.0, 0.0, 1.0]]) if free else None
    wanted = start.copy()
    record = Equations(X, items, Penalty(0.1, chosen))
    solve.reference(record, wanted, 3)
    with opened(backend) as cache:
        R, V, u = (
            from_sparse(cache, X.astype(np.float32)),
            from_array(cache, items.astype(np.float32)),
            from_array(cache, start.astype(np.float32)),
        )
        row = None if chosen is None else from_array(cache, chosen.astype(np.float32))
        solve(Equations(R, V, Penalty(0.1, row)), u, 3)
        np.testing.assert_allclose(u.numpy(), wanted, rtol=1e-3, atol=1e-4)
        if not free:
            flat = from_array(cache, start.astype(np.float32))
            programs.conjugate_gradients(R, flat, V, 0.1, 3)
            np.testing.assert_array_equal(u.numpy(), flat.numpy())


class Pair(NamedTuple):
    first: Any
    second: Any


@rowwise
def added(parts: tuple[Any, ...], *more: Any) -> Any:
    """The sum of everything in it; `more`: likewise."""
    found = parts[0]
    for part in parts[1:]:
        found = found + (part.first * part.second if isinstance(part, Pair) else part)
    for pair in more:
        found = found + pair.first - pair.second
    return found


def test_tuples_nest_and_named_ones_keep_their_names() -> None:
    a, b, c = numbers(5, 3), numbers(1, 3), numbers(5, 1)
    compare_records(added, (a, b, Pair(c, 2.0), 3.0), Pair(b, c), Pair(c, 1.0))
    assert added.reference((a,)).tolist() == a.tolist()


def compare_records(function: Any, *args: Any) -> None:
    with MatCache(threads=2) as cache:
        leaves, structure = flatten(args)
        mats = tuple(from_array(cache, x) if isinstance(x, np.ndarray) else x for x in leaves)
        got = function(*rebuild(structure, mats)).numpy()
    np.testing.assert_allclose(got, function.reference(*args), rtol=1e-12)


@dataclass(frozen=True)
class Once:
    x: Any

    def seen(self) -> Any:
        return self.x * 1.0


@dataclass(frozen=True)
class Twice(Once):
    def seen(self) -> Any:
        return self.x * 2.0


@rowwise
def seen(record: Any) -> Any:
    return record.seen()


def test_kinds_of_records_are_part_of_the_program() -> None:
    with MatCache(threads=1) as cache:
        x = from_array(cache, numbers(4, 2))
        once, twice = seen(Once(x)), seen(Twice(x))
        np.testing.assert_array_equal(2.0 * once.numpy(), twice.numpy())
        np.testing.assert_array_equal(seen(Once(x)).numpy(), once.numpy())
        assert seen(Once(x)).guid == once.guid != twice.guid
        flags = added((x, 1.0)), added((x, Pair(1.0, 1.0)))
        assert flags[0].guid != flags[1].guid


def test_a_record_reaches_functions_within() -> None:
    @rowwise
    def outer(record: Any, y: Any) -> Any:
        return seen(replace(record, x=record.x + y)) + seen(record)

    x, y = numbers(4, 2), numbers(1, 2)
    compare_records(outer, Twice(x), y)


def test_a_program_is_traced_once_for_equal_records() -> None:
    calls: list[Any] = []

    @rowwise
    def counted(record: Any) -> Any:
        calls.append(record)
        return record.x + 0.0

    with MatCache(threads=1) as cache:
        for _ in range(3):
            counted(Once(from_array(cache, numbers(4, 2))))
            counted(Once(2.5 * from_array(cache, numbers(4, 2))))
    assert len(calls) == 1 and isinstance(calls[0], Once)


@dataclass
class Changing:
    x: Any


def test_what_is_refused_names_the_record() -> None:
    with MatCache(threads=1) as cache:
        x, wide = from_array(cache, numbers(4, 2)), from_array(cache, numbers(4, 5))
        with pytest.raises(ShapeError, match=r"test_records\.py.* Changing is .*frozen=True"):
            seen(Changing(x))
        with pytest.raises(ShapeError, match=r"'record\.x' is a list; .*frozen dataclasses"):
            outer = rowwise(lambda x, record: x + record.x)
            outer(x, Once([1.0, 2.0]))
        with pytest.raises(ShapeError, match=r"'parts\.2\.first' is a dict"):
            added((x, 1.0, Pair({}, x)))
        with pytest.raises(ShapeError, match=r"row vectors of lengths \[2, 5\]"):
            added((x, wide))
        with pytest.raises(ShapeError, match=r"no matrix among its arguments"):
            seen(Once(2.0))
        R, u = from_sparse(cache, data("plain")), from_array(cache, numbers(12, 3))
        small = from_array(cache, numbers(4, 3))
        with pytest.raises(ShapeError, match=r"'equations\.items' is 4 x 3, but there are 9 col"):
            solve(Equations(R, small, Penalty(0.1)), u, 1)


# ---------------------------------------------------------------- the same value everywhere


@rowwise
def filled(X: Any, u: Any, column: Any, row: Any) -> Any:
    """Entries of X and of u, of whose numbers nothing is read."""
    at_entries = full(X, column), ones_like(X) @ row, full(X, 2.5)
    return *at_entries, full(u, column), ones_like(u), full(rownnz(X), 0.5)


@pytest.mark.parametrize("kind", ["plain", "empty rows", "nothing", "one row"])
def test_values_at_entries(kind: str) -> None:
    X = data(kind)
    n, m = X.shape
    compare(filled, X, numbers(n, 4), numbers(n, 1), numbers(m, 1))


@pytest.mark.parametrize("backend", BACKENDS)
def test_numbers_that_are_replaced_do_not_matter(backend: str) -> None:
    """0 * inf is NaN; what has been replaced is not."""
    X = data("plain").astype(np.float32)
    X.data[:] = np.inf
    column, dense = np.arange(12, dtype=np.float32)[:, None], np.full((12, 2), np.nan, np.float32)
    with opened(backend) as cache:
        R, x, c = from_sparse(cache, X), from_array(cache, dense), from_array(cache, column)
        np.testing.assert_array_equal(full(R, 2.0).numpy(), np.full(X.nnz, 2.0))
        np.testing.assert_array_equal(rowsum(ones_like(R)).numpy()[:, 0], np.diff(X.indptr))
        np.testing.assert_array_equal(full(x, c).numpy(), np.hstack([column, column]))
        y = named(cache, "assigned", (12, 2))
        y <<= 3.0 * ones_like(x)
        np.testing.assert_array_equal(y.numpy(), np.full((12, 2), 3.0))
        found: Mat = filled(R, x, c, from_array(cache, np.ones((9, 1), np.float32)))[4]
        np.testing.assert_array_equal(found.numpy(), np.ones((12, 2)))


# ---------------------------------------------------------------- functions as arguments


def double(x: Any) -> Any:
    return 2.0 * x


@rowwise
def power_and_gamma(x: Any) -> tuple[Any, Any]:
    return x * x, lgamma(x)


@rowwise
def first_of(function: Any, x: Any) -> Any:
    found = function(x)
    return found[0] if isinstance(found, tuple) else found


def test_functions_are_arguments_that_are_traced_within() -> None:
    x = numbers(4, 3)
    for function in (double, power_and_gamma):
        compare_records(first_of, function, x)
    with MatCache(threads=1) as cache:
        mat = from_array(cache, x)
        assert first_of(double, mat).guid != first_of(power_and_gamma, mat).guid


def operations(function: Any, *args: Any) -> list[str]:
    with MatCache(threads=1) as cache:
        mats = [from_array(cache, a) if isinstance(a, np.ndarray) else a for a in args]
        return [i.op for i in walk(function.compile(*mats).plan.program.body) if hasattr(i, "op")]


def test_what_nothing_needs_is_no_part_of_the_program() -> None:
    @rowwise
    def looped(x: Any, steps: Any) -> None:
        for _ in repeat(steps):
            unused = exp(x)
            _ = unused + 1.0
            x <<= x + lgamma(x)

    @rowwise
    def idle(x: Any, steps: Any) -> None:
        for _ in repeat(steps):
            _ = exp(x)
        x <<= 2.0 * x

    x = numbers(4, 3)
    assert operations(idle, x, 3) == ["mul"]
    compare(idle, x, 3)
    assert operations(power_and_gamma, x) == ["mul", "lgamma"]
    assert operations(first_of, power_and_gamma, x) == ["mul"]
    assert operations(looped, x, 3) == ["lgamma", "add"]
    compare(looped, x, 3)
