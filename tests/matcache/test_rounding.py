"""Tables rounded to bfloat16: what is rounded, and that only reading is; on the CPU and the device.

Results are compared with those of a table whose numbers are rounded beforehand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from functools import cache as remembered
from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given
from hypothesis import strategies as st

from blocklearn.matcache import (
    MatCache,
    StaleValueError,
    Tables,
    add_outer,
    from_array,
    from_sparse,
    make_backend,
    named,
    packed_columns,
    rowwise,
    sddmm,
    solve_rows,
)
from blocklearn.matcache.cuda import Cuda
from blocklearn.matcache.cuda import kernels as sources
from blocklearn.matcache.emit.cuda_rows import rowwise_source
from blocklearn.matcache.operations.normal_equations import MOST
from blocklearn.matcache.operations.rounding import as_table, rounded
from blocklearn.matcache.operations.sampling import sample_topics
from blocklearn.models.lda import inference as lda_model
from tests.support import programs
from tests.support.backends import needs_compiler
from tests.support.cubin import ARCHITECTURES, TEXTS, nvrtc, ptx, resources
from tests.support.cuda_device import HostDriver

BACKENDS = [
    "cpu",
    pytest.param("stand-in", marks=needs_compiler),
    pytest.param("cuda:0", marks=pytest.mark.gpu),
]


@contextmanager
def opened(backend: str) -> Iterator[MatCache]:
    """A cache on the CPU, on a stand-in for a device (threads: 256 in a block), or on a device."""
    stand_in = {"stand-in": 1, "threads": 256}.get(backend)
    chosen: Any
    if stand_in:
        chosen = Cuda(HostDriver(seed=5, threads=stand_in))
    else:
        chosen = make_backend(backend, 2)
    with MatCache(backend=chosen) as cache:
        yield cache


def numbers(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).uniform(0.1, 1.0, shape).astype(np.float32)


def counts(rows: int, columns: int) -> Any:
    """With an empty row and an empty column."""
    X = np.random.default_rng(1).poisson(0.5, (rows, columns)).astype(np.float32)
    X[2], X[:, 3] = 0, 0
    return sp.csr_array(X)


# ---------------------------------------------------------------- rounding

HOSTILE = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-40, 3.4e38, -3.4028235e38, 1 + 2.0**-8, 1e-20]
    + [1 + 3 * 2.0**-8, 1 + 2.0**-8 + 2.0**-23, 1 + 2.0**-8 - 2.0**-23, 9.2e-41, 4.6e-41],
    np.float32,
)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
@example(1 + 2.0**-8)
@example(-(1 + 3 * 2.0**-8))
@example(4.6e-41)
def test_the_nearest_number_is_taken_and_of_two_the_even_one(x: float) -> None:
    low = np.array(x, np.float32).view(np.uint32) & 0xFFFF0000
    ends = [low, low + np.uint32(0x10000)]  # towards and away from zero
    exact = [Fraction(float(e.view(np.float32))) for e in ends if np.isfinite(e.view(np.float32))]
    if len(exact) < 2:  # the largest number and infinity: half-way is where the next one would be
        exact.append(Fraction(2) ** 128 * (1 if x > 0 else -1))
    off = [abs(Fraction(x) - end) for end in exact]
    even = (int(low) >> 16) & 1
    wanted = ends[even] if off[0] == off[1] else ends[off[1] < off[0]]
    assert rounded(x).view(np.uint32) == wanted


@pytest.mark.parametrize("backend", BACKENDS)
def test_backends_have_the_bits_of_the_definition(backend: str) -> None:
    rng = np.random.default_rng(0)
    some = rng.integers(0, 2**32, 3000, np.uint64).astype(np.uint32).view(np.float32)
    table = np.concatenate([HOSTILE, some])[:3000].reshape(1000, 3)
    with opened(backend) as cache:
        mat = from_array(cache, table)
        X = from_sparse(cache, counts(5, 1000)).reading("bfloat16")
        found = as_table(mat, X).numpy()
    if backend != "cpu":
        assert found.nbytes == 2 * table.size
        found = (found["bfloat16"].astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_array_equal(found.view(np.uint32), rounded(table).view(np.uint32))


# ---------------------------------------------------------------- what is rounded

ROWS, COLUMNS = 11, 17


def _lda(function: Any, cache: MatCache, table: Any, tables: Tables) -> list[Any]:
    X, theta = (
        from_sparse(cache, counts(ROWS, COLUMNS)).reading(tables),
        named(cache, "u", (ROWS, table.shape[1])),
    )
    theta <<= 1.0
    ratio = function(X, theta, table, from_array(cache, numbers(1, table.shape[1])), 3)
    return [ratio, theta]


def _descent(cache: MatCache, table: Any, tables: Tables) -> list[Any]:
    X = from_sparse(cache, counts(ROWS, COLUMNS)).reading(tables)
    u = from_array(cache, numbers(ROWS, table.shape[1], seed=3))
    return [programs.conjugate_gradients(X, u, table, 0.5, 2), u]


def _sddmm(cache: MatCache, table: Any, tables: Tables) -> list[Any]:
    X = from_sparse(cache, counts(ROWS, COLUMNS)).reading(tables)
    return [sddmm(from_array(cache, numbers(ROWS, table.shape[1], seed=3)), table, X)]


def _product(cache: MatCache, table: Any, tables: Tables) -> list[Any]:
    return [from_sparse(cache, counts(ROWS, COLUMNS)).reading(tables) @ table]


def _transposed(cache: MatCache, table: Any, tables: Tables) -> list[Any]:
    return [from_sparse(cache, counts(COLUMNS, ROWS)).reading(tables).T @ table]


@rowwise
def columns(X: Any, sums: Any, table: Any) -> None:
    """Called with X.T: a program over the columns that occur."""
    sums <<= X @ table


def _by_column(cache: MatCache, table: Any, tables: Tables) -> list[Any]:
    sums = named(cache, "sums", (ROWS, table.shape[1]))
    sums <<= 0.0
    columns(from_sparse(cache, counts(COLUMNS, ROWS)).reading(tables).T, sums, table)
    return [sums]


def _solved(cache: MatCache, table: Any, tables: Tables) -> list[Any]:
    X, k = from_sparse(cache, counts(ROWS, COLUMNS)).reading(tables), table.shape[1]
    ridge, right = from_array(cache, numbers(ROWS, 1)), from_array(cache, numbers(ROWS, k))
    return [solve_rows(X, table, ridge, right)]


def _outer(cache: MatCache, table: Any, tables: Tables) -> list[Any]:
    X = from_sparse(cache, counts(COLUMNS, ROWS)).reading(tables)
    sums = named(cache, "sums", (ROWS, packed_columns(table.shape[1])))
    sums <<= 0.0
    add_outer(sums, X, table)
    return [sums]


def _sampled(cache: MatCache, table: Any, tables: Tables) -> list[Any]:
    X, alpha = from_sparse(cache, counts(ROWS, COLUMNS)).reading(tables), numbers(1, table.shape[1])
    ids, key = np.arange(ROWS)[:, None], np.array([[7, 1, 2]])
    given = (from_array(cache, a) for a in (alpha, ids, key))
    return [sample_topics(X, table, *given, burn=1, save=2).counts(table.shape[1])]


USES: dict[str, Callable[[MatCache, Any, Tables], list[Any]]] = {
    "vb": partial(_lda, lda_model.infer_vb),
    "cvb0": partial(_lda, lda_model.infer_cvb0),
    "conjugate gradients": _descent,
    "sddmm": _sddmm,
    "sparse @ table": _product,
    "sparse.T @ table": _transposed,
    "program over columns": _by_column,
    "solve_rows": _solved,
    "add_outer": _outer,
    "sampler": _sampled,
}
ALIKE = ["cvb0", "conjugate gradients"]  # programs of rows, as "vb" is


def results(name: str, backend: str, table: Any, tables: Tables) -> list[Any]:
    with opened(backend) as cache:
        mat = from_array(cache, table, "table")
        found = [result.numpy() for result in USES[name](cache, mat, tables)]
        np.testing.assert_array_equal(mat.numpy(), table)  # which stays as it is
        return found


@pytest.mark.parametrize(
    "backend", [*BACKENDS, pytest.param("threads", marks=[needs_compiler, pytest.mark.slow])]
)
@pytest.mark.parametrize("k", [pytest.param(5, marks=pytest.mark.slow), 16])
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in ALIKE)) for name in USES]
)
def test_a_table_is_read_as_if_it_had_been_rounded(name: str, k: int, backend: str) -> None:
    table = numbers(COLUMNS, k, seed=2)
    got = results(name, backend, table, "bfloat16")
    wanted = results(name, backend, rounded(table), "float32")
    plain = results(name, backend, table, "float32")
    for have, want in zip(got, wanted, strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-6 if backend == "cpu" else 2e-5, atol=1e-6)
    assert any((a != b).any() for a, b in zip(got, plain, strict=True))


@rowwise
def products(X: Any, u: Any, table: Any, matrix: Any, row: Any) -> Any:
    """A table that rows gather from, their own vectors, a small matrix, a row for all."""
    return (X @ table) * u + u @ matrix + row


@rowwise
def twice(X: Any, u: Any) -> Any:
    """A table that is each row's own vector, too."""
    return (X @ u) * u


