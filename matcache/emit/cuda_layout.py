"""Decide where CUDA keeps a row's vectors: in registers of the row's lanes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..program.instructions import Access, Kind, Value, reads, writes
from ..program.schedule import Schedule, all_values, groups
from .cuda_header import C_TYPES, lanes_for, pack_for

IN_FLIGHT = 32  # registers of a lane for table rows that are being loaded
MOST_IN_FLIGHT = 4  # most table rows loaded at once


@dataclass(frozen=True)
class Layout:
    """The layout of a row.

    vectors: those held in registers for the whole row.
    lanes: number of lanes that share a row.
    rows_in_flight: table rows that are loaded at once.
    widest: the C type whose numbers fill a pack of 16 bytes; bfloat16 if an argument has it.
    """

    vectors: tuple[Value, ...]
    lanes: int
    rows_in_flight: int
    widest: str

    def pack(self, length: int) -> int:
        """Return how many consecutive numbers of a vector a lane holds: up to 16 bytes."""
        return pack_for(length, self.widest)


def layout(plan: Schedule, types: Sequence[str] | None) -> Layout:
    """Return the layout of a program.

    types: C types of its arguments; None: the program's dtype.
    """
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
    """Return rows of arguments, scratch and results, in the order of their use."""
    found: dict[int, Value] = {}
    for group in groups(plan.nodes):
        for instruction in group.instructions:
            for value in (*reads(instruction), writes(instruction)):
                if value is None or value.kind is not Kind.VEC or is_shared(value):
                    continue
                if value.id in plan.stored:
                    found.setdefault(value.id, value)
    return tuple(found.values())


def is_shared(value: Value) -> bool:
    """Return whether a vector is the same for all rows, and so not kept in registers."""
    return value.access in (Access.SHARED, Access.ENTRY)
