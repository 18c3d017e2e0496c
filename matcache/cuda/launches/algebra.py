"""CUDA launches of factorizations and solutions, by cuSOLVER and cuBLAS.

Both store matrices by columns, so what they see of a container is its transposed matrix.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...containers.cache import MatCache
from ...containers.dispatch import launches
from ...containers.slots import Slot
from ..driver import Factorization, Triangular
from ..kernels import algebra_source
from .common import c_type, library_kernel, workspace
from .dense import transpose

PER_BLOCK = 256  # numbers that a block of threads does at a time


@launches("cholesky", "cuda")
def _cholesky(cache: MatCache, out: Slot) -> None:
    k = out.shape[0]
    info, room = _info(cache), _room(cache, "cholesky", k, k)
    end = _kernel(cache, "end_cholesky")
    if cache.reserving or not out.nbytes:
        return
    _factorize(cache, "cholesky", (k, k, 0), (out, None, None, info), room)
    cache.backend.launch(end, k * k, PER_BLOCK, k, out.array, info.array)


@launches("triangular", "cuda")
def _triangular(
    cache: MatCache, what: str, triangle: Slot, out: Slot, left: bool, lower: bool, turned: bool
) -> None:
    room = workspace(cache)
    if cache.reserving or not out.nbytes:
        return
    cache.backend.product(
        Triangular(
            what == "solve",
            left,
            *out.shape,
            triangle.array.address,
            lower != turned,
            turned,
            out.array.address,
            (room.array.address, room.nbytes),
        )
    )


@launches("solve", "cuda")
def _solve(cache: MatCache, matrix: Slot, out: Slot) -> None:
    (k, m), backend = out.shape, cache.backend
    by_column = cache.result(("algebra", m, k), (m, k), np.float64, "right sides, turned")
    pivots = cache.result(("pivots", k), (1, k), np.int32, "pivots of a factorization")
    info, room = _info(cache), _room(cache, "lu", k, k)
    end = _kernel(cache, "end_columns")
    transpose(cache, out, by_column)
    if cache.reserving or not out.nbytes:
        return
    _factorize(cache, "lu", (k, k, m), (matrix, by_column, pivots, info), room)
    backend.launch(end, k * m, PER_BLOCK, k, m, by_column.array, out.array, info.array)


@launches("qr", "cuda")
def _qr(cache: MatCache, q: Slot, r: Slot) -> None:
    (n, k), backend = q.shape, cache.backend
    by_column = cache.result(("qr", n, k), (k, n), np.float64, "columns of Q")
    factors = cache.result(("qr", "factors", k), (1, k), np.float64, "reflectors of Q")
    signs = cache.result(("qr", "signs", k), (1, k), np.float64, "signs of columns")
    info, rooms = _info(cache), [_room(cache, what, n, k) for what in ("qr", "q")]
    upper, orthonormal = (_kernel(cache, name) for name in ("end_upper", "end_orthonormal"))
    transpose(cache, q, by_column)
    if cache.reserving or not q.nbytes:
        return
    sides, source = (n, k, 0), by_column.array
    _factorize(cache, "qr", sides, (by_column, factors, None, info), rooms[0])
    backend.launch(upper, k * k, PER_BLOCK, n, k, source, r.array, signs.array)
    _factorize(cache, "q", sides, (by_column, factors, None, info), rooms[1])
    backend.launch(orthonormal, n * k, PER_BLOCK, n, k, source, signs.array, q.array)


@launches("eigh", "cuda")
def _eigh(cache: MatCache, matrix: Slot, values: Slot, vectors: Slot) -> None:
    k, backend = matrix.shape[0], cache.backend
    info, room = _info(cache), _room(cache, "eigh", k, k)
    check, end = _kernel(cache, "check_matrix"), _kernel(cache, "end_vectors")
    if cache.reserving or not vectors.nbytes:
        return
    backend.launch_blocks(check, 1, k, matrix.array, info.array)
    _factorize(cache, "eigh", (k, k, 0), (matrix, values, None, info), room)
    call = [matrix.array, values.array, vectors.array, info.array]
    backend.launch(end, k, PER_BLOCK, k, *call)


@launches("diagonal", "cuda")
def _diagonal(cache: MatCache, source: Slot, out: Slot) -> None:
    k = source.shape[0]
    kernel = library_kernel(cache, "diagonal", v=c_type(source.dtype))
    if not cache.reserving:
        cache.backend.launch(kernel, k, PER_BLOCK, k, source.array, out.array)


# ---------------------------------------------------------------- how


def _kernel(cache: MatCache, name: str) -> Any:
    return cache.backend.text((name,), algebra_source, name)


def _info(cache: MatCache) -> Slot:
    return cache.result(("cuda", "info"), (1, 2), np.int32, "whether factorizations succeeded")


def _room(cache: MatCache, what: str, n: int, k: int) -> Slot:
    size = cache.backend.driver.factor_bytes(what, n, k) if n * k else 0
    return cache.result(("cuda", what, n, k), (1, size), np.uint8, "room for a factorization")


def _factorize(
    cache: MatCache,
    what: str,
    sides: tuple[int, int, int],
    slots: tuple[Slot, Slot | None, Slot | None, Slot],
    room: Slot,
) -> None:
    """Run a `Factorization`.

    sides: n, k, m.
    slots: a, b, pivots, info.
    """
    a, b, pivots, info = (0 if slot is None else slot.array.address for slot in slots)
    workspace = room.array.address, room.nbytes
    cache.backend.factorize(Factorization(what, *sides, a, b, pivots, info, workspace))
