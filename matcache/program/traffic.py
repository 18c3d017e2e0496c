"""Count the bytes that the loops of a program must move."""

from __future__ import annotations

from .instructions import Dot, Gather, Instruction, Kind, reads
from .schedule import Schedule, over_groups

NUMBER = 4  # bytes
ENTRY = 8  # bytes of a non-zero: its column and its value


def gathered_bytes(schedule: Schedule, numbers: dict[int, float], nnz: float) -> float:
    """Return the bytes that a call reads for its non-zeros, and rows of tables that they gather.

    numbers: see `over_groups`. A loop over the non-zeros reads each table once for each of them.
    """
    return over_groups(schedule.nodes, numbers, lambda group: _of(group.instructions) * nnz)


def _of(instructions: list[Instruction]) -> int:
    """Return the bytes of a loop for each non-zero."""
    tables: dict[int, int] = {}
    for instruction in instructions:
        if isinstance(instruction, Dot):
            tables[instruction.table] = instruction.vec.length
        elif isinstance(instruction, Gather):
            tables[instruction.table] = instruction.out.length
    visits = bool(tables) or any(v.kind is Kind.NNZ for i in instructions for v in reads(i))
    return NUMBER * sum(tables.values()) + ENTRY * visits
