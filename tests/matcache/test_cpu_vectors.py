"""Short rows as vector instructions, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import njit

from blocklearn.matcache.cpu.inline.long_rows import (
    add_whole,
    dot_whole,
    make_add_rows,
    make_dot_rows,
)
from blocklearn.matcache.cpu.inline.row_sums import STRIP, make_sum_rows
from blocklearn.matcache.cpu.inline.vectors import fetch, fetch_row, lanes, make_add, make_dots
from tests.support.often import rarely

LENGTHS = [1, 2, 3, 7, 8, 9, 15, 16, 17, 23, 33]


def arrays(length: int, dtype: Any) -> tuple[Any, Any]:
    rng = np.random.default_rng(length)
    table = (100 * rng.normal(size=(9, length))).astype(dtype)
    return table, rng.normal(size=9)


@pytest.mark.parametrize("bits", [32, *rarely(64)])
@pytest.mark.parametrize("dtype", [np.float32, *rarely(np.float64, np.int64)])
@pytest.mark.parametrize("count", [1, 4, 8])
def test_dots(count: int, dtype: Any, bits: int) -> None:
    for length in LENGTHS[:: 3 if count > 1 else 1]:
        table, _ = arrays(length, dtype)
        rows = tuple((np.arange(count) * 5 % 9 * length).tolist())
        dots = make_dots(length, count, bits)

        @njit
        def run(vector: Any, at: int, table: Any, rows: Any, dots: Any = dots) -> Any:
            return dots(vector, at, table, rows)

        got = run(table, 3 * length, table, rows)
        wanted = [table[3].astype(np.float64) @ table.ravel()[r : r + length] for r in rows]
        assert len(got) == count
        np.testing.assert_allclose(got, wanted, rtol=1e-12 if bits == 64 else 2e-5, atol=0.1)


@pytest.mark.parametrize("padded", [True, *rarely(False)])
@pytest.mark.parametrize("count", [1, 4, 8])
def test_add(count: int, padded: bool) -> None:
    for length in LENGTHS[:: 3 if count > 1 else 1]:
        table, weights = arrays(length, np.float32)
        places = np.arange(count) * 5 % 9
        room = -(-length // 16) * 16 if padded else length
        out = np.full(3 + room + 20, 7.0, np.float32)
        add = make_add(length, count, 32, padded=padded)

        @njit
        def run(out: Any, table: Any, rows: Any, weights: Any, add: Any = add) -> None:
            add(out, 3, table, rows, weights)

        factors = tuple(np.float32(w) for w in weights[:count])
        run(out, table, tuple((places * length).tolist()), factors)
        wanted = 7.0 + np.array(factors, np.float64) @ table[places]
        scale = np.abs(wanted).max()
        np.testing.assert_allclose(out[3 : 3 + length], wanted, rtol=1e-5, atol=1e-5 * scale)
        assert np.all(out[:3] == 7.0) and np.all(out[3 + room :] == 7.0)  # and nothing else


def test_fetch_changes_nothing() -> None:
    table = np.arange(12.0, dtype=np.float32).reshape(3, 4)

    @njit
    def run(table: Any, row: int) -> None:
        fetch(table, row, 2)

    @njit
    def run_row(table: Any, row: int) -> None:
        fetch_row(table, row, 4)

    before = table.copy()
    run(table, 2)
    run(table[:, ::2], 1)  # rows that are not one after another
    run_row(table, 2)
    np.testing.assert_array_equal(table, before)
    for function in (run, run_row):
        assert all("llvm.prefetch" in text for text in function.inspect_llvm().values())


@pytest.mark.parametrize("vectors", [0, 1, 3])
def test_rows_of_any_length_have_the_same_bits(vectors: int) -> None:
    """One compilation adds rows of every length: as `make_add`, which knows the length."""
    add: Any = make_add_rows(8, vectors)

    @njit
    def run(out: Any, table: Any, rows: Any, weights: Any, length: int) -> None:
        add(out, 3, table, rows, weights, length)

    for length in (1, 16, 17, 50, 130) if not vectors else (16 * vectors - 15, 16 * vectors):
        table, weights = arrays(length, np.float32)
        rows = tuple((np.arange(8) * 5 % 9 * length).tolist())
        known: Any = make_add(length, 8, 32, padded=True)

        @njit
        def expected(out: Any, table: Any, rows: Any, weights: Any, known: Any = known) -> None:
            known(out, 3, table, rows, weights)

        got, wanted = np.full((2, 180), 7, np.float32)
        factors = tuple(np.float32(w) for w in weights[:8])
        run(got, table, rows, factors, length)
        expected(wanted, table, rows, factors)
        assert got.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("count", [1, 4])
def test_dots_of_any_length_have_the_same_bits(count: int) -> None:
    """One compilation multiplies rows of every length: as `make_dots`, which knows the length."""
    dots: Any = make_dot_rows(count)

    @njit
    def run(vector: Any, table: Any, rows: Any, length: int) -> Any:
        return dots(vector, 3 * length, table, rows, length)

    for length in (1, 16, 17, 50, 130):
        table, _ = arrays(length, np.float32)
        rows = tuple((np.arange(count) * 5 % 9 * length).tolist())
        known: Any = make_dots(length, count, 32)

        @njit
        def expected(vector: Any, table: Any, rows: Any, length: int, known: Any = known) -> Any:
            return known(vector, 3 * length, table, rows)

        assert run(table, table, rows, length) == expected(table, table, rows, length)


def test_whole_vectors_of_any_number() -> None:
    @njit
    def run(x: Any, length: int) -> Any:
        add_whole(x, 1, 200, np.float32(-0.5), length)
        return dot_whole(x, 1, x, 200, length)

    for length in (16, 32, 144):
        x = np.random.default_rng(length).normal(size=400).astype(np.float32)
        wanted = x.copy()
        wanted[1 : 1 + length] -= np.float32(0.5) * x[200 : 200 + length]
        product = run(x, length)
        assert x.tobytes() == wanted.tobytes()
        exact = wanted[1 : 1 + length].astype(np.float64) @ wanted[200 : 200 + length]
        assert product == pytest.approx(exact, rel=1e-5, abs=1e-4)


@pytest.mark.parametrize(
    ("turned", "dtype", "bits"),
    [(False, np.float32, 32), (True, np.float32, 32), *rarely((True, np.float64, 64))],
)
def test_sums_in_registers_have_the_same_bits(turned: bool, dtype: Any, bits: int) -> None:
    """One call adds all table rows of a sparse row: as four at a time, and then single ones."""
    add_4: Any = make_add_rows(4, 0, bits, padded=False)
    add_1: Any = make_add_rows(1, 0, bits, padded=False)
    sums: Any = make_sum_rows(bits, turned=turned)

    @njit
    def run(out: Any, table: Any, row: Any, values: Any, places: Any, ends: Any, n: int) -> None:
        sums(out, table, row, values, places, 3, ends[0], ends[1], n)

    @njit
    def expected(out: Any, table: Any, rows: Any, weights: Any, length: int) -> None:
        full = rows.size // 4 * 4
        for j in range(0, full, 4):
            four = rows[j], rows[j + 1], rows[j + 2], rows[j + 3]
            factors = weights[j], weights[j + 1], weights[j + 2], weights[j + 3]
            add_4(out, 3, table, four, factors, length)
        for j in range(full, rows.size):
            add_1(out, 3, table, (rows[j],), (weights[j],), length)

    strip, rng = STRIP * lanes(bits), np.random.default_rng(bits)
    for length in (1, 16, 130, strip, strip + 17, 2 * strip):
        table, _ = arrays(length, dtype)
        for count in (0, 3, 4, 11):
            ends = np.array([2, 2 + count])
            columns = rng.integers(0, 9, 15).astype(np.int32)
            values, places = rng.normal(size=15).astype(dtype), rng.permutation(15)
            got, wanted = np.full((2, length + 20), 7, dtype)
            wanted[3 : 3 + length] = 0
            rows = columns[2 : 2 + count].astype(np.int64) * length
            weights = (values[places] if turned else values)[2 : 2 + count]
            run(got, table, columns, values, places, ends, length)
            expected(wanted, table, rows, weights, length)
            assert got.tobytes() == wanted.tobytes()
