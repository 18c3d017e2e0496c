"""Row-wise programs against their definition: the same text in NumPy float64, on hostile inputs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from blocklearn.matcache import (
    MatCache,
    ShapeError,
    copy,
    equal,
    exp,
    exppsi,
    from_array,
    from_sparse,
    log,
    maximum,
    named,
    repeat,
    rowdot,
    rowmax,
    rowmin,
    rownnz,
    rowsum,
    rowwise,
    scalar,
    sddmm,
    sigmoid,
    softplus,
    sort,
    total,
    until,
    where,
)
from blocklearn.matcache.emit.numba_rows import rowwise_source
from blocklearn.matcache.operations.rowwise import Rowwise
from blocklearn.matcache.program.instructions import Kind
from blocklearn.matcache.program.schedule import groups
from tests.support import programs
from tests.support.often import crossed


@cache
def memory() -> MatCache:
    return MatCache(threads=2)


def compare(function: Rowwise, *args: Any, dtype: Any = np.float64, rtol: float = 1e-9) -> Any:
    """Results, and arguments that were assigned to, against the definition. Returns the results."""
    cache = memory()
    mats: list[Any] = [
        from_sparse(cache, a.astype(dtype))
        if sp.issparse(a)
        else from_array(cache, a.astype(dtype))
        if isinstance(a, np.ndarray)
        else a
        for a in args
    ]
    copies = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    got, wanted = function(*mats), function.reference(*copies)
    got, wanted = (r if isinstance(r, tuple) else (r,) for r in (got, wanted))
    for one, other in zip(got, wanted, strict=True):
        if other is not None:
            other = other.data if sp.issparse(other) else other
            np.testing.assert_allclose(one.numpy(), other, rtol=rtol, atol=rtol * 10)
    for mat, after in zip(mats, copies, strict=True):
        if isinstance(after, np.ndarray):
            np.testing.assert_allclose(mat.numpy(), after, rtol=rtol, atol=rtol * 10)
    return [None if r is None else r.numpy() for r in got]


# ---------------------------------------------------------------- the programs of models


@rowwise
def explicit_als(R: Any, u: Any, items: Any, penalty: Any) -> Any:
    """Ratings of each row: ridge regression on item factors, by conjugate gradients."""
    ridge = penalty * maximum(rownnz(R), 1.0)
    r = (R - sddmm(u, items, R)) @ items - ridge * u
    p = copy(r)
    rs = rowdot(r, r)
    for _ in repeat(8):
        Ap = sddmm(p, items, R) @ items + ridge * p
        step = rs / maximum(rowdot(p, Ap), 1e-30)
        u <<= u + step * p
        r <<= r - step * Ap
        new = rowdot(r, r)
        p <<= r + (new / maximum(rs, 1e-30)) * p
        rs <<= new
        until(rs < 1e-18)


@rowwise
def implicit_als(C: Any, u: Any, items: Any, gram: Any, penalty: Any) -> Any:
    """Hu, Koren, Volinsky (2008): (Y'Y + Y'(C - 1)Y + penalty) u = Y'C p, by CG."""
    r = C @ items - (u @ gram + ((C - 1.0) * sddmm(u, items, C)) @ items + penalty * u)
    p = copy(r)
    rs = rowdot(r, r)
    for _ in repeat(8):
        Ap = p @ gram + ((C - 1.0) * sddmm(p, items, C)) @ items + penalty * p
        step = rs / maximum(rowdot(p, Ap), 1e-30)
        u <<= u + step * p
        r <<= r - step * Ap
        new = rowdot(r, r)
        p <<= r + (new / maximum(rs, 1e-30)) * p
        rs <<= new


@rowwise
def nmf(X: Any, W: Any, H: Any, gram: Any, iters: Any) -> Any:
    """Multiplicative updates of the row factors, Frobenius (Lee, Seung 2001), and the KL ratio."""
    for _ in repeat(iters):
        W <<= W * (X @ H) / (W @ gram + 1e-9)
    return X / (sddmm(W, H, X) + 1e-9)


@rowwise
def k_means(X: Any, centres: Any, norms: Any) -> Any:
    """Nearest centre of each row as a 0/1 table, and the squared distance."""
    score = 2.0 * (X @ centres) - norms
    best = rowmax(score)
    return equal(score, best), rowsum(X * X) - best


