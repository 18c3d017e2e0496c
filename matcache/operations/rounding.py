"""Round tables to bfloat16: half the bytes where rows gather from them.

Training spends most of its time reading rows of tables, and 8 bits of each number suffice for that.
Only copies are rounded, and made anew when the table changes; the table itself and all sums stay
float32. Kernels that cannot read bfloat16 (those of the CPU) get the rounded numbers as float32:
the same results, but no gain.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..containers.expressions import Node
from ..containers.launching import launch
from ..containers.local import grows_with
from ..containers.matrices import Mat, SparseMat
from ..containers.slots import Slot


def rounded(array: Any) -> NDArray[np.float32]:
    """Return the nearest bfloat16 numbers, as float32; of two, the even one.

    >>> rounded([1.0, 1.003, 1 + 2.0**-8, 1 + 3 * 2.0**-8])
    array([1.      , 1.      , 1.      , 1.015625], dtype=float32)
    """
    found = np.array(array, np.float32)
    bits = found.view(np.uint32)
    bits[...] = np.where(
        np.isnan(found), np.uint32(0x7FC00000), bits + np.uint32(0x7FFF) + (bits >> 16 & 1)
    )
    bits &= np.uint32(0xFFFF0000)
    return found


def as_table(table: Mat, X: SparseMat) -> Mat:
    """Return the table for the entries of X to choose rows of: itself, or a rounded copy.

    It is rounded if `X.tables` is "bfloat16", and the table is float32 with several columns.
    """
    cache = table.cache
    if X.tables == "float32" or table.dtype != np.float32 or table.shape[1] == 1:
        return table

    def compute(slot: Slot) -> None:
        launch(cache, "round_table", table.slot, slot)

    found = Node(
        cache,
        table.shape,
        cache.backend.rounded,
        key=("round_table",),
        operands=(table,),
        compute=compute,
        label=f"{table.label}, rounded",
    ).mat()
    if table.slot.grows == 0:
        grows_with(X.pattern, found)
    return found