@pytest.mark.parametrize("backend", BACKENDS)
def test_nothing_else_is_rounded(backend: str) -> None:
    X, k = counts(COLUMNS, COLUMNS), 8
    u, table, row = numbers(COLUMNS, k), numbers(COLUMNS, k, seed=1), numbers(1, k, seed=2)
    matrix, w = numbers(k, k, seed=4), numbers(COLUMNS, 1, seed=5)
    with opened(backend) as cache:
        x = from_sparse(cache, X).reading("bfloat16")
        single, square = from_array(cache, w), from_array(cache, u)
        others = (from_array(cache, a) for a in (table, matrix, row))
        got = products(x, square, *others).numpy()
        wanted = X @ rounded(table).astype(np.float64) * u + u.astype(np.float64) @ matrix + row
        np.testing.assert_allclose(got, wanted, rtol=2e-6)
        np.testing.assert_allclose((x @ single).numpy(), X @ w, rtol=2e-6)  # one column
        both = twice(x, square).numpy()
        np.testing.assert_allclose(both, (X @ u.astype(np.float64)) * u, rtol=2e-6)
        wide = from_array(cache, table.astype(np.float64))
        np.testing.assert_allclose((x @ wide).numpy(), X @ table.astype(np.float64), rtol=1e-12)
        np.testing.assert_allclose((x.T @ wide).numpy(), X.T @ table.astype(np.float64), rtol=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_table_is_rounded_again_when_it_has_changed_and_only_then(backend: str) -> None:
    X = counts(ROWS, COLUMNS)
    with opened(backend) as cache:
        x = from_sparse(cache, X).reading("bfloat16")
        table = from_array(cache, numbers(COLUMNS, 8))
        for change in (1.0, 1.7):
            table <<= table * change
            for _ in range(2):
                np.testing.assert_allclose(
                    (x @ table).numpy(), X @ rounded(table.numpy()), rtol=1e-6, atol=1e-6
                )
                before = cache.stats()
                copy = as_table(table, x)
                assert cache.stats().recomputations == before.recomputations
                assert cache.stats().hits == before.hits + 1
        held = {p.label: p for p in cache.plan()}[copy.label]
    assert copy.label.endswith(", rounded")
    stored = ("float32", 4) if backend == "cpu" else ("bfloat16", 2)
    assert (held.dtype, held.nbytes) == (stored[0], stored[1] * COLUMNS * 8)


def test_a_handle_says_how_its_results_read_tables() -> None:
    """Two handles on one block, in turn: each reads in its own way, and so do results of it."""
    X, table = counts(ROWS, COLUMNS), numbers(COLUMNS, 5, seed=2)
    column = numbers(ROWS, 5, seed=3)
    with MatCache() as cache:
        plain, wide = from_sparse(cache, X), from_array(cache, column)
        handles = {"float32": plain, "bfloat16": plain.reading("bfloat16")}
        for tables in ("float32", "bfloat16", "float32"):
            x, as_read = handles[tables], rounded if tables == "bfloat16" else np.asarray
            near = partial(np.testing.assert_allclose, rtol=1e-6)
            near((x @ from_array(cache, table)).numpy(), X @ as_read(table))
            doubled = (2.0 * x).mat()  # on its pattern
            assert doubled.tables == tables
            near((doubled.T @ wide).numpy(), 2.0 * X.T @ as_read(column))
            near(((x + x).T @ wide).numpy(), 2.0 * X.T @ as_read(column))  # not computed yet
        assert plain.tables == "float32"
        plain <<= 2.0 * plain
        with pytest.raises(StaleValueError):
            handles["bfloat16"].reading("float32")


# ---------------------------------------------------------------- the text of kernels

HALF = ["float", "float", "bfloat16", "float", "float"]  # of the E-step's arguments


@remembered
def e_step(name: str, k: int) -> Any:
    """A compiled program of LDA."""
    with MatCache(threads=1) as cache:
        X = from_sparse(cache, counts(ROWS, COLUMNS))
        mats = (from_array(cache, numbers(n, k)) for n in (ROWS, COLUMNS, 1))
        return getattr(lda_model, name).compile(X, *mats, 3).plan


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("k", [*(pytest.param(k, marks=pytest.mark.slow) for k in (32, 100)), 256])
@pytest.mark.parametrize("name", ["infer_vb", "infer_cvb0"])
def test_the_e_step_keeps_to_registers(name: str, k: int, architecture: str) -> None:
    source = rowwise_source(e_step(name, k), HALF, ordered=True)
    needs = resources(nvrtc(source, architecture))["run"]
    assert needs.frame == 0
    assert needs.blocks(256) >= 2


KERNELS = {
    "transposed": sources.transposed_source(256, table="bfloat16"),
    "gibbs": sources.gibbs_source(100, "bfloat16"),
    "cholesky": sources.cholesky_source(100, gram=True, masked=True, scaled=True, table="bfloat16"),
}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize(
    "name", ["transposed", "gibbs", pytest.param("cholesky", marks=pytest.mark.slow)]
)
def test_modules_compile_and_keep_to_registers(name: str, architecture: str) -> None:
    for needs in resources(nvrtc(KERNELS[name], architecture)).values():
        assert needs.frame == 0
        assert needs.registers <= 168


@pytest.mark.slow
@pytest.mark.parametrize("k", [1, 8, 20, 130, 256, 1000, 1028])
def test_modules_of_every_k_compile(k: int) -> None:
    modules = [sources.transposed_source(k, table="bfloat16"), sources.gibbs_source(k, "bfloat16")]
    if k <= MOST:
        for flag in (False, True):
            facts = {"gram": flag, "masked": flag, "scaled": flag, "table": "bfloat16"}
            modules.append(sources.cholesky_source(k, **facts))
    if k > 1:
        modules += [
            rowwise_source(e_step(name, k), HALF, ordered=True)
            for name in ("infer_vb", "infer_cvb0")
        ]
    for architecture in TEXTS:
        assert all(nvrtc(module, architecture) for module in modules)


def test_rows_are_read_16_bytes_at_a_time() -> None:
    for source in (rowwise_source(e_step("infer_vb", 256), HALF), KERNELS["transposed"]):
        assert "ld.global.nc.v4.u32" in ptx(source)