@rowwise
def glm(X: Any, W: Any, bias: Any, y: Any) -> Any:
    """Logistic regressions that share the data: residuals, loss and class-wise predictions."""
    z = X @ W + bias
    p = sigmoid(z)
    return p - y, rowsum(softplus(z) - y * z), where(p > 0.5, 1.0, 0.0)


MODELS = [
    "lda",
    "explicit_als",
    "implicit_als",
    "nmf",
    "k_means",
    "glm",
    "until_settled",
    "weighted",
    "by_turns",
]


def data(kind: str, rows: int = 12, columns: int = 9) -> Any:
    """Counts in hostile forms."""
    rng = np.random.default_rng(len(kind))
    X = rng.poisson(0.6, (rows, columns)).astype(float)
    match kind:
        case "empty rows":
            X[::2] = 0
        case "one huge row":
            X[:] = 0
            X[3] = 1 + np.arange(columns)
        case "nothing":
            X[:] = 0
        case "one row":
            X = X[:1] + 1
        case "full":
            X += 1
        case "one column":
            X = X[:, :1]
        case "square":
            X = np.vstack([X, X])[:columns]
    return sp.csr_array(X)


def arguments(name: str, X: Any, k: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(k)
    n, m = X.shape
    u, table = rng.uniform(0.5, 1.5, (n, k)), rng.uniform(0.1, 1.0, (m, k))
    gram, row = table.T @ table, rng.normal(size=(1, k))
    return {
        "lda": (X, u, table, row**2, 5),
        "explicit_als": (X, u, table, 0.1),
        "implicit_als": (X, u, table, gram, 0.3),
        "nmf": (X, u, table, gram, 4),
        "k_means": (X, table, row),
        "glm": (X, table, row, (u > 1) * 1.0),
        "until_settled": (X, u, table, 0.1),
        "weighted": (X, u, rng.normal(size=(1, m)), rng.normal(size=(n, 1))),
        "by_turns": (X, u, table, rng.normal(size=(n, 1))),
    }[name]


def model(name: str) -> Rowwise:
    return globals().get(name) or getattr(programs, name)  # type: ignore[no-any-return]


KINDS = [
    "plain",
    "empty rows",
    "one huge row",
    "nothing",
    "one row",
    "full",
    "one column",
    "square",
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", MODELS)
def test_programs_match_their_definition(name: str, kind: str) -> None:
    compare(model(name), *arguments(name, data(kind), 5), rtol=1e-7)


@pytest.mark.parametrize("kind", ["plain", "one row"])
@pytest.mark.parametrize("name", ["lda", "glm", "weighted", "by_turns"])
def test_vectors_of_one_number(name: str, kind: str) -> None:
    compare(model(name), *arguments(name, data(kind), 1), rtol=1e-7)


def test_programs_in_float32() -> None:
    compare(programs.lda, *arguments("lda", data("plain"), 5), dtype=np.float32, rtol=2e-4)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 40), st.integers(1, 30), st.floats(0, 1), st.integers(0, 2**32 - 1))
