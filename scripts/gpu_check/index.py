"""Compare making a block's transposed index on the device and in the reader's thread."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from blocklearn.matcache import MatCache, SparseInput, from_sparse, make_backend
from blocklearn.matcache.containers.chunks import turned
from scripts.benchmarks.data import power_law

from .measure import Row, Scale, floor, seconds_of

CSR = ("indptr", "indices", "values")


def rows(scale: Scale) -> Iterator[Row]:
    """Yield both ways of `learner.index` for one block. `trainings.py` has whole passes."""
    X = power_law(scale.of(8192, 50), scale.of(50_000, 60))
    arrays = _arrays(X)
    made, copied = (_seconds(X, arrays, by, scale) for by in ("device", "host"))
    least = floor((20.0 * _passes(X.shape[1]) + 16.0) * X.nnz, 0)
    name = f"a block's entries and index, {X.nnz:,} non-zeros"
    yield Row(f"{name}: made by the device", made, None, least, "copies included")
    host = _by_the_reader(X)
    note = "copies included" if host is None else "CPU: one thread of the reader makes it"
    yield Row(f"{name}: copied", copied, host, None, note)


def _passes(columns: int) -> int:
    return -(-(columns - 1).bit_length() // 4)


def _arrays(X: Any) -> dict[str, Any]:
    """Return the arguments of `SparseInput.bind`, with the index."""
    with MatCache(threads=1) as cache:
        x = from_sparse(cache, X)
        names = ("active", "starts", "t_rows", "t_pos")
        index = dict(zip(names, (a.copy() for a in x.pattern.transposed()), strict=True))
        indptr, indices = (a.copy() for a in x.pattern.offsets())
        values = x.slot.array.reshape(-1).copy()
    return {"indptr": indptr, "indices": indices, "values": values, **index}


def _seconds(X: Any, arrays: dict[str, Any], by: Any, scale: Scale) -> float:
    with MatCache(backend=make_backend("cuda:0", None, by)) as cache:
        backend: Any = cache.backend
        pinned = {name: backend.zeros(a.shape, a.dtype) for name, a in arrays.items()}
        for name, a in arrays.items():
            np.copyto(pinned[name], a)
        given = {name: pinned[name] for name in CSR} if by == "device" else pinned
        count = len(arrays["active"]) if by == "host" else 0
        block = SparseInput(cache, "X", *X.shape, X.nnz)

        def work() -> None:
            backend.begin_block()
            block.bind(**given, active_count=count)
            turned(cache, block.pattern)
            backend.end_block()

        return seconds_of(cache, work, scale.least)


def _by_the_reader(X: Any) -> float | None:
    """Return the seconds of one thread; None if packages for reading are missing."""
    try:
        from blocklearn.datasources import BlockShape, HostBlock
    except ImportError:
        return None
    host = HostBlock(BlockShape(*X.shape, X.nnz, X.shape[0]))
    spent = []
    for _ in range(4):  # the first one compiles
        host.indptr[:], host.indices[:], host.values[:] = X.indptr, X.indices, X.data
        host.row_ids[:] = np.arange(X.shape[0])
        host.finish(pass_=0, index=0, rows=X.shape[0])
        begun = time.perf_counter()
        host.transpose()
        spent.append(time.perf_counter() - begun)
    return min(spent)
