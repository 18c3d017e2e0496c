"""The CUDA text: compiled by NVRTC for three kinds of cards; run on the host with one lane."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from blocklearn.matcache import (
    MatCache,
    clip,
    colsum,
    copy,
    digamma,
    equal,
    exppsi,
    from_array,
    from_sparse,
    lgamma,
    log,
    maximum,
    minimum,
    random,
    sigmoid,
    sign,
    softplus,
    sqrt,
    total,
    where,
)
from blocklearn.matcache.emit_cuda import fused_source, library_source, rowwise_source
from blocklearn.matcache.fused import linearise
from blocklearn.models import als_rows
from blocklearn.models import lda as lda_model
from tests import cuda_host, programs

ARCHITECTURES = ("80", "90", "100")
needs_compiler = pytest.mark.skipif(not cuda_host.available(), reason="no g++ on this machine")


def nvrtc(source: str, architecture: str) -> bytes:
    """Compile for sm_`architecture`; needs no GPU and no driver."""
    library = pytest.importorskip("cupy_backends.cuda.libs.nvrtc")
    program = library.createProgram(source, "module.cu", (), ())
    try:
        library.compileProgram(program, (f"--gpu-architecture=sm_{architecture}", "--std=c++17"))
    except library.NVRTCError as error:
        raise AssertionError(library.getProgramLog(program)) from error
    cubin = library.getCUBIN(program)
    assert isinstance(cubin, bytes)
    return cubin


def sparse(rows: int, columns: int, seed: int = 0) -> Any:
    """Counts with empty rows and one full row."""
    X = sp.random(rows, columns, 0.2, format="csr", random_state=seed)
    X.data = np.ceil(X.data * 5)
    X = X.tolil()
    X[0] = 0
    X[1] = 1
    return X.tocsr()


class Case:
    """A program, and float64 arguments for it."""

    def __init__(self, name: str, k: int = 5, rows: int = 9, columns: int = 13) -> None:
        rng = np.random.default_rng(1)
        X, u = sparse(rows, columns), rng.uniform(0.5, 1.5, (rows, k))
        table = rng.uniform(0.1, 1.0, (columns, k))
        self.function = getattr(programs, name)
        self.args: tuple[Any, ...] = {
            "lda": (X, u, table, 0.1, 4),
            "conjugate_gradients": (X, u, table, 0.1, 3),
            "implicit": (X, u, table, table.T @ table, 0.1),
            "softmax_scores": (X, table, rng.normal(size=(1, k))),
            "weighted": (X, u, rng.normal(size=(1, columns)), rng.normal(size=(rows, 1))),
            "until_settled": (X, u, table, 0.1),
        }[name]

    def compiled(self, dtype: Any) -> Any:
        """The schedule for these shapes in `dtype`."""
        with MatCache(threads=1) as cache:
            return self.function.compile(*self.mats(cache, dtype)).plan

    def mats(self, cache: MatCache, dtype: Any) -> list[Any]:
        """The arguments as Mats."""
        return [
            from_sparse(cache, a.astype(dtype))
            if sp.issparse(a)
            else from_array(cache, a.astype(dtype))
            if isinstance(a, np.ndarray)
            else a
            for a in self.args
        ]


PROGRAMS = [
    "lda",
    "conjugate_gradients",
    "implicit",
    "softmax_scores",
    "weighted",
    "until_settled",
]


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_compile_for_every_architecture(name: str) -> None:
    for architecture in ARCHITECTURES:
        assert nvrtc(rowwise_source(Case(name, k=33).compiled(np.float32)), architecture)


@pytest.mark.parametrize("k", [1, 32, 100, 256, 1000])
def test_e_step_compiles_for_every_k(k: int) -> None:
    for architecture in ARCHITECTURES:
        assert nvrtc(rowwise_source(Case("lda", k=k).compiled(np.float32)), architecture)


@pytest.mark.parametrize("name", ["infer_vb", "infer_cvb0", "bound", "completion", "proportions"])
def test_programs_of_lda_compile(name: str) -> None:
    function = getattr(lda_model, name)
    X = sparse(9, 13)
    with MatCache(threads=1) as cache:
        x = from_sparse(cache, X.astype(np.float32))
        theta, phi = (from_array(cache, np.ones((n, 20), np.float32)) for n in (9, 13))
        alpha = from_array(cache, np.ones((1, 20), np.float32))
        args = {
            "completion": (x, copy(x).mat(), theta, phi, alpha, 3),
            "bound": (x, theta, phi, alpha, 2.0, 3),
        }.get(name, (x, theta, phi, alpha, 3))
        assert nvrtc(rowwise_source(function.compile(*args).plan), "90")


@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("alpha", [None, 2.0])
@pytest.mark.parametrize("k", [20, 102, 1000])
def test_programs_of_als_compile(k: int, alpha: float | None, biases: bool) -> None:
    with MatCache(threads=1) as cache:

        def ones(rows: int, columns: int) -> Any:
            return from_array(cache, np.ones((rows, columns), np.float32))

        R = from_sparse(cache, sparse(9, 13).astype(np.float32))
        u, table, mean, free = ones(9, k), ones(13, k), ones(1, 1), ones(1, k)
        fixed, G = free if biases else None, None if alpha is None else ones(k, k)
        problem = (fixed, mean, alpha, 0.1, True)
        programs = [
            als_rows.descend.compile(R, u, table, G, free, free, *problem, 3, 0.0),
            als_rows.losses.compile(R, u, table, G, ones(13, 1), *problem),
            als_rows.equations.compile(R, u, table, *problem),
        ]
        for program in programs:
            assert nvrtc(rowwise_source(program.plan), "90")


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_sparse_products_compile(architecture: str) -> None:
    assert nvrtc(library_source(), architecture)


@needs_compiler
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_on_the_host_match_the_definition(name: str, dtype: Any) -> None:
    case = Case(name)
    plan = case.compiled(dtype)
    X = case.args[0]
    rows = X.shape[0]
    arrays = [
        a.data.astype(dtype)
        if sp.issparse(a)
        else a.astype(dtype)
        if isinstance(a, np.ndarray)
        else dtype(a)
        for a in case.args
    ]
    fresh = [v for v in plan.program.returns if v.arg < 0]
    outputs = [np.zeros(X.nnz if v.kind.name == "NNZ" else (rows, v.length), dtype) for v in fresh]
    hidden = [np.zeros(X.nnz, dtype) for _ in plan.hidden]
    module = cuda_host.HostModule(rowwise_source(plan))
    module.call(
        "run",
        rows,
        X.indptr.astype(np.int64),
        X.indices.astype(np.int32),
        *arrays,
        *outputs,
        *hidden,
    )
    copies = [a.copy() if isinstance(a, np.ndarray) else a for a in case.args]
    expected = case.function.reference(*copies)
    expected = expected if isinstance(expected, tuple) else (expected,)
    rtol = 2e-4 if dtype == np.float32 else 1e-9
    for got, wanted in zip(outputs, expected, strict=True):
        wanted = wanted.data if sp.issparse(wanted) else wanted
        np.testing.assert_allclose(got, wanted, rtol=rtol, atol=rtol)
    for after, wanted in zip(arrays, copies, strict=True):
        if isinstance(wanted, np.ndarray):
            np.testing.assert_allclose(after, wanted, rtol=rtol, atol=rtol)


def expression(cache: MatCache) -> tuple[Any, Any]:
    """An expression with every elementwise operation and kind of leaf, and its NumPy twin."""
    rng = np.random.default_rng(2)
    a, b = rng.uniform(0.5, 3.0, (7, 6)), rng.normal(size=(7, 6))
    row, column = rng.normal(size=(1, 6)), rng.uniform(1, 2, (7, 1))
    A, B, R, C = (from_array(cache, x) for x in (a, b, row, column))

    def build(a: Any, b: Any, r: Any, c: Any) -> Any:
        x = lgamma(a) + digamma(a) - exppsi(a) * sigmoid(b) + softplus(b) / c
        x = x + sqrt(a) ** 1.5 - log(a) + sign(b) * abs(b) + clip(b, -0.5, 0.5)
        x = x + maximum(a, b) * minimum(r, c) + where(b < r, equal(a, a), -a)
        return x + where(b <= 0.25, 1.0, copy(c))

    from blocklearn.matcache.reference import Ref

    return build(A, B, R, C), build(Ref(a), Ref(b), Ref(row), Ref(column)).array


@cache
def fused_case(ending: str) -> tuple[str, list[Any], list[float], Any]:
    """Source, leaf arrays, numbers and the expected elements of an expression."""
    with MatCache(threads=1) as memory:
        node, expected = expression(memory)
        linear = linearise(node, node.shape, ending, "float64")  # type: ignore[arg-type]
        arrays = [m.slot.array.copy() for m in linear.operands if m.slot.array is not None]
        return fused_source(linear.fused), arrays, linear.numbers, expected


@pytest.mark.parametrize("ending", ["assign", "total", "colsum"])
def test_fused_expressions_compile(ending: str) -> None:
    for architecture in ARCHITECTURES:
        assert nvrtc(fused_case(ending)[0], architecture)


@needs_compiler
@pytest.mark.parametrize("ending", ["assign", "total", "colsum"])
def test_fused_expressions_on_the_host_match_numpy(ending: str) -> None:
    source, arrays, numbers, expected = fused_case(ending)
    rows, columns = expected.shape
    blocks = 1 if ending == "assign" else 4
    shape = {"assign": (rows, columns), "total": (blocks, 1), "colsum": (blocks, columns)}[ending]
    out = np.full(shape, np.nan)
    call = [rows, columns, *arrays, *(np.float64(n) for n in numbers), out]
    cuda_host.HostModule(source).call("run", *call, blocks=blocks)
    wanted = {"assign": expected, "total": expected.sum(), "colsum": expected.sum(axis=0)}[ending]
    got = {"assign": out, "total": out.sum(), "colsum": out.sum(axis=0)}[ending]
    np.testing.assert_allclose(got, wanted, rtol=1e-10)


@needs_compiler
def test_random_numbers_have_the_same_bits_as_on_the_cpu() -> None:
    with MatCache(threads=1) as memory:
        key = from_array(memory, np.array([[2**40 + 7, 3, 5]]))
        mat = copy(random(memory, (6, 9), key, stream=4)).mat()
        linear = linearise(random(memory, (6, 9), key, stream=4), (6, 9), "assign", "float32")
        out = np.zeros((6, 9), np.float32)
        module = cuda_host.HostModule(fused_source(linear.fused))
        module.call("run", 6, 9, np.array([[2**40 + 7, 3, 5]]), out)
        np.testing.assert_array_equal(out, mat.numpy())


@needs_compiler
def test_transposed_product_and_sums_on_the_host_match_scipy() -> None:
    X = sparse(20, 30)
    table = np.random.default_rng(0).normal(size=(20, 7)).astype(np.float32)
    with MatCache(threads=1) as memory:
        pattern = from_sparse(memory, X.astype(np.float32)).pattern
    out = np.zeros((30, 7), np.float32)
    module = cuda_host.HostModule(library_source())
    module.call(
        "transposed_product_32",
        pattern.active_count,
        pattern.active,
        pattern.starts,
        pattern.t_rows,
        pattern.t_pos,
        X.data.astype(np.float32),
        table,
        np.int32(7),
        out,
    )
    np.testing.assert_allclose(out, X.T @ table, rtol=1e-5, atol=1e-5)
    partials = np.random.default_rng(1).normal(size=(64, 7))
    sums = np.zeros((1, 7))
    module.call("add_partials_f64", partials, np.int32(64), np.int32(7), sums)
    np.testing.assert_allclose(sums[0], partials.sum(axis=0), rtol=1e-12)


def test_reductions_and_sums_are_used() -> None:
    """The expressions above end in sums on the CPU too, with the same result."""
    with MatCache(threads=2) as memory:
        node, expected = expression(memory)
        np.testing.assert_allclose(float(total(node)), expected.sum(), rtol=1e-10)
        np.testing.assert_allclose(colsum(node).numpy()[0], expected.sum(axis=0), rtol=1e-10)