def test_e_step_on_any_matrix(rows: int, columns: int, density: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = sp.csr_array(
        rng.poisson(3, (rows, columns)) * (rng.random((rows, columns)) < density) * 1.0
    )
    compare(programs.lda, *arguments("lda", X, 5))


def test_conjugate_gradients_solve_the_normal_equations() -> None:
    X = data("plain")
    _, u, items, penalty = arguments("explicit_als", X, 5)
    mats = [from_sparse(memory(), X), *(from_array(memory(), a) for a in (u, items))]
    explicit_als(*mats, penalty)
    got = mats[1].numpy()
    for i, row in enumerate(X.toarray()):
        rated = items[row != 0]
        left = rated.T @ rated + penalty * max(len(rated), 1) * np.eye(5)
        np.testing.assert_allclose(
            got[i], np.linalg.solve(left, rated.T @ row[row != 0]), rtol=1e-5
        )


@pytest.mark.parametrize("name", ["lda", "explicit_als", "weighted", "glm"])
def test_nan_stays_in_its_row(name: str) -> None:
    X = data("full")
    X.data[X.indptr[4]] = np.nan
    results = compare(model(name), *arguments(name, X, 5), rtol=1e-7)
    by_row = [r for r in results if r is not None and r.shape[0] == 12]
    assert any(np.isnan(result[4]).any() for result in by_row) or not by_row
    for result in by_row:
        assert np.isfinite(np.delete(result, 4, axis=0)).all()


def test_zero_columns() -> None:
    X = sp.csr_array((4, 0))
    compare(programs.lda, *arguments("lda", X, 5))
    compare(glm, *arguments("glm", X, 5))


def test_rows_do_not_depend_on_their_block() -> None:
    """The same bits for a row whatever other rows are in the block, and where it stands."""
    X = data("plain", rows=64)
    X, u, table, alpha, iters = arguments("lda", X, 5)

    def run(rows: Any) -> Any:
        theta = from_array(memory(), u[rows].astype(np.float32))
        args = (from_array(memory(), a.astype(np.float32)) for a in (table, alpha))
        programs.lda(from_sparse(memory(), X[rows].astype(np.float32)), theta, *args, iters)
        return theta.numpy()

    whole = run(np.arange(64))
    for rows in ([5], [63, 0, 17], np.arange(64)[::-1], np.arange(30, 47)):
        np.testing.assert_array_equal(run(np.asarray(rows)), whole[rows])


# ---------------------------------------------------------------- the schedule


@rowwise
def write_after_read(X: Any, u: Any, table: Any) -> Any:
    """Old values read after they were overwritten, kept by copies and by expressions."""
    before = copy(u)
    old_dot = sddmm(u, table, X)
    total_before = rowsum(u)
    u <<= u * 2.0 + total_before
    new_dot = sddmm(u, table, X)
    u <<= before - u / 3.0
    third = sddmm(u, table, X)
    return (old_dot * new_dot - third) @ table + before, rowsum(u) - total_before, third


@rowwise
def mutable_nonzeros(X: Any, u: Any, table: Any) -> Any:
    """Non-zeros that are assigned to, between and inside loops that share them."""
    weight = X * 1.0
    shifted = weight + 1.0
    weight <<= weight * sddmm(u, table, X)
    high = rowmax(weight)
    weight <<= weight / maximum(high, 1e-6)
    for _ in repeat(3):
        g = weight @ table
        u <<= u + 0.1 * g
        weight <<= sigmoid(sddmm(u, table, X)) * shifted
        shifted <<= shifted * 0.5
    return weight, shifted, rowsum(weight * shifted)


@rowwise
def assigned_in_place(X: Any, u: Any, table: Any, rows: Any) -> Any:
    """Sparse values, vectors and numbers of arguments are assigned to."""
    X <<= X * 2.0 + rows
    rows <<= rowsum(X)
    u <<= u + rows
    rows <<= rowsum(u) - rows
    X <<= X - sddmm(u, table, X) / maximum(abs(rows), 1.0)
    return u


@rowwise
def nested(X: Any, u: Any, table: Any, outer: Any) -> Any:
    """Loops in loops; row numbers carried through both; an inner loop that rows leave."""
    size = rowsum(u)
    rounds = size * 0.0
    for _ in repeat(outer):
        g = (X / (sddmm(u, table, X) + 0.1)) @ table
        for _ in repeat(4):
            u <<= 0.5 * u + 0.1 * g
            size <<= rowsum(u) * 0.5 + size * 0.5
            rounds <<= rounds + 1.0
            until(size < 1.2)
        u <<= u + size * 0.01
    return g, rounds, size


@rowwise
def several_lengths(u: Any, v: Any, M: Any, shift: Any) -> Any:
    """Vectors of two lengths, products both ways, without any sparse argument."""
    w = u @ M + v
    top = rowmax(w)
    low = rowmin(u)
    e = exp(w - top)
    u <<= u * rowsum(e) - low + shift
    return e / rowsum(e), top - low, u, rowdot(u, u)


@rowwise
def used_after_the_loop(X: Any, u: Any, table: Any, iters: Any) -> Any:
    for _ in repeat(iters):
        ratio = X / (sddmm(u, table, X) + 1.0)
        g = ratio @ table
        size = rowdot(g, g)
        u <<= u + 0.01 * g
    return ratio, g, size


@pytest.mark.parametrize(
    "kind, k", [("plain", 5), ("empty rows", 5), ("nothing", 5), ("one row", 5), ("plain", 1)]
)
def test_hazards(kind: str, k: int) -> None:
    X, (_, u, table, *_) = data(kind), arguments("nmf", data(kind), k)
    rows = np.linspace(0.5, 2.0, X.shape[0])[:, None]
    compare(write_after_read, X, u, table)
    compare(mutable_nonzeros, X, u, table)
    compare(assigned_in_place, X, u, table, rows)
    compare(used_after_the_loop, X, u, table, 3)
    compare(nested, X, u, table, 3)


@pytest.mark.parametrize(
    "shape", [(6, 5, 3), (1, 5, 3), (6, 1, 3), (6, 5, 1), (1, 1, 1), (5, 5, 5)]
)
def test_programs_without_a_sparse_argument(shape: tuple[int, int, int]) -> None:
    n, k, m = shape
    rng = np.random.default_rng(0)
    u, v, M = rng.normal(size=(n, k)), rng.normal(size=(n, m)), rng.normal(size=(k, m))
    compare(several_lengths, u, v, M, rng.normal(size=(1, k)))


OPERATIONS = [
    lambda u, r, z, t: u.__ilshift__(u * 0.5 + r),
    lambda u, r, z, t: r.__ilshift__(rowsum(u) * 0.1),
    lambda u, r, z, t: z.__ilshift__(sddmm(u, t, z) * 0.3),
    lambda u, r, z, t: u.__ilshift__(0.1 * ((z * 0.5) @ t) + u * 0.2),
    lambda u, r, z, t: z.__ilshift__(z * 0.4 + r),
    lambda u, r, z, t: r.__ilshift__(0.2 * rowmax(abs(z)) + r * 0.5),
    lambda u, r, z, t: u.__ilshift__(u - 0.3 * rowmax(u)),
    lambda u, r, z, t: z.__ilshift__(where(z < r, z + 0.1, z * 0.7)),
    lambda u, r, z, t: r.__ilshift__(0.1 * rowdot(u, z @ t)),
]


def test_numbers_of_a_row_do_not_part_a_loop() -> None:
    def scaled(A: Any, c: Any) -> Any:
        v = A * 2.0
        s = c * 3.0
        return exp(v) * s

    A = from_array(memory(), np.ones((4, 3), np.float32))
    c = from_array(memory(), np.ones((4, 1), np.float32))
    found = Rowwise(scaled).compile(A, c).plan
    assert [(g.kind, len(g.instructions)) for g in groups(found.nodes)] == [
        (Kind.ROW, 1),
        (Kind.VEC, 3),
    ]
    assert not found.vectors


SEQUENCES = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 2)), min_size=2, max_size=9)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)  # each compiles a kernel, for a second
@given(SEQUENCES)
def test_any_sequence_of_assignments(steps: list[tuple[int, int]]) -> None:
    """Random programs over three mutable values, some steps in loops: order must be kept."""

    def random_program(X: Any, u: Any, t: Any) -> Any:
        r, z = rowsum(u) * 0.1, X * 0.2
        kept = copy(u)
        for which, loops in steps:
            if loops:
                for _ in repeat(loops):
                    OPERATIONS[which](u, r, z, t)
                    kept <<= kept * 0.5 + u
            else:
                OPERATIONS[which](u, r, z, t)
        return r, z, kept - u

    X, (_, u, table, *_) = data("empty rows"), arguments("nmf", data("plain"), 3)
    compare(Rowwise(random_program), X, u, table)


