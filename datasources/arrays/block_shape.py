"""The sizes of a block, and the arrays that it needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from blocklearn.matcache.containers.slots import aligned
from blocklearn.matcache.cpu.kernels.transpose import count_columns, plan_digits

from ..errors import DataError

Zeros = Callable[[tuple[int, ...], Any], npt.NDArray[Any]]
"""Makes an array of zeros from a shape and a dtype."""

MAX_COLUMNS = 2**31 - 1  # column indices of a block are int32


@dataclass(frozen=True)
class BlockShape:
    """The sizes that a model needs to allocate its memory, before any data is read.

    - rows: rows of every block; a shorter block is padded with empty rows.
    - columns: number of features.
    - nnz: most non-zeros of one block; 0 for a dense source.
    - total_rows: true rows of one pass, without padding.
    - dense: whether blocks are tables instead of sparse matrices.
    - targets: columns of the targets; 0 for data without targets.
    - weighted: whether rows have weights of their own.
    """

    rows: int
    columns: int
    nnz: int
    total_rows: int
    dense: bool = False
    targets: int = 0
    weighted: bool = False

    def __post_init__(self) -> None:
        """Refuse sizes that no block can have."""
        for name, smallest, largest in [
            ("rows", 1, MAX_COLUMNS),
            ("columns", 1, MAX_COLUMNS),
            ("nnz", 0, 2**62),
            ("total_rows", 1, 2**62),
            ("targets", 0, MAX_COLUMNS),
        ]:
            value = getattr(self, name)
            if not smallest <= value <= largest:
                raise DataError(f"BlockShape: {name}={value}: must be {smallest} to {largest}.")

    @property
    def nbytes(self) -> int:
        """The bytes of a `HostBlock` of this shape, including its scratch."""
        return block_bytes(self)

    def has_room_for(self, other: BlockShape) -> bool:
        """Return whether a block of this shape holds those of the other, which has less nnz only.

        >>> room = BlockShape(rows=2, columns=3, nnz=6, total_rows=4)
        >>> room.has_room_for(BlockShape(2, 3, 5, 4)), room.has_room_for(BlockShape(2, 3, 5, 3))
        (True, False)
        """
        return self.nnz >= other.nnz and {**vars(self), "nnz": other.nnz} == vars(other)

    def data_bytes(self, rows: int, nnz: int) -> int:
        """Return the bytes of true rows of a block: features, offsets, targets, weights.

        nnz: their true non-zeros.
        """
        features = 4 * rows * self.columns if self.dense else 8 * (rows + 1) + 8 * nnz
        return features + 4 * rows * (self.targets + self.weighted)


class CsrArrays(NamedTuple):
    """The sparse rows of a block; see `HostBlock`."""

    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[np.int32]
    values: npt.NDArray[np.float32]


class IndexArrays(NamedTuple):
    """The transposed index of a block; see `HostBlock`."""

    active: npt.NDArray[np.int32]
    starts: npt.NDArray[np.int64]
    t_rows: npt.NDArray[np.int32]
    t_pos: npt.NDArray[np.signedinteger[Any]]


class SortRoom(NamedTuple):
    """Scratch of `HostBlock.transpose`."""

    counts: npt.NDArray[np.signedinteger[Any]]
    keys: npt.NDArray[np.int32]
    spare_keys: npt.NDArray[np.int32]
    spare_rows: npt.NDArray[np.int32]
    spare_pos: npt.NDArray[np.signedinteger[Any]]


@lru_cache(maxsize=64)
def block_bytes(shape: BlockShape, *, indexed: bool = True) -> int:
    """Return the bytes of a `HostBlock`, with or without a transposed index."""
    sizes = buffers(shape, indexed=indexed).values()
    return sum(aligned(prod(size) * np.dtype(dtype).itemsize) for size, dtype in sizes)


def laid_out(
    sizes: Mapping[str, tuple[tuple[int, ...], type[np.generic]]], piece: npt.NDArray[np.uint8]
) -> dict[str, npt.NDArray[Any]]:
    """Return arrays that lie one after the other in a piece of memory.

    They lie as containers of a device do, so that one copy brings neighbours.
    """
    found: dict[str, npt.NDArray[Any]] = {}
    start = 0
    for name, (size, dtype) in sizes.items():
        found[name] = np.ndarray(size, dtype, piece, start)
        start += aligned(found[name].nbytes)
    return found


@lru_cache(maxsize=64)  # a reader asks for those of one shape again and again
def buffers(
    shape: BlockShape, *, indexed: bool = True
) -> Mapping[str, tuple[tuple[int, ...], type[np.generic]]]:
    """Return size and dtype of every array of a `HostBlock`, by name."""
    capacity = 0 if shape.dense else shape.nnz
    sparse = 0 if shape.dense else 1
    turned = capacity if indexed else 0  # non-zeros of the transposed index
    features = min(shape.columns, turned)
    positions = np.int32 if capacity < 2**31 else np.int64
    passes, bits = plan_digits(shape.columns)
    counting = count_columns(shape.columns, capacity)
    sorted_, spare = 0 if counting else turned, 0 if counting or passes == 1 else turned
    counts = (shape.columns if counting else (1 << bits) * sparse) if indexed else 0
    return {
        "row_ids": ((shape.rows,), np.int64),
        "weights": ((shape.rows,), np.float32),
        "indptr": (((shape.rows + 1) * sparse,), np.int64),
        "indices": ((capacity,), np.int32),
        "values": ((capacity,), np.float32),
        "active": ((features,), np.int32),
        "starts": (((features + 1) * sparse,), np.int64),
        "t_rows": ((turned,), np.int32),
        "t_pos": ((turned,), positions),
        "dense": ((shape.rows, shape.columns) if shape.dense else (0, 0), np.float32),
        "targets": ((shape.rows, shape.targets), np.float32),
        "counts": ((counts,), positions),
        "keys": ((sorted_,), np.int32),
        "spare_keys": ((spare,), np.int32),
        "spare_rows": ((spare,), np.int32),
        "spare_pos": ((spare,), positions),
    }
