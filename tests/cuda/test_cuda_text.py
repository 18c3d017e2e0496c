"""The CUDA text: compiled by NVRTC for three kinds of cards; run on the host with one lane."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import special

from blocklearn.matcache import (
    Mat,
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
    rownnz,
    rowsum,
    rowwise,
    sddmm,
    sigmoid,
    sign,
    softplus,
    sqrt,
    total,
    where,
)
from blocklearn.matcache.emit.cuda_elements import elements_source
from blocklearn.matcache.emit.cuda_header import TEAM, device_header
from blocklearn.matcache.emit.cuda_layout import layout
from blocklearn.matcache.emit.cuda_rows import rowwise_source
from blocklearn.matcache.operations.dense import compiled
from blocklearn.matcache.program.instructions import Ending
from blocklearn.models.als import rows as als_rows
from blocklearn.models.lda import inference as lda_model
from tests.support import cuda_host, programs
from tests.support.backends import needs_compiler
from tests.support.cubin import ARCHITECTURES, TEXTS, nvrtc, ptx, resources
from tests.support.cuda_gpu import DeviceModule
from tests.support.often import crossed, first_often, paired, rarely


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
            "moved": (X, u, table, rng.normal(size=(rows, 1))),
            "by_turns": (X, u, table, rng.normal(size=(rows, 1))),
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
    "softmax_scores",
    "by_turns",
    "implicit",
    "weighted",
    "until_settled",
    "moved",
]


@pytest.mark.parametrize("architecture", ["90", *rarely("80")])
@pytest.mark.parametrize("name", first_often(PROGRAMS, 4))
def test_programs_compile(name: str, architecture: str) -> None:
    plan = Case(name, k=33).compiled(np.float32)
    for teams in (False, True):
        assert nvrtc(rowwise_source(plan, ordered=True, teams=teams), architecture)


@pytest.mark.parametrize("k", first_often([100, 1, 256]))
def test_the_e_step_keeps_to_registers(k: int) -> None:
    """And so every vector of a row is in registers: nothing spills into memory."""
    plan = Case("lda", k=k).compiled(np.float32)
    needs = resources(nvrtc(rowwise_source(plan, ordered=True), "90"))["run"]
    assert needs.frame == 0
    assert needs.blocks(256) >= (3 if k <= 128 else 2)


REGISTERS, WARPS = 65536, 64  # of a processor: what its threads share; how many it takes at most
WAY = 20_000  # bytes, of one of 132 processors: 4.3 TB/s for 0.6 us, in which a busy H200 answers


@pytest.mark.parametrize(
    ("name", "k", "table"),
    [
        ("lda", 256, "bfloat16"),
        ("conjugate_gradients", 100, "float"),
        *rarely(("lda", 32, "float"), ("lda", 1000, "float"), ("conjugate_gradients", 20, "float")),
    ],
)
def test_enough_rows_of_tables_are_on_their_way(name: str, k: int, table: str) -> None:
    """So that memory is the limit: what can arrive in the time of an answer has been asked for."""
    plan = Case(name, k=k).compiled(np.float32)
    types = ["float", "float", table, "float", "float"]
    needs = resources(nvrtc(rowwise_source(plan, types, ordered=True), "90"))["run"]
    blocks = REGISTERS // (256 * (-(-needs.registers // 8) * 8))
    groups = min(8 * blocks, WARPS) * (32 // layout(plan, types).lanes)
    row = k * (4 if table == "float" else 2)
    asked = groups * layout(plan, types).rows_in_flight * row
    assert asked >= WAY


@pytest.mark.parametrize("k", first_often([100, 256, 1000]))
def test_rows_are_read_16_bytes_at_a_time(k: int) -> None:
    text = ptx(rowwise_source(Case("lda", k=k).compiled(np.float32)))
    assert "ld.global.nc.v4.f32" in text
    table_rows = text.count("ld.global.nc.v4.f32")
    singles = text.count("ld.global.nc.f32")
    assert table_rows >= 4 or k == 1000
    assert singles <= 12  # values of non-zeros and numbers
    half = ptx(rowwise_source(Case("lda", k=k).compiled(np.float32), LDA_HALF))
    assert ("ld.global.nc.v4.u32" in half) == (k % 8 == 0)


LDA_HALF = ["float", "float", "bfloat16", "float", "float"]


def rounded(table: Any) -> Any:
    """A table whose numbers are those of bfloat16."""
    bits = np.ascontiguousarray(table, np.float32).view(np.uint32) >> 16
    return (bits << 16).view(np.float32).astype(np.float64)


@needs_compiler
@crossed(threads=[1, 64], k=[5, 36, 64])
def test_tables_of_bfloat16_are_summed_in_float32(k: int, threads: int) -> None:
    case = Case("lda", k=k)
    case.args = (*case.args[:2], rounded(case.args[2]), *case.args[3:])
    source = rowwise_source(case.compiled(np.float32), LDA_HALF, ordered=True)
    module = cuda_host.HostModule(source, threads)
    run_program(case, np.float32, module, long=2, half=2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "k", "dtype"),
    [
        (name, k, (np.float32, np.float64)[(i + j) % 2])
        for i, name in enumerate(PROGRAMS)
        for j, k in enumerate([1, 100, 1028])
    ],
)
def test_programs_of_every_k_compile(name: str, k: int, dtype: Any) -> None:
    for architecture in TEXTS:
        source = rowwise_source(Case(name, k=k).compiled(dtype), ordered=True)
        assert nvrtc(source, architecture)


@pytest.mark.parametrize(
    "name", first_often(["infer_vb", "completion", "infer_cvb0", "bound", "proportions"], 2)
)
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


@paired(2, biases=[True, False], alpha=[None, 2.0], k=[20, 102, 1000])
def test_programs_of_als_compile(k: int, alpha: float | None, biases: bool) -> None:
    with MatCache(threads=1) as cache:

        def ones(rows: int, columns: int) -> Any:
            return from_array(cache, np.ones((rows, columns), np.float32))

        R = from_sparse(cache, sparse(9, 13).astype(np.float32))
        u, table, mean, free = ones(9, k), ones(13, k), ones(1, 1), ones(1, k)
        fixed, G = free if biases else None, None if alpha is None else ones(k, k)
        feedback = als_rows.Feedback(mean, alpha)
        ridge = als_rows.Ridge(fixed, 0.0, 0.1, None)
        equations = als_rows.LeastSquares(R, table, G, ridge, feedback)
        programs = [
            als_rows.conjugate_gradients.compile(equations, u, free, free, 3, 0.0),
            als_rows.losses.compile(equations, u, ones(13, 1)),
            als_rows.normal_equations.compile(equations, u),
        ]
        for program in programs:
            assert nvrtc(rowwise_source(program.plan), "90")


def run_program(
    case: Case,
    dtype: Any,
    module: cuda_host.HostModule | DeviceModule,
    teams: cuda_host.HostModule | DeviceModule | None = None,
    *,
    long: int | None = None,
    blocks: int = 1,
    half: int | None = None,
) -> list[Any]:
    """Run a program and compare with its definition in float64.

    teams: its module for teams, which then has half of the long rows. long: how many rows are long,
    for a module with an order of rows. half: the argument that is a table of bfloat16. Returns all
    that was written.
    """
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
    if half is not None:
        arrays[half] = (arrays[half].view(np.uint32) >> 16).astype(np.uint16)
    fresh = [v for v in plan.program.returns if v.arg < 0]
    nan = np.nan
    outputs = [
        np.full(X.nnz if v.kind.name == "NNZ" else (rows, v.length), nan, dtype) for v in fresh
    ]
    hidden = [np.full(X.nnz, nan, dtype) for _ in plan.hidden]
    call = [X.indptr.astype(np.int64), X.indices.astype(np.int32), *arrays, *outputs, *hidden]
    if long is None:
        module.call("run", rows, *call, blocks=blocks)
    else:
        order = np.argsort(-np.diff(X.indptr), kind="stable").astype(np.int32)
        split = np.array([long, 0 if teams is None else long // 2])
        call = [rows, order, split, blocks, *call]
        if teams is not None:
            teams.call("run", *call, blocks=TEAM * blocks)
        module.call("run", *call, blocks=2 * blocks)
    copies = [a.copy() if isinstance(a, np.ndarray) else a for a in case.args]
    expected = case.function.reference(*copies)
    expected = expected if isinstance(expected, tuple) else (expected,)
    rtol = 2e-4 if dtype == np.float32 else 1e-9
    for got, wanted in zip(outputs, expected, strict=True):
        wanted = wanted.data if sp.issparse(wanted) else wanted
        np.testing.assert_allclose(got, wanted, rtol=rtol, atol=rtol)
    for n, (after, wanted) in enumerate(zip(arrays, copies, strict=True)):
        if isinstance(wanted, np.ndarray) and n != half:
            np.testing.assert_allclose(after, wanted, rtol=rtol, atol=rtol)
    return [*outputs, *(a for a in arrays if isinstance(a, np.ndarray))]


@needs_compiler
@paired(8, dtype=[np.float32, np.float64], name=PROGRAMS)
def test_programs_on_the_host_match_the_definition(name: str, dtype: Any) -> None:
    case = Case(name)
    run_program(case, dtype, cuda_host.HostModule(rowwise_source(case.compiled(dtype))))


@needs_compiler
@paired(8, k=[5, 36, 100], backwards=[False, True], name=PROGRAMS)
def test_programs_with_all_threads_match_the_definition(name: str, k: int, backwards: bool) -> None:
    """8, 16 or 32 lanes for a row; short rows, and long ones that a block or a team shares."""
    case = Case(name, k=k, columns=41)
    # float32 is not enough for the residual that conjugate gradients leave
    dtype = np.float64 if name == "conjugate_gradients" else np.float32
    run_program(case, dtype, *for_rows(case, dtype, 64, backwards=backwards), long=4, blocks=2)


def for_rows(
    case: Case, dtype: Any, threads: int, *, backwards: bool = False
) -> list[cuda_host.HostModule]:
    """The modules of a program, on the host: for rows in an order, and for teams."""
    plan = case.compiled(dtype)
    return [
        cuda_host.HostModule(
            rowwise_source(plan, ordered=True, teams=team > 1),
            threads,
            team=team,
            backwards=backwards,
        )
        for team in (1, 2)
    ]


@rowwise
def by_columns(Xt: Any, w: Any, bias: Any, table: Any) -> Any:
    scaled = Xt * (sddmm(w, table, Xt) + 1.0)
    w <<= w + scaled @ table
    bias <<= bias + rowsum(scaled) + rownnz(Xt)
    return scaled


@needs_compiler
@crossed(threads=[1, 64, -64], k=[3, 36])
def test_programs_over_columns(k: int, threads: int) -> None:
    X = sparse(40, 13).tolil()
    X[:, 4] = 0  # does not occur
    X = X.tocsr()
    rng = np.random.default_rng(0)
    w, bias, table = (rng.normal(size=s).astype(np.float32) for s in ((13, k), (13, 1), (40, k)))
    with MatCache(threads=1) as memory:
        x = from_sparse(memory, X.astype(np.float32))
        plan = by_columns.compile(x.T, *(from_array(memory, a) for a in (w, bias, table))).plan
        pattern = x.pattern
        index = [a.copy() for a in pattern.transposed()]
    active, starts, t_rows, positions = index
    wanted_w, wanted_bias = w.astype(np.float64), bias.astype(np.float64)
    by_columns.reference(sp.csr_array(X.T), wanted_w, wanted_bias, table.astype(np.float64))
    wanted_w[4], wanted_bias[4] = w[4], bias[4]  # it is not visited
    order = np.argsort(-np.diff(starts), kind="stable").astype(np.int32)
    values, scaled = X.data.astype(np.float32), np.full(X.nnz, np.nan, np.float32)
    source = rowwise_source(plan, ordered=True)
    module = cuda_host.HostModule(source, abs(threads), backwards=threads < 0)
    call = [np.array([len(active)]), order, np.array([3, 0]), 1, starts, t_rows, active, positions]
    module.call("run", *call, values, w, bias, table, scaled, blocks=2)
    np.testing.assert_allclose(w, wanted_w, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(bias, wanted_bias, rtol=1e-4, atol=1e-4)
    assert np.isfinite(scaled).all()


@needs_compiler
def test_bits_depend_neither_on_the_grid_nor_on_the_order_of_threads() -> None:
    case = Case("lda", k=36, columns=41)
    found = []
    for blocks, backwards in ((1, False), (2, True), (5, False)):
        modules = for_rows(case, np.float32, 64, backwards=backwards)
        found.append(run_program(case, np.float32, *modules, long=4, blocks=blocks))
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


@needs_compiler
@pytest.mark.parametrize(("first", "long"), [(0, 0), (0, 2), (0, 41), (3, 3), (3, 5), (41, 41)])
def test_every_row_is_worked_on_once_by_few_or_many_blocks(first: int, long: int) -> None:
    """By blocks that have long rows, of which there may be fewer than rows, or more, or none."""
    text = """