# ---------------------------------------------------------------- over columns


@rowwise
def column_step(XT: Any, items: Any, users: Any, rate: Any) -> Any:
    """A gradient step for each column that occurs in the block; the error of each non-zero."""
    error = XT - sddmm(items, users, XT)
    items <<= items + rate * (error @ users)
    for _ in repeat(2):
        error <<= error * 0.5 + rowsum(error)
    return error


@pytest.mark.parametrize("kind", ["plain", "one huge row", "nothing", "one row", "one column"])
@pytest.mark.parametrize("k", [5, 1])
def test_programs_over_the_columns_that_occur(kind: str, k: int) -> None:
    full = data(kind).toarray()
    full[:, 2 % full.shape[1]] = 0
    X = sp.csr_array(full)
    _, users, items, *_ = arguments("nmf", X, k)
    x, u, t = from_sparse(memory(), X), from_array(memory(), users), from_array(memory(), items)
    got = column_step(x.T, t, u, 0.1)
    wanted_items = items.copy()
    wanted = column_step.reference(sp.csr_array(X.T), wanted_items, users, 0.1)
    np.testing.assert_allclose(t.numpy(), wanted_items, rtol=1e-10)
    assert got.shape == X.shape
    error = sp.csr_array((got.numpy(), X.indices, X.indptr), shape=X.shape)
    np.testing.assert_allclose(error.toarray(), wanted.T.toarray(), rtol=1e-9, atol=1e-12)


