"""Derive the contents of an expression's padding rows: a number, or unknown.

Blocks have a fixed number of rows. Rows beyond the true ones are padding: X, Y and weights are 0
there, and row_ids -1. Padding rows of most expressions are zero, so sums may include them. Those of
others, such as exp(X), are not; then sums over rows leave them out (`real_rows`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..notation.elementwise import ELEMENTWISE
from .instructions import (
    Access,
    Apply,
    Count,
    Dot,
    Gather,
    Instruction,
    Kind,
    Product,
    Program,
    Reduce,
    Repeat,
    Store,
    Value,
)

EMPTY = {"sum": 0.0, "max": -np.inf, "min": np.inf}  # reductions of a row without entries


class Padding(NamedTuple):
    """The contents of padding rows.

    block: row numbers of the block that a matrix's rows belong to; `handle()` returns them. None:
    the rows are not those of a block.
    number: the value of all entries of padding rows; None: unknown.
    """

    block: Any = None
    number: float | None = None


def of_elementwise(op: str, args: tuple[Any, ...], rows: int) -> Padding:
    """Return the padding of an elementwise operation with this number of result rows."""
    block: Any = None
    numbers: list[float | None] = []
    for arg in args:
        if isinstance(arg, float):
            numbers.append(arg)
            continue
        found = arg.padding if arg.shape[0] == rows else Padding()
        block = found.block if block is None else block
        numbers.append(found.number if found.block is not None else None)
    return Padding() if block is None else Padding(block, fold(op, numbers))


def beside(parts: Sequence[Any]) -> Padding:
    """Return the padding of matrices that have the same rows, side by side."""
    held = [part.padding for part in parts]
    block = next((one.block for one in held if one.block is not None), None)
    number = held[0].number if held and held.count(held[0]) == len(held) else None
    return Padding(block, number)


def fold(op: str, numbers: list[float | None]) -> float | None:
    """Apply an operation to numbers. Some may be unknown (None), but are finite."""
    match op, numbers:
        case (("mul" | "logical_and"), [*_]) if 0.0 in numbers:
            if all(x is None or np.isfinite(x) for x in numbers):
                return 0.0
        case "div", [0.0, None]:
            return 0.0
        case "where", [float(condition), a, b]:
            return a if condition != 0.0 else b
        case "where", [None, a, b]:
            return a if a == b else None
    if any(x is None for x in numbers):
        return None
    with np.errstate(all="ignore"):
        found = float(ELEMENTWISE[op].define(*numbers))
    return None if np.isnan(found) else found


def of_program(program: Program, numbers: tuple[float | None, ...]) -> dict[int, float | None]:
    """Return the padding of a row-wise program's values, by the value's id.

    numbers: padding of its arguments; None: unknown.

    For values that are assigned to, this is the padding after the program has run.
    """
    known: dict[int, float | None] = {}

    def read(value: Value | float) -> float | None:
        if not isinstance(value, Value):
            return value
        if value.id not in known and value.arg >= 0:
            own = value.access is Access.ROWS
            known[value.id] = numbers[value.arg] if own else None
        return known.get(value.id)

    def run(body: list[Instruction]) -> None:
        for step in body:
            match step:
                case Apply():
                    known[step.out.id] = fold(step.op, [read(a) for a in step.args])
                case Gather() | Count():
                    known[step.out.id] = 0.0
                case Dot():
                    known[step.out.id] = None
                case Product():
                    known[step.out.id] = 0.0 if read(step.vec) == 0.0 else None
                case Reduce():
                    known[step.out.id] = _reduced(step, read(step.source))
                case Store():
                    known[step.target.id] = read(step.value)
                case Repeat():
                    again(step.body)
                case _:
                    pass

    def again(body: list[Instruction]) -> None:
        before = dict(known)
        for _ in range(2):
            run(body)
            for n, number in known.items():
                if n in before and before[n] != number:
                    known[n] = None
            if known == before:
                return
            before = dict(known)
        for n in known:  # it does not converge: the values it changes are unknown
            known[n] = None

    run(program.body)
    for value in program.returns:
        read(value)
    return known


def _reduced(step: Reduce, number: float | None) -> float | None:
    if step.source.kind is Kind.NNZ:
        return EMPTY[step.op]
    if step.op == "sum":
        return None if number is None else number * step.source.length
    return number
