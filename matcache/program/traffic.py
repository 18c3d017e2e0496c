"""Count the bytes that the loops of a program must move."""

from __future__ import annotations

from .instructions import Dot, Gather, Instruction, Kind, Value, reads, rounds_of
from .schedule import Group, Loop, Node, Schedule

NUMBER = 4  # bytes
ENTRY = 8  # bytes of a non-zero: its column and its value


def gathered_bytes(schedule: Schedule, numbers: dict[int, float], nnz: float) -> float:
    """Return the bytes that a call reads for its non-zeros, and rows of tables that they gather.

    numbers: argument number -> value, for loop counts that are arguments; unknown ones count as 1.
    A loop over the non-zeros reads each table once for each of them.
    """

    def visit(nodes: list[Node]) -> float:
        count = 0.0
        for node in nodes:
            if isinstance(node, Loop):
                count += rounds_of(node.count, numbers) * visit(node.body)
            elif isinstance(node, Group):
                count += _of(node.instructions) * nnz
        return count

    return visit(schedule.nodes)


def _of(instructions: list[Instruction]) -> int:
    """Return the bytes of a loop for each non-zero."""
    tables: dict[int, int] = {}
    for instruction in instructions:
        if isinstance(instruction, Dot):
            tables[instruction.table] = instruction.vec.length
        elif isinstance(instruction, Gather):
            tables[instruction.table] = instruction.out.length
    visits = bool(tables) or any(_by_entry(v) for i in instructions for v in reads(i))
    return NUMBER * sum(tables.values()) + ENTRY * visits


def _by_entry(value: Value) -> bool:
    return value.kind is Kind.NNZ