def test_programs_over_columns_write_in_place_only() -> None:
    x = from_sparse(memory(), data("plain"))
    u = from_array(memory(), np.ones((12, 5)))
    with wrong("visits only the columns that occur"):
        rowwise(lambda XT, u: XT @ u)(x.T, u)
    with wrong("both X and X.T"):
        rowwise(lambda X, XT, u: X @ u)(x, x.T, u)
    with wrong("but there are 12 rows of the sparse argument"):
        table, other = (from_array(memory(), np.ones((9, 5))) for _ in range(2))
        rowwise(lambda XT, t, u: t.__ilshift__(XT @ u))(x.T, table, other)


# ---------------------------------------------------------------- results and arguments


def test_results_returned_twice_or_as_they_came() -> None:
    @rowwise
    def twice(X: Any, u: Any) -> Any:
        s = rowsum(u)
        y = X * s
        return s, s, y, u, y, X

    X, (_, u, *_) = data("plain"), arguments("nmf", data("plain"), 5)
    x, mat = from_sparse(memory(), X), from_array(memory(), u)
    s, again, y, same, other, untouched = twice(x, mat)
    assert same is mat
    assert untouched is x
    assert len({m.guid for m in (s, again, y, other)}) == 4
    np.testing.assert_array_equal(s.numpy(), again.numpy())
    np.testing.assert_array_equal(y.numpy(), other.numpy())


def test_the_same_mat_as_two_arguments() -> None:
    @rowwise
    def both(u: Any, v: Any) -> Any:
        return rowdot(u, v) + rowsum(u - v)

    @rowwise
    def writes(u: Any, v: Any) -> Any:
        u <<= u + v

    u = from_array(memory(), arguments("nmf", data("plain"), 5)[1])
    np.testing.assert_allclose(both(u, u).numpy(), (u.numpy() ** 2).sum(1, keepdims=True))
    with pytest.raises(ShapeError, match="written to, and is passed as another argument too"):
        writes(u, u)
    before = u.numpy()
    writes(u, copy(u))
    np.testing.assert_allclose(u.numpy(), 2 * before)


def test_a_function_inside_a_function() -> None:
    @rowwise
    def settle(X: Any, u: Any, t: Any) -> Any:
        for _ in repeat(2):
            u <<= u + 0.1 * (X @ t)
        return sddmm(u, t, X)

    @rowwise
    def outer(X: Any, u: Any, t: Any) -> Any:
        return rowsum(settle(X, u, t) * 2.0)

    X, (_, u, table, *_) = data("plain"), arguments("nmf", data("plain"), 5)
    compare(outer, X, u, table)


def test_constants_and_static_arguments() -> None:
    @rowwise
    def capped(u: Any, low: Any, kind: Any) -> Any:
        bound = maximum(u, low)
        return where(bound < np.inf, bound, np.nan) if kind == "keep" else maximum(bound, -np.inf)

    u = np.array([[1.0, np.inf, -2.0], [0.0, -np.inf, 3.0]])
    for low in (-np.inf, 0.5, np.float32(0.5), 1):
        mat = from_array(memory(), u)
        wanted = np.maximum(u, low)
        wanted_keep = np.where(wanted < np.inf, wanted, np.nan)
        np.testing.assert_array_equal(capped(mat, low, "keep").numpy(), wanted_keep)
        np.testing.assert_array_equal(capped(mat, low, None).numpy(), wanted)


def test_integers_and_mixed_dtypes() -> None:
    @rowwise
    def mixed(X: Any, ids: Any, table: Any) -> Any:
        return (X * ids) @ table + ids / 2, sddmm(ids + table_row(X, table), table, X)

    def table_row(X: Any, table: Any) -> Any:
        return X @ table

    X = data("plain")
    ids, table = np.arange(12)[:, None] * 3, np.arange(45).reshape(9, 5)
    for sparse_type in (np.float32, np.float64):
        x = from_sparse(memory(), X.astype(sparse_type))
        got = mixed(x, from_array(memory(), ids), from_array(memory(), table))
        wanted = mixed.reference(X, ids.astype(float), table.astype(float))
        np.testing.assert_allclose(got[0].numpy(), wanted[0], rtol=1e-5)
        np.testing.assert_allclose(got[1].numpy(), wanted[1].data, rtol=1e-5)


