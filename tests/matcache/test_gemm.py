"""Dense products have the bits of `np.matmul`, also where a recorded program runs them again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from blocklearn.matcache import MatCache, gram, named
from blocklearn.matcache.containers.tape import Tape, record
from blocklearn.matcache.cpu.algebra.blas import one_thread, rows_of_chunk
from blocklearn.matcache.cpu.launches import dense

SIZES = [(5, 4, 3), (2, 2, 2), (300, 7, 5), (129, 6, 4), (258, 130, 140), (1, 5, 3), (6, 1, 4)]


def by_numpy(left: Any, right: Any) -> Any:
    """Multiply chunks of rows with NumPy; of a matrix with itself, one half of them."""
    step = rows_of_chunk(len(left))
    starts = range(0, len(left), step)
    with one_thread, np.errstate(invalid="ignore"):  # a BLAS may compute unused lanes
        if left.ctypes.data != right.ctypes.data:
            return np.vstack([left[at : at + step] @ right for at in starts])
        found = np.zeros((len(left), len(left)), left.dtype)
        for at in starts:
            part, rest = slice(at, at + step), slice(at + step, None)
            found[part, part] = left[part] @ right[:, part]
            found[part, rest] = left[part] @ right[:, rest]
            found[rest, part] = found[part, rest].T
        return found


def products(A: Any, B: Any, At: Any, Bt: Any) -> list[Any]:
    """Return products with either side turned, and a matrix with itself."""
    return [A @ B, At.T @ B, A @ Bt.T, A.T @ A, A @ A.T]


def numbers(size: tuple[int, int, int], seed: int, dtype: Any) -> list[Any]:
    """Return two factors and their copies, turned."""
    rng = np.random.default_rng(seed)
    A, B = (rng.standard_normal(shape).astype(dtype) for shape in (size[:2], size[1:]))
    return [A, B, np.ascontiguousarray(A.T), np.ascontiguousarray(B.T)]


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_are_those_of_numpy(
    dtype: Any, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not known:
        monkeypatch.setattr(dense, "routines", lambda dtype: None)
    for size in SIZES:
        with MatCache(threads=2) as cache:
            given = numbers(size, 0, dtype)
            mats = [named(cache, f"{n}", x.shape, dtype) for n, x in enumerate(given)]
            for mat, x in zip(mats, given, strict=True):
                mat.set(x)
            A, B, At, Bt = given
            pairs = [(A, B), (At.T, B), (A, Bt.T), (A.T, A), (A, A.T)]
            for found, pair in zip(products(*mats), pairs, strict=True):
                np.testing.assert_array_equal(found.mat().numpy(), by_numpy(*pair))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("threads", [1, 2, 8])
def test_a_matrix_times_itself_is_symmetric(threads: int, dtype: Any) -> None:
    """Also in the corners that another chunk computes."""
    X = np.random.default_rng(0).standard_normal((90, 300)).astype(dtype)
    wide = X.astype(np.float64)
    for given, expected in [(X, wide.T @ wide), (np.ascontiguousarray(X.T), wide.T @ wide)]:
        with MatCache(threads=threads) as cache:
            mat = named(cache, "X", given.shape, dtype)
            mat.set(given)
            found = gram(mat) if given is X else mat @ mat.T
            values = found.mat().numpy()
        np.testing.assert_array_equal(values, values.T)
        np.testing.assert_allclose(values, expected, atol=1e-4 if dtype == np.float32 else 1e-12)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("size", [(300, 7, 5), (1, 5, 3)])
def test_recorded_products_are_those_of_numpy(
    size: tuple[int, int, int], known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not known:
        monkeypatch.setattr(dense, "routines", lambda dtype: None)
    with MatCache(threads=2) as cache:
        given = numbers(size, 0, np.float32)
        mats = [named(cache, f"{n}", x.shape) for n, x in enumerate(given)]
        out = named(cache, "out", (size[0], size[2]))
        tape = Tape(cache, {})
        for seed in range(3):
            given = numbers(size, seed, np.float32)
            for mat, x in zip(mats, given, strict=True):
                mat.set(x)
            if seed < 2:
                tape = Tape(cache, {})
                with record(tape):
                    out <<= mats[0] @ mats[1]
            else:
                tape.run({})
            np.testing.assert_array_equal(out.numpy(), by_numpy(*given[:2]))
        assert tape.refused is None
