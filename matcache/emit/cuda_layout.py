"""Where a row's vectors are while CUDA works on it: in registers of the lanes that share it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..program.instructions import Access, Kind, Value, reads, writes
from ..program.schedule import Schedule, all_values, groups
from .cuda_header import C_TYPES, lanes_for, pack_for

IN_FLIGHT = 32  # registers of a lane that hold table rows on their way
MOST_IN_FLIGHT = 4  # rows


@dataclass(frozen=True)
class Layout:
    """vectors: held in registers for the whole row. lanes: that share a row. rows_in_flight: of a
    table, which are read at once. widest: the type in C of which a pack has as many as fit.
    """

    vectors: tuple[Value, ...]
    lanes: int
    rows_in_flight: int
    widest: str

    def pack(self, length: int) -> int:
        """Numbers of a vector that are side by side in a lane: 16 bytes where that fits."""
        return pack_for(length, self.widest)


def layout(plan: Schedule, types: Sequence[str] | None) -> Layout:
    """The layout of a program. types: of its arguments in C, if not all are the program's dtype."""
    widest = C_TYPES[plan.program.dtype]
    if widest == "float" and types is not None and "bfloat16" in types:
        widest = "bfloat16"
    values = all_values(plan.program.body)
    longest = max((v.length for v in values if v.kind is Kind.VEC), default=1)
    pack = pack_for(longest, widest)
    lanes = lanes_for(longest, pack)
    registers = -(-longest // (pack * lanes)) * pack
    rows = MOST_IN_FLIGHT
    while rows > 1 and rows * registers > IN_FLIGHT:
        rows //= 2
    return Layout(_vectors(plan), lanes, rows, widest)


def _vectors(plan: Schedule) -> tuple[Value, ...]:
    """Rows of arguments, scratch and results, in the order in which they are used."""
    found: dict[int, Value] = {}
    for group in groups(plan.nodes):
        for instruction in group.instructions:
            for value in (*reads(instruction), writes(instruction)):
                if value is not None and value.kind is Kind.VEC and value.id in plan.stored:
                    if not is_shared(value):
                        found.setdefault(value.id, value)
    return tuple(found.values())


def is_shared(value: Value) -> bool:
    """Whether a vector is the same for all rows, and so not in registers."""
    return value.access in (Access.SHARED, Access.ENTRY)
