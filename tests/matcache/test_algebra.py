"""Factorizations and solutions against NumPy and SciPy; on the CPU and on a stand-in of a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse

from blocklearn.matcache import (
    MatCache,
    ShapeError,
    cholesky,
    diagonal,
    eigh,
    from_array,
    from_sparse,
    gram,
    inverse,
    logdet,
    lower,
    named,
    qr,
    solve,
    upper,
)
from blocklearn.matcache.containers.tape import Tape, record
from blocklearn.matcache.cpu.algebra import lapack
from blocklearn.matcache.cpu.algebra.tall_qr import LEAST_ROWS
from blocklearn.matcache.cuda import Cuda
from tests.support.backends import needs_compiler
from tests.support.cuda_device import HostDriver
from tests.support.often import crossed

SIDES = [1, 2, 7, 33]
NAN = np.nan


def general(rows: int, columns: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=(rows, columns))


def positive(k: int) -> Any:
    x = general(k + 3, k)
    return x.T @ x + 0.1 * np.eye(k)


def half_wrong(symmetric: Any) -> Any:
    """The same in its lower triangle, and something else above, which must not be read."""
    return np.tril(symmetric) + np.triu(np.full(symmetric.shape, 99.0), 1)


def close(got: Any, wanted: Any, tolerance: float = 1e-9) -> None:
    found = got.numpy()
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("k", SIDES)
def test_of_square_matrices(memory: MatCache, k: int) -> None:
    a, s, b = general(k, k) + np.eye(k), positive(k), general(k, 5, 1)
    A, S, H = from_array(memory, a), from_array(memory, s), from_array(memory, half_wrong(s))
    B = from_array(memory, b)
    close(cholesky(H), np.linalg.cholesky(s))
    close(solve(A, B), np.linalg.solve(a, b), 1e-8)
    close(solve(A.T, B), np.linalg.solve(a.T, b), 1e-8)
    close(inverse(A), np.linalg.inv(a), 1e-8)
    assert float(logdet(H)) == pytest.approx(np.linalg.slogdet(s)[1], abs=1e-9)
    np.testing.assert_array_equal(diagonal(A).numpy()[0], a.diagonal())
    values, vectors = eigh(H)
    close(values, np.linalg.eigvalsh(s)[None])
    v = vectors.numpy()
    np.testing.assert_allclose(v * values.numpy() @ v.T, s, atol=1e-9)
    np.testing.assert_allclose(v.T @ v, np.eye(k), atol=1e-12)
    assert (v[np.abs(v).argmax(axis=0), range(k)] > 0).all()
    np.testing.assert_array_equal(A.numpy(), a)  # what was given is as it was
    np.testing.assert_array_equal(B.numpy(), b)
    close(S, s)


@crossed(k=[1, 6], n=[6, 50, 3 * LEAST_ROWS + 77])
def test_tall_matrices_have_an_orthonormal_factor(memory: MatCache, n: int, k: int) -> None:
    """The last one in three chunks, on the CPU."""
    a = general(n, k) * np.geomspace(1, 1e-9, k)  # hardly of rank k
    q, r = qr(from_array(memory, a))
    close(r, np.triu(r.numpy()), 0)
    assert (r.numpy().diagonal() > 0).all()
    np.testing.assert_allclose(q.numpy() @ r.numpy(), a, atol=1e-13)
    np.testing.assert_allclose(q.numpy().T @ q.numpy(), np.eye(k), atol=1e-13)


@crossed(apart=[1.0, 1e-3, 1e-7, 1e-11], scale=[1e-120, 1.0, 1e120])
def test_columns_that_nearly_depend_on_each_other(
    memory: MatCache, apart: float, scale: float
) -> None:
    """On the CPU the gram matrix factorizes the first two only, and no numbers of other sizes."""
    n, k = 3 * LEAST_ROWS + 77, 6
    a = (general(n, 1, 1) + apart * general(n, k)) * scale
    q, r = qr(from_array(memory, a))
    np.testing.assert_allclose(q.numpy().T @ q.numpy(), np.eye(k), atol=1e-13)
    np.testing.assert_allclose(q.numpy() @ r.numpy() / scale, a / scale, atol=1e-12)
    assert (r.numpy().diagonal() > 0).all()


def test_matrices_without_full_rank_have_one_too(memory: MatCache) -> None:
    a = general(40, 4)
    a[:, 2], a[:, 3] = a[:, 0], 0.0
    for given in (a, np.zeros((9, 3)), np.tile(a, (200, 1))):
        q, r = qr(from_array(memory, given))
        np.testing.assert_allclose(q.numpy() @ r.numpy(), given, atol=1e-12)
        np.testing.assert_allclose(q.numpy().T @ q.numpy(), np.eye(given.shape[1]), atol=1e-12)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("view, part", [(lower, np.tril), (upper, np.triu)])
def test_triangles_are_factors_and_systems(
    memory: MatCache, view: Any, part: Any, turned: bool
) -> None:
    """The half that does not count is NaN."""
    k = 7
    a, b, c = general(k, k) + 3 * np.eye(k), general(k, 4, 1), general(5, k, 2)
    wanted = part(a).T if turned else part(a)
    A = from_array(memory, np.where(part(np.ones((k, k))) > 0, a, NAN))
    T = view(A).T if turned else view(A)
    B, C = from_array(memory, b), from_array(memory, c)
    close(T @ B, wanted @ b)
    close(C @ T, c @ wanted)
    close(C.T.mat().T @ T, c @ wanted)
    close(T @ C.T, wanted @ c.T)
    close(solve(T, B), np.linalg.solve(wanted, b))
    assert T.T.T.lower == T.lower and T.shape == (k, k)


def test_numbers_of_other_types_are_computed_in_float64(memory: MatCache) -> None:
    s, b = positive(5).astype(np.float32), general(5, 2).astype(np.float32)
    S, B = from_array(memory, s), from_array(memory, b)
    factor = np.linalg.cholesky(s.astype(np.float64))
    close(cholesky(S), factor)
    close(solve(S, B), np.linalg.solve(s.astype(np.float64), b))
    close(lower(S) @ B, np.tril(s.astype(np.float64)) @ b)
    target = named(memory, "target", (5, 2))
    target <<= solve(lower(cholesky(S)), B)
    assert target.numpy().dtype == np.float32
    np.testing.assert_allclose(
        target.numpy(), scipy.linalg.solve_triangular(factor, b, lower=True), rtol=1e-5
    )
    assert diagonal(S).dtype == np.float32


def test_what_has_no_solution_is_nan(memory: MatCache) -> None:
    bad, right = from_array(memory, np.array([[1.0, 2.0], [2.0, 1.0]])), np.ones((2, 1))
    holes = from_array(memory, np.array([[1.0, NAN], [NAN, np.inf]]))
    singular = from_array(memory, np.array([[1.0, 2.0], [2.0, 4.0]]))
    for x in (bad, holes):
        assert np.isnan(cholesky(x).numpy()).any()
        assert np.isnan(float(logdet(x)))
    assert np.isnan(np.concatenate([part.numpy().ravel() for part in eigh(holes)])).all()
    assert not np.isfinite(solve(singular, from_array(memory, right)).numpy()).any()
    assert not np.isfinite(inverse(singular).numpy()).any()
    assert np.isnan(qr(holes).R.numpy()).any()
    close(eigh(bad).values, [[-1.0, 3.0]])  # and the next one is not affected


@pytest.mark.parametrize("k, m", [(0, 0), (0, 3), (4, 0)])
def test_empty_sides(memory: MatCache, k: int, m: int) -> None:
    A, B = from_array(memory, positive(k)), from_array(memory, np.zeros((k, m)))
    assert solve(A, B).numpy().shape == (lower(A) @ B).numpy().shape == (k, m)
    assert solve(upper(A), B).numpy().shape == (k, m)
    for x in (cholesky(A), inverse(A), eigh(A).vectors, qr(A).R):
        assert x.numpy().shape == (k, k)
    if k == 0:
        assert float(logdet(A)) == 0.0
        assert qr(from_array(memory, np.zeros((5, 0)))).Q.numpy().shape == (5, 0)


def every(a: Any, t: Any, out: Any) -> None:
    """Whiten rows by the factors of their gram matrix, and all else once."""
    s = gram(t) + a
    factor = cholesky(s)
    values, vectors = eigh(s)
    q, r = qr(t)
    mixed = solve(lower(factor), vectors) + inverse(s) * values + solve(a, r)
    out <<= q @ (mixed + logdet(s) + diagonal(factor)) + t @ upper(r)


def test_it_is_planned_and_recorded_like_all_else() -> None:
    """A frozen cache; a tape that repeats it for other numbers; the bits of any threads."""
    t, found = general(2 * LEAST_ROWS + 5, 6), []
    for threads in (1, 2, 8):
        with MatCache(threads=threads, reserving=True) as cache:
            A, T, out = (
                named(cache, name, shape, np.float64)
                for name, shape in {"A": (6, 6), "T": t.shape, "out": t.shape}.items()
            )
            every(A, T, out)
            cache.commit()
            cache.freeze()
            A.set(np.eye(6)), T.set(t * 2.0)
            tape = Tape(cache, {})
            with record(tape):
                every(A, T, out)
            assert tape.refused is None
            T.set(t)
            tape.run({})
            assert cache.stats().allocations_after_warmup == 0
            found.append(out.numpy())
            every(A, T, out)
            np.testing.assert_array_equal(out.numpy(), found[-1])
    assert np.isfinite(found[0]).all()
    np.testing.assert_array_equal(found[1], found[0])
    np.testing.assert_array_equal(found[2], found[0])


@needs_compiler
def test_a_device_replays_what_is_around_it() -> None:
    """Factorizations are no parts of graphs; what comes before and after them is."""
    driver, t = HostDriver(), general(60, 6)
    with MatCache(backend=Cuda(driver)) as cache, MatCache(threads=1) as host:
        results = []
        for memory in (cache, host):
            A, T = from_array(memory, np.eye(6)), from_array(memory, t)
            out = named(memory, "out", t.shape, np.float64)
            for number in range(5):
                memory.backend.begin_block()
                T.set(t + number)
                every(A, T, out)
                memory.backend.end_block()
            results.append(out.numpy())
        np.testing.assert_allclose(results[0], results[1], rtol=1e-8, atol=1e-10)
    assert driver.replayed > 0


def test_turned_matrices_are_factorized(memory: MatCache) -> None:
    x, s, b = general(7, 7), positive(7), general(2, 7)
    X, S, B = (from_array(memory, each).T for each in (x, s, b))
    found = [lower(X) @ B, upper(X).T @ B, solve(lower(X), B), inverse(X), solve(S, B), logdet(S)]
    low = np.tril(x.T)
    wanted = [low @ b.T, np.triu(x.T).T @ b.T, np.linalg.solve(low, b.T), np.linalg.inv(x.T)]
    wanted += [np.linalg.solve(s, b.T), [[np.linalg.slogdet(s)[1]]]]
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-9, atol=1e-11)
    np.testing.assert_array_equal(diagonal(X).numpy()[0], np.diag(x))
    np.testing.assert_allclose(eigh(S).values.numpy()[0], np.linalg.eigvalsh(s), rtol=1e-9)
    np.testing.assert_allclose((qr(B).Q @ qr(B).R).numpy(), b.T, atol=1e-12)
    np.testing.assert_allclose(cholesky(S).numpy(), np.linalg.cholesky(s), rtol=1e-9, atol=1e-12)
    with pytest.raises(ShapeError, match="is 2 x 7; must have at least as many rows as columns"):
        qr(B.of)


@pytest.mark.parametrize("what", ["product", "solve"])
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("turned", [True, False])
def test_large_triangles_leave_the_lock_of_the_interpreter_alone(
    monkeypatch: pytest.MonkeyPatch, what: str, left: bool, lower: bool, turned: bool
) -> None:
    a = general(40, 40) + 9.0 * np.eye(40)
    outs = [general(40, 40) for _ in range(2)]
    how: dict[str, Any] = {"left": left, "lower": lower, "turned": turned}
    monkeypatch.setattr(lapack, "SMALL", 40**3)
    lapack.triangular(what, a, outs[0], **how)
    monkeypatch.undo()
    monkeypatch.setattr(lapack, "_function", None)  # SciPy's own, which hold it
    lapack.triangular(what, a, outs[1], **how)
    np.testing.assert_array_equal(*outs)


def test_what_does_not_fit_is_named() -> None:
    with MatCache(threads=1) as cache:
        square, tall = from_array(cache, np.eye(3)), from_array(cache, np.ones((5, 3)))
        sparse = from_sparse(cache, scipy.sparse.csr_array(np.eye(3)))
        here = r" at .*test_algebra\.py:\d+: "
        cases: list[tuple[str, Callable[[], Any]]] = [
            (f"cholesky{here}.* is 5 x 3; must be square", lambda: cholesky(tall)),
            (f"eigh{here}.*5 x 3", lambda: eigh(tall)),
            (f"solve{here}.*5 x 3", lambda: solve(tall, square)),
            (f"solve{here}3 x 3 and 5 x 3; the inner sides", lambda: solve(square, tall)),
            (f"solve{here}3 x 3 and 5 x 3", lambda: solve(lower(square), tall)),
            (f"@{here}3 x 3 and 5 x 3", lambda: lower(square) @ tall),
            (f"@{here}3 x 5 and 3 x 3", lambda: tall.T @ lower(square)),
            (f"@{here}float; must be a dense", lambda: lower(square) @ 2.0),
            (f"triangle{here}.*5 x 3", lambda: lower(tall)),
            (f"qr{here}.* is 3 x 5; must have at least as", lambda: qr(tall.T.mat())),
            (f"qr{here}a sparse matrix; must", lambda: qr(sparse)),
            (f"inverse{here}a sparse matrix", lambda: inverse(sparse)),
            (f"add{here}a triangle of .* factor of @", lambda: lower(square) + square),
        ]
        for message, wrong in cases:
            with pytest.raises(ShapeError, match=message):
                wrong()
