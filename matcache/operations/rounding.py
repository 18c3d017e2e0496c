"""Tables rounded to bfloat16: half the bytes where rows gather from them again and again.

Reading rows of a table is most of what training does, and 8 bits of each number are enough for it.
Only copies are rounded, which are made anew when the table has changed; the table itself and all
sums stay float32. Where kernels cannot read bfloat16 (on the CPU), the rounded numbers are stored
as float32: the same results, but no gain.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..containers.dispatch import launch
from ..containers.matrices import Mat, Node
from ..containers.slots import Slot

Tables = Literal["float32", "bfloat16"]
"""How updates of a model read tables."""


def rounded(array: Any) -> NDArray[np.float32]:
    """The numbers of bfloat16 nearest to those of an array; of two, the even one.

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


def as_table(table: Mat) -> Mat:
    """The table as rows are to gather from it: itself, or a rounded copy where the cache
    `rounds_tables` and it is float32 of several columns.
    """
    cache = table.cache
    if not cache.rounds_tables or table.dtype != np.float32 or table.shape[1] == 1:
        return table

    def compute(slot: Slot) -> None:
        launch(cache, "round_table", table.slot, slot)

    return Node(
        cache,
        table.shape,
        cache.backend.rounded,
        key=("round_table",),
        operands=(table,),
        compute=compute,
        label=f"{table.label}, rounded",
    ).mat()
