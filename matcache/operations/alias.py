"""Tables for drawing positions by weight."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..containers.launching import launch
from ..containers.lazy import Lazy
from ..containers.matrices import Mat, handle
from ..errors import ShapeError, source_line
from .products import cast


class AliasTable(NamedTuple):
    """Weights of positions, prepared for drawing: see `alias_table`.

    chance: float32 [1 x m], of staying at a position that was drawn evenly.
    other: int64 [1 x m], the position to take instead.
    """

    chance: Mat
    other: Mat


def alias_table(weights: Lazy) -> AliasTable:
    """Return the table for drawing positions with chances in proportion to their weights.

    weights: [1 x m] or [m x 1], not negative. Popularity is `counts`, or `counts ** 0.75`.

    It is made anew when the weights have changed, in m steps of one thread. A draw then takes two
    reads, for any m. If a weight is negative or NaN, or all are 0, all drawn positions are -1.
    (Walker 1977; Vose, IEEE Transactions on Software Engineering 17, 1991.)
    """
    if 1 not in weights.shape or weights.pattern is not None or 0 in weights.shape:
        rows, columns = weights.shape
        raise ShapeError(
            f"alias_table at {source_line()}: weights are {rows} x {columns}; must be dense, one "
            "row or one column."
        )
    given, cache = cast(weights, np.dtype(np.float64)), weights.cache
    m = given.shape[0] * given.shape[1]
    parts = {"chance": np.float32, "other": np.int64, "rest": np.float64, "stack": np.int64}
    slots = [
        cache.result((("alias", part), given.guid), (1, m), dtype, f"{part} of {given.label}")
        for part, dtype in parts.items()
    ]
    if any([cache.begin(slot) for slot in slots]):  # noqa: C419 - each must begin
        for slot in slots:
            slot.written()
        launch(cache, "alias_table", given.slot, *slots)
        for slot in slots:
            slot.computed_from(given.slot)
    return AliasTable(handle(cache, slots[0]), handle(cache, slots[1]))


def check_table(name: str, table: Any) -> None:
    """Raise ShapeError unless a draw called `name` was given a table of weights."""
    if not isinstance(table, AliasTable):
        raise ShapeError(
            f"{name} at {source_line()}: {type(table).__name__} in place of a table of weights; "
            "must be alias_table(weights)."
        )