@pytest.mark.parametrize("how", ["number", "scalar", "constant"])
def test_counts_of_rounds(how: str) -> None:
    @rowwise
    def count(u: Any, n: Any) -> Any:
        for _ in repeat(n if how != "constant" else 3):
            u <<= u + 1.0

    u = from_array(memory(), np.zeros((5, 2)))
    n: Any = scalar(memory(), 3.0) if how == "scalar" else 3
    count(u, n)
    np.testing.assert_array_equal(u.numpy(), np.full((5, 2), 3.0))
    if how != "constant":
        if how == "scalar":
            n.set(0)
        count(u, n if how == "scalar" else 0)
        np.testing.assert_array_equal(u.numpy(), np.full((5, 2), 3.0))


def test_one_row_and_one_number() -> None:
    """A block of one row and vectors of one number: everything is 1 x 1."""

    @rowwise
    def tiny(X: Any, u: Any, t: Any, n: Any, a: Any) -> Any:
        for _ in repeat(n):
            u <<= exppsi(u * ((X / sddmm(u, t, X)) @ t) + a)
        return u * 2, rowsum(u)

    one = np.array([[1.5]])
    X = sp.csr_array(np.array([[2.0]]))
    x, n = from_sparse(memory(), X), scalar(memory(), 3)
    u = from_array(memory(), one)
    got = tiny(x, u, from_array(memory(), one), n, from_array(memory(), one))
    u_wanted = one.copy()
    wanted = tiny.reference(X, u_wanted, one.copy(), 3, one.copy())
    np.testing.assert_allclose(u.numpy(), u_wanted)
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_allclose(a.numpy(), b)


# ---------------------------------------------------------------- errors


def wrong(rule: str) -> Any:
    return pytest.raises(ShapeError, match=rule)


def test_loops_hand_values_on_by_assignment_only() -> None:
    @rowwise
    def rebinds(X: Any, u: Any, t: Any) -> Any:
        size = rowsum(u)
        for _ in repeat(3):
            u <<= u / size
            size = rowsum(u)  # the compiled loop would go on with the first one
        return size

    @rowwise
    def breaks(u: Any) -> Any:
        for _ in repeat(3):
            u <<= u + 1
            break
        return rowsum(u)

    @rowwise
    def early(u: Any) -> Any:
        for _ in repeat(3):
            u <<= u + 1
            until(rowsum(u) > 3)
            u <<= u + 1

    @rowwise
    def made_by_some(X: Any, u: Any) -> Any:
        for _ in repeat(rownnz(X)):
            size = rowsum(u)
        return size

    X, (_, u, t, *_) = data("plain"), arguments("nmf", data("plain"), 5)
    x, mat, table = from_sparse(memory(), X), from_array(memory(), u), from_array(memory(), t)
    with wrong("n differs from row to row and may be 0.*Make it before the loop"):
        made_by_some(x, mat)
    with wrong("the name 'size' is bound anew in each round"):
        rebinds(x, mat, table)
    with wrong("break or return inside a repeat"):
        breaks(mat)
    with wrong("last statement"):
        early(mat)
    with wrong("repeat\\(0\\): must be at least 1, because a value made in the loop"):
        used_after_the_loop(x, mat, table, 0)


def test_a_function_without_results_must_assign() -> None:
    @rowwise
    def forgotten(u: Any) -> None:
        u + 1.0

    @rowwise
    def doubled(u: Any) -> None:
        u <<= 2.0 * u

    u = from_array(memory(), np.ones((9, 5)))
    with wrong("forgotten at .*: returns None and assigns to no argument, so it has no effect"):
        forgotten(u)
    target = from_array(memory(), np.zeros((9, 5)))
    with wrong("None in place of a matrix.*A @rowwise function without return gives None"):
        target <<= doubled(u)
    np.testing.assert_array_equal(u.numpy(), np.full((9, 5), 2.0))


