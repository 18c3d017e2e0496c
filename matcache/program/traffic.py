"""Count the operations of the loops of a program, and the bytes that they must move."""

from __future__ import annotations

from collections.abc import Callable

from ..notation.elementwise import ELEMENTWISE
from .instructions import (
    Apply,
    Dot,
    Gather,
    Instruction,
    Kind,
    Product,
    Reduce,
    Value,
    reads,
    rounds_of,
)
from .schedule import Group, Loop, Node, Schedule

NUMBER = 4  # bytes
ENTRY = 8  # bytes of a non-zero: its column and its value


def flops(schedule: Schedule, numbers: dict[int, float], nnz: int, rows: int) -> int:
    """Return the floating point operations of one call.

    numbers: see `over_groups`.
    rows: of an expression, the number of its elements.

    A multiply-add counts 2, an elementwise operation 1.
    """

    def of(instruction: Instruction) -> float:
        match instruction:
            case Apply():
                per = ELEMENTWISE[instruction.op].flops
                return per * _extent(instruction.out, nnz, rows)
            case Dot():
                return 2.0 * nnz * instruction.vec.length
            case Gather():
                return 2.0 * nnz * instruction.out.length
            case Product():
                return 2.0 * rows * instruction.vec.length * instruction.out.length
            case Reduce():
                return _extent(instruction.source, nnz, rows)
            case _:
                return 0.0

    return int(over_groups(schedule.nodes, numbers, lambda group: sum(map(of, group.instructions))))


def _extent(value: Value, nnz: int, rows: int) -> float:
    if value.kind is Kind.NNZ:
        return float(nnz)
    return float(rows * abs(value.length)) if value.kind is Kind.VEC else float(rows)


def over_groups(
    nodes: list[Node], numbers: dict[int, float], of: Callable[[Group], float]
) -> float:
    """Return the sum of a number of each group, as often as loops repeat it.

    numbers: argument number -> value, for loop counts that are arguments; unknown ones count as 1.
    """
    count = 0.0
    for node in nodes:
        if isinstance(node, Loop):
            count += rounds_of(node.count, numbers) * over_groups(node.body, numbers, of)
        elif isinstance(node, Group):
            count += of(node)
    return count


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
