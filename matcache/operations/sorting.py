"""Sort the numbers of each row, and find the columns that sort them."""

from __future__ import annotations

import numpy as np

from ..containers.cache import MatCache
from ..containers.expressions import Node
from ..containers.launching import launch
from ..containers.lazy import Lazy
from ..containers.slots import Slot
from ..errors import ShapeError, source_line
from ..program.padding import Padding
from .products import node


def sort(cache: MatCache, x: Lazy) -> Node:
    """Sort each row in ascending order; NaN last."""
    source = x.mat()
    if source.pattern is not None:
        raise ShapeError(f"sort at {source_line()}: {x.label} is sparse.")

    def compute(slot: Slot) -> None:
        launch(cache, "sort", source.slot, slot)

    return node(cache, x.shape, "sort", (source,), compute, x.dtype, source.padding)


def argsort(cache: MatCache, x: Lazy) -> Node:
    """Return the columns that sort each row, int64; equal numbers keep their order, NaN last."""
    source = x.mat()
    if source.pattern is not None or source.dtype != np.float32:
        kind = "sparse" if source.pattern is not None else source.dtype
        raise ShapeError(f"argsort at {source_line()}: {x.label} is {kind}; must be dense float32.")

    def compute(slot: Slot) -> None:
        launch(cache, "argsort", source.slot, slot)

    held = Padding(source.padding.block)
    return node(cache, x.shape, "argsort", (source,), compute, np.int64, held)