def test_shapes_that_do_not_fit() -> None:
    X = data("plain")
    x = from_sparse(memory(), X)
    u, t = from_array(memory(), np.ones((12, 5))), from_array(memory(), np.ones((9, 5)))
    t4, t8 = from_array(memory(), np.ones((9, 4))), from_array(memory(), np.ones((8, 5)))
    row5, row9 = from_array(memory(), np.ones((1, 5))), from_array(memory(), np.ones((1, 9)))
    with wrong("row vectors have 5 numbers, the table's rows have 4"):
        programs.lda(x, u, t4, 0.1, 3)
    with wrong("'phi' is 8 x 5, but there are 9 columns of the sparse argument"):
        programs.lda(x, u, t8, 0.1, 3)
    with wrong("'theta' is used element by element"):
        programs.lda(x, t8, t, 0.1, 3)
    with wrong("row vectors of lengths"):
        programs.lda(x, u, t, row9, 3)
    with wrong("'columns' is 1 x 5, but there are 9 columns"):
        programs.weighted(x, u, row5, from_array(memory(), np.ones((12, 1))))
    with wrong("'gram' is 9 x 5, but there are 5 numbers in a row vector"):
        programs.implicit(x, u, t, t, 0.1)
    with wrong("different patterns"):
        rowwise(lambda a, b: a * b)(x, from_sparse(memory(), X))
    with wrong("'theta' is a ndarray"):
        programs.lda(x, np.ones((12, 5)), t, 0.1, 3)
    with wrong("no matrix among its arguments"):
        rowwise(lambda a: a)(2.0)


def test_what_is_not_row_local_is_refused() -> None:
    x, u = from_sparse(memory(), data("square")), from_array(memory(), np.ones((9, 5)))
    t, one = from_array(memory(), np.ones((9, 5))), from_array(memory(), np.ones((1, 5)))
    scale = from_array(memory(), np.ones((1, 1)))
    cases: list[tuple[str, Any, tuple[Any, ...]]] = [
        ("'v'.*also read across rows", lambda X, v: v.__ilshift__(sddmm(v, v, X) @ v), (x, u)),
        ("all rows share", lambda X, alpha: alpha.__ilshift__(alpha + 1), (x, one)),
        ("all rows share", lambda X, s: s.__ilshift__(s + 1), (x, scale)),
        ("'total' is not row-local", lambda X, u: total(u), (x, u)),
        ("transposed matrix is not row-local", lambda X, u: u.T @ u, (x, u)),
        ("mixes a value per non-zero with a row vector", lambda X, u: X * u, (x, u)),
        ("computed inside it", lambda X, u, t: X @ (u * rowsum(u)), (x, u, t)),
        ("got one number per non-zero", lambda X, u: u.__ilshift__(X * 2), (x, u)),
        ("got a row vector of 5 numbers", lambda X, u: X.__ilshift__(u * 2), (x, u)),
        ("from outside the function", lambda X: X * log(u), (x,)),
        ("from outside", lambda X: u * X, (x,)),
        ("pass matrices as arguments", lambda X, v: v.__ilshift__(u), (x, t)),
        ("its argument must be sparse", lambda X, u: rownnz(u), (x, u)),
        ("third argument must be sparse", lambda X, u, t: sddmm(u, t, u), (x, u, t)),
        ("returns 5", lambda X: 5, (x,)),
        ("sort has no row-wise program", lambda X, u: sort(u), (x, u)),
        ("a subscript of 'u'.*x.rows, columns", lambda X, u: u[0], (x, u)),
        ("a subscript of a value", lambda X, u: (u * 2)[:, 0], (x, u)),
        (r"len\(\) of 'u'.*rownnz", lambda X, u: u * len(u), (x, u)),
        ("a loop over its numbers", lambda X, u: sum(u), (x, u)),
        (r"shape\[0\] at .*test_rowwise\.py:\d+: .*argument", lambda X, u: u * u.shape[0], (x, u)),
        (r"'X'\.shape at .*argument", lambda X: X * X.shape[1], (x,)),
        ("'total' is not row-local", lambda X, u: (u * 2).sum(), (x, u)),
        (r"mean\(axis=0\).*axis=1", lambda X, u: (u * 2).mean(0), (x, u)),
        ("a number on the host of a value", lambda X, u: u * float(rowsum(u)), (x, u)),
        ("a number on the host of 's'", lambda X, s: X * int(s), (x, scale)),
        ("needs one", lambda X, u: until(u), (x, u)),
        ("n is a row vector.*one number per row", lambda X, u: list(repeat(u * 2)), (x, u)),
        ("a matrix of 1 row", lambda X, r, t: r @ t, (x, from_array(memory(), np.ones((9, 1))), t)),
    ]  # fmt: skip
    for rule, function, args in cases:
        with wrong(rule):
            rowwise(function)(*args)
    with pytest.raises(TypeError, match="where"):
        rowwise(lambda u: u if rowsum(u) > 0 else -u)(u)
    with wrong("belongs to until|inside a @rowwise"):
        until(1.0)