extern "C" __global__ void run(i64 rows, const i64* split, i64 apart, int* seen) {
  const bl_turns turns(split[0], apart, rows, split[1]);
  for (i64 n = turns.first; n < turns.end; n += turns.step)
    if (BL_LANE == 0 && (!turns.together || threadIdx.x == 0)) seen[n] += turns.together ? 100 : 1;
}
"""
    module = cuda_host.HostModule("#define BL_LANES 16\n" + device_header() + text, 64)
    for blocks, apart in ((2, 1), (7, 3), (60, 50)):
        seen = np.zeros(41, np.int32)
        module.call("run", 41, np.array([long, first]), apart, seen, blocks=blocks)
        assert seen.tolist() == [0] * first + [100] * (long - first) + [1] * (41 - long)


@pytest.mark.gpu
@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("k", [1, 5, 32, 100, 256, 1000, 1028])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_on_a_device_match_the_definition(name: str, k: int, half: bool) -> None:
    case = Case(name, k=k, columns=41)
    dtype = np.float64 if name == "conjugate_gradients" else np.float32
    if half and name != "lda":
        pytest.skip("one program is enough")
    if half:
        case.args = (*case.args[:2], rounded(case.args[2]), *case.args[3:])
    types = LDA_HALF if half else None
    modules = [
        DeviceModule(rowwise_source(case.compiled(dtype), types, ordered=True, teams=teams))
        for teams in (False, True)
    ]
    run_program(case, dtype, *modules, long=4, blocks=2, half=2 if half else None)


@needs_compiler
@pytest.mark.parametrize("name", ["lda", "implicit", "until_settled", "moved", "by_turns"])
def test_programs_with_vectors_over_a_whole_block_match_the_definition(name: str) -> None:
    case = Case(name, k=1028, rows=3)
    run_program(case, np.float32, *for_rows(case, np.float32, 256), long=2, blocks=2)


@rowwise
def shifted(u: Any, shift: Any) -> None:
    u <<= u + shift
    shift <<= shift * 0.5


@needs_compiler
@pytest.mark.parametrize("threads", [256, -256])
def test_a_number_that_a_whole_block_reads_is_written_when_all_have(threads: int) -> None:
    u, shift = np.ones((3, 1100), np.float32), np.full((3, 1), 2.0, np.float32)
    with MatCache(threads=1) as memory:
        plan = shifted.compile(from_array(memory, u), from_array(memory, shift)).plan
    module = cuda_host.HostModule(rowwise_source(plan), abs(threads), backwards=threads < 0)
    module.call("run", 3, u, shift)
    assert (u == 3.0).all() and (shift == 1.0).all()


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

    from blocklearn.matcache.program.reference import Ref

    return build(A, B, R, C), build(Ref(a), Ref(b), Ref(row), Ref(column)).array


@cache
def dense_case(ending: Ending) -> tuple[str, list[Any], Any]:
    """Source, arguments and the expected elements of an expression."""
    with MatCache(threads=1) as memory:
        node, expected = expression(memory)
        found, args = compiled(memory, (node,), node.shape, (ending,), "float64")
        values = [a.numpy() if isinstance(a, Mat) else np.float64(a) for a in args]
        return elements_source(found.plan), values, expected


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("ending", ["assign", "total", "colsum"])
def test_dense_expressions_compile(ending: Ending, architecture: str) -> None:
    assert nvrtc(dense_case(ending)[0], architecture)


@needs_compiler
@crossed(threads=[1, 64], ending=["assign", "total", "colsum"])
def test_dense_expressions_on_the_host_match_numpy(ending: Ending, threads: int) -> None:
    source, args, expected = dense_case(ending)
    rows, columns = expected.shape
    blocks = 1 if ending == "assign" else 4
    shape = {"assign": (rows, columns), "total": (blocks, 1), "colsum": (blocks, columns)}[ending]
    out = np.full(shape, np.nan)
    cuda_host.HostModule(source, threads).call("run", rows, columns, *args, out, blocks=blocks)
    wanted = {"assign": expected, "total": expected.sum(), "colsum": expected.sum(axis=0)}[ending]
    got = {"assign": out, "total": out.sum(), "colsum": out.sum(axis=0)}[ending]
    np.testing.assert_allclose(got, wanted, rtol=1e-10)


@needs_compiler
@paired(3, threads=[1, 64], endings=[
    ("assign", "total", "total"), ("total", "colmax", "assign", "colsum"), ("assign", "assign")
])  # fmt: skip
def test_several_endings_on_the_host_match_numpy(endings: tuple[Ending, ...], threads: int) -> None:
    with MatCache(threads=1) as memory:
        node, expected = expression(memory)
        roots = [node * float(n) for n in range(1, len(endings) + 1)]
        found, args = compiled(memory, roots, node.shape, endings, "float64")
        values = [a.numpy() if isinstance(a, Mat) else np.float64(a) for a in args]
    source, (rows, columns) = elements_source(found.plan), expected.shape
    assert nvrtc(source)
    blocks = 1 if set(endings) == {"assign"} else 4
    shapes = {"assign": (rows, columns), "total": (blocks, 1)}
    outs = [np.full(shapes.get(ending, (blocks, columns)), np.nan) for ending in endings]
    module = cuda_host.HostModule(source, threads)
    module.call("run", rows, columns, *values, *outs, blocks=blocks)
    for n, (ending, out) in enumerate(zip(endings, outs, strict=True), 1):
        wanted = {
            "assign": expected * n,
            "total": expected.sum() * n,
            "colsum": expected.sum(axis=0) * n,
            "colmax": expected.max(axis=0) * n,
        }[ending]
        joined = {"assign": out, "total": out.sum(), "colmax": out.max(axis=0)}
        np.testing.assert_allclose(joined.get(ending, out.sum(axis=0)), wanted, rtol=1e-10)


EXPPSI = """
extern "C" __global__ void run(i64 n, const float* x, float* out) {
  for (i64 e = BL_THREAD; e < n; e += BL_THREADS) out[e] = bl_exppsi(x[e]);
}
"""


def test_exppsi_takes_one_division() -> None:
    loop = "for (i64 e = BL_THREAD; e < n; e += BL_THREADS)"
    once = EXPPSI.replace(loop, "const int e = threadIdx.x;")
    assert len(re.findall(r"\b(?:div|rcp)\.", ptx(device_header() + once))) == 1


@needs_compiler
def test_exppsi_is_exact_in_all_of_its_range() -> None:
    x = np.geomspace(1e-3, 1e38, 4000, dtype=np.float32)
    x = np.concatenate([x, np.array([0, 1e-45, 1e-38, 1e7, 1.0000001e7, np.inf], np.float32)])
    out = np.empty_like(x)
    cuda_host.HostModule(device_header() + EXPPSI).call("run", x.size, x, out)
    wanted = np.maximum(np.exp(special.psi(np.maximum(x, 1e-30).astype(np.float64))), 1e-20)
    np.testing.assert_allclose(out, wanted, rtol=2e-5)  # next to the floor: 50 roundings of psi
    large = x >= 1
    np.testing.assert_allclose(out[large], wanted[large], rtol=1e-6)
    edge = np.array([-0.0, -1e-30, -np.inf, np.nan], np.float32)
    got = np.empty_like(edge)
    cuda_host.HostModule(device_header() + EXPPSI).call("run", edge.size, edge, got)
    assert got[0] == np.float32(1e-20)
    assert np.isnan(got[1:]).all()


@needs_compiler
def test_random_numbers_have_the_same_bits_as_on_the_cpu() -> None:
    with MatCache(threads=1) as memory:
        key = from_array(memory, np.array([[2**40 + 7, 3, 5]]))
        mat = copy(random(memory, (6, 9), key, stream=4)).mat()
        numbers = random(memory, (6, 9), key, stream=4)
        found, _ = compiled(memory, (numbers,), (6, 9), ("assign",), "float32")
        out = np.zeros((6, 9), np.float32)
        module = cuda_host.HostModule(elements_source(found.plan, ["i64"]))
        module.call("run", 6, 9, np.array([[2**40 + 7, 3, 5]]), out)
        np.testing.assert_array_equal(out, mat.numpy())


def test_reductions_and_sums_are_used() -> None:
    """The expressions above end in sums on the CPU too, with the same result."""
    with MatCache(threads=2) as memory:
        node, expected = expression(memory)
        np.testing.assert_allclose(float(total(node)), expected.sum(), rtol=1e-10)
        np.testing.assert_allclose(colsum(node).numpy()[0], expected.sum(axis=0), rtol=1e-10)
