"""What dual ascent does to the rows of a block, and to the weights: see `dual_ascent.py`."""

from __future__ import annotations

from typing import Any

from blocklearn.matcache import (
    Column,
    Matrix,
    Moment,
    Number,
    Row,
    Rows,
    minimum,
    rowmax,
    rowsum,
    rowwise,
    where,
)

from .linear_loss import DualSteps

LONGEST = 255.0  # passes that a row rests at most


@rowwise
def due_rows(
    X: Matrix, weights: Column, due: Column, until: Number, bias: Row
) -> tuple[Column, Rows, Column]:
    """Return the weights of rows that are due, else 0; squares by column; 1 for rows that rest."""
    rests = due > until
    return where(rests, 0.0, weights), rowsum(X * X) + bias, rests * (weights > 0.0)


@rowwise
def dual_moves(
    scores: Rows,
    b: Row | None,
    steps: DualSteps,
    a: Rows,
    weights: Column,
    squares: Rows,
    shares: Row,
) -> Rows:
    """Return how far the dual variables of a row move."""
    eta = scores if b is None else scores + b
    return steps.at(eta, a, weights * squares * shares) - a


@rowwise
def keep_moves(
    moves: Rows,
    a: Rows,
    due: Column,
    waits: Column,
    weights: Column,
    squares: Rows,
    shares: Row,
    now: Number,
) -> tuple[Rows, Rows]:
    """Move the dual variables, and let rows rest; return the squared moves, and their factors."""
    visited = weights > 0.0
    d = where(visited, moves, 0.0)
    a <<= a + d
    still = visited * (rowmax(abs(d)) <= 0.0)
    waits <<= where(visited, still * minimum(2.0 * waits + 1.0, LONGEST), waits)
    due <<= where(still, now + 1.0 + waits, due)
    sizes = weights * weights * squares * shares
    return sizes * d * d, sizes + 0.0 * d


def move_weight(moment: Moment, entries: tuple[Any, ...], numbers: tuple[Any, ...]) -> None:
    """Move a weight by what a row's dual variable has moved."""
    (w,), (share,) = entries, numbers
    w <<= w - moment.gradient * moment.weight * share


def move_bias(moment: Moment, entries: tuple[Any, ...], numbers: tuple[Any, ...]) -> None:
    """Move b likewise, and add up the dual variables of all rows."""
    (b, moved), (share, square) = entries, numbers
    step = moment.gradient * moment.weight * share
    b <<= b - square * step
    moved <<= moved + step