def test_a_failed_trace_leaves_nothing_behind() -> None:
    calls = []

    @rowwise
    def fails_once(u: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise KeyError("planted")
        return u + 1

    u = from_array(memory(), np.ones((3, 2)))
    with pytest.raises(KeyError, match="planted"):
        fails_once(u)
    np.testing.assert_array_equal(fails_once(u).numpy(), np.full((3, 2), 2.0))
    target = named(memory(), "after a failure", (3, 2))
    target <<= u * 2  # lazily, not traced
    np.testing.assert_array_equal(target.numpy(), np.full((3, 2), 2.0))


def test_tracing_happens_once_per_signature() -> None:
    traces = []

    @rowwise
    def counted(x: Any, n: Any) -> Any:
        traces.append(1)
        return x * n

    a, b = (from_array(memory(), np.ones((3, 2))) for _ in range(2))
    for mat, n in ((a, 1), (b, 2), (a, 3.5), (copy(a), scalar(memory(), 2.0))):
        counted(mat, n)
    assert len(traces) == 2


# ---------------------------------------------------------------- one kernel for all lengths


def ratings(k: int) -> tuple[Any, ...]:
    """Arguments of `explicit_als`: an empty row, a row of all columns, and a last row of one."""
    rng = np.random.default_rng(k)
    table = (rng.random((9, 30)) < 0.2) * rng.uniform(0.5, 2.0, (9, 30))
    table[3], table[4], table[8] = 0.0, 1.5, np.eye(1, 30)
    return sp.csr_array(table), rng.normal(size=(9, k)), rng.normal(size=(30, k)), 0.3


@rowwise(any_width=True)
def turned(X: Any, u: Any, table: Any, gram: Any) -> Any:
    """A vector times a matrix, whose length is literal."""
    return (X @ table) @ gram + u


ANY = {
    "explicit_als": (Rowwise(explicit_als.function, any_width=True), lambda k: ratings(k)),
    "turned": (turned, lambda k: (*ratings(k)[:3], np.random.default_rng(1).normal(size=(k, k)))),
    "nmf": (
        Rowwise(nmf.function, any_width=True),
        lambda k: (*map(abs, ratings(k)[:3]), np.eye(k) * 3.0, 4),
    ),
}


@crossed(k=[1, 23, 24, 25, 40, 150], name=ANY)
def test_one_kernel_for_all_lengths_computes_the_same(name: str, k: int) -> None:
    function, arguments = ANY[name]
    compare(function, *arguments(k), rtol=1e-7)


def text_of(function: Rowwise, arguments: Sequence[Any]) -> str:
    """Return the text of a function's kernel."""
    R, *dense = arguments
    mats = [from_array(memory(), a) if np.ndim(a) else a for a in dense]
    return rowwise_source(function.compile(from_sparse(memory(), R), *mats).plan)


def test_lengths_from_24_on_have_one_text() -> None:
    function, arguments = ANY["explicit_als"]

    def text(function: Rowwise, k: int) -> str:
        return text_of(function, arguments(k))

    assert text(function, 24) == text(function, 51) == text(function, 256) != text(function, 23)
    assert text(explicit_als, 51) != text(explicit_als, 50)


@pytest.mark.parametrize("name", ANY)
def test_texts_of_other_kernels_differ_in_their_sizes_alone(name: str) -> None:
    """So what Numba makes of one serves all: for 32 and for numbers that vectors do not divide."""
    function, arguments = ANY[name]
    known = Rowwise(function.function)
    texts = {text_of(known, arguments(k)).replace(f"sizes=({k},)", "") for k in (24, 32, 50, 101)}
    assert len(texts) == 1
