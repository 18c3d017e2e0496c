"""Estimate what a launch moves and computes, from its operands alone.

It is the least that an algorithm needs: caches are ignored, and each operand is read or written
once, but for rows of tables, which are read for each non-zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod
from typing import Any, NamedTuple

from ..containers.dispatch import Launched
from ..containers.matrices import Mat
from ..containers.slots import PatternSlot, Slot
from ..program.traffic import gathered_bytes
from .kept_topics import Redraws
from .sampling import Draws

INDEX = 16  # bytes of a non-zero in the transposed index, with its value


class Moved(NamedTuple):
    """What a launch does. flops: floating point operations."""

    nbytes: float
    flops: float


Rule = Callable[[Any, float], Moved]
"""Counts a launch, given its operands and the non-zeros of a block."""


def traffic(launched: Launched, nnz: float) -> Moved:
    """Return what a launch moves and computes. nnz: non-zeros of a block."""
    rule: Rule = _RULES.get(launched.operation, _operands)
    return rule(launched.args, nnz)


def _operands(args: Iterable[Any], nnz: float) -> Moved:
    """Count each operand once."""
    slots, sparse = {slot.guid: slot for slot in _slots(args)}, _sparse(args)
    return Moved(sum(_held(slot, nnz) for slot in slots.values()) + INDEX * nnz * sparse, 0.0)


def _rowwise(args: Any, nnz: float) -> Moved:
    found, given, results, rows, pattern = args
    held = nnz if pattern is not None else 0.0
    counts = {n: float(given[n]) for n in found.counts if isinstance(given[n], int | float)}
    rounds = {n: counts.get(n, 1.0) for n in found.counts}
    whole = [
        arg.slot for n, arg in enumerate(given) if isinstance(arg, Mat) and n not in found.gathered
    ]
    nbytes = sum(_held(slot, nnz) for slot in [*whole, *results])
    per_entry, per_row = found.flops_each(rounds)
    return Moved(
        nbytes + gathered_bytes(found.plan, counts, held), per_entry * held + per_row * rows
    )


def _dense(args: Any, nnz: float) -> Moved:
    found, given, shape, outs = args
    moved = _operands([*given, *outs], nnz)
    return moved._replace(flops=float(found.flops_each({})[1] * prod(shape)))


def _product(args: Any, nnz: float) -> Moved:
    op, left, right, out = args
    inner = prod(left.shape) / max(out.shape[0], 1)
    each = 1.0 if left is right and op != "matmul" else 2.0  # one half is the other
    return _operands([left, right, out], nnz)._replace(flops=each * inner * prod(out.shape))


def _gathering(each: Callable[[int], float]) -> Rule:
    """Return the rule of a launch that reads a row of a table, operand 2, for each non-zero.

    each: operations of a non-zero, for k numbers in a row.
    """

    def rule(args: Any, nnz: float) -> Moved:
        read, k = args[2], args[2].shape[1]
        others = _operands([arg for arg in args if arg is not read], nnz)
        return Moved(others.nbytes + nnz * k * read.dtype.itemsize, nnz * each(k))

    return rule


def _solve_rows(args: Any, nnz: float) -> Moved:
    _, weights, table, systems = args
    k = table.shape[1]
    return Moved(nnz * k * table.dtype.itemsize + _held(weights, nnz), systems.flops + nnz * k * k)


def _sampled(args: Any, nnz: float) -> Moved:
    """Count one particle for each non-zero: the numbers are not known here."""
    draws: Draws | Redraws = args[0]
    table = draws.of.phi if isinstance(draws, Draws) else draws.table
    sweeps = draws.flops_each / (2 * table.shape[1])
    width = table.shape[1] * table.slot.dtype.itemsize
    return Moved(nnz * sweeps * width + 12 * nnz, nnz * draws.flops_each)


def _listed(args: Any, nnz: float) -> Moved:
    """Count the table once, and one topic of a list for one token of each non-zero."""
    draws: Redraws = args[0]
    return Moved(_held(draws.table.slot, nnz) + 24 * nnz, 2.0 * prod(draws.table.shape))


def _moves(args: Any, nnz: float) -> Moved:
    """Count one token for each non-zero, with counts of two topics that are read and written."""
    topics = args[3].dtype.itemsize
    return Moved((12 + 2 * topics + 16) * nnz, 2 * nnz)


_RULES: dict[str, Rule] = {
    "rowwise": _rowwise,
    "dense": _dense,
    "product": _product,
    "transposed_product": _gathering(lambda k: 2 * k),
    "add_transposed_product": _gathering(lambda k: 2 * k),
    "add_exact_product": _gathering(lambda k: 5 * k),
    "add_outer": _gathering(lambda k: k * k),
    "solve_rows": _solve_rows,
    "sample_topics": _sampled,
    "redraw_topics": _sampled,
    "redraw_lists": _listed,
    "move_counts": _moves,
}


def _slots(args: Iterable[Any]) -> Iterable[Slot]:
    for arg in args:
        if isinstance(arg, Mat):
            yield arg.slot
        elif isinstance(arg, Slot):
            yield arg


def _sparse(args: Iterable[Any]) -> bool:
    return any(isinstance(arg, PatternSlot) for arg in args)


def _held(slot: Slot, nnz: float) -> float:
    """Return the bytes in use: one row as long as the largest block has numbers for non-zeros."""
    if slot.shape[0] == 1 and slot.shape[1] > nnz:
        return nnz * slot.dtype.itemsize
    return float(slot.nbytes)
