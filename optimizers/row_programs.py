"""Bodies of the kernels by which a gradient optimizer changes a row."""

from __future__ import annotations

from typing import Any

from blocklearn.matcache import clip, copy, maximum, minimum, repeat, rowsum, sqrt, where
from blocklearn.matcache.notation.functions import TINY

from .managed import Managed
from .row import Row, kernel
from .rule import GradientRule
from .updates import masked


def kernels_of(rule: GradientRule, p: Managed) -> dict[str, Any]:
    """Return the kernels by name.

    The first call of each traces it, for parameters like p.
    """
    return {
        "step": kernel(lambda row: step_row(rule, p, row), f"{rule.name} step"),
        "rest": kernel(lambda row: wake_row(rule, p, row), f"{rule.name} rest"),
        "settle": kernel(lambda row: rest_row(rule, p, row, 0.0), f"{rule.name} settle"),
        "catch up": kernel(average_row, "average"),
        "swap": kernel(swap_row, "swap"),
    }


def step_row(rule: GradientRule, p: Managed, row: Row) -> None:
    """Step a row: gradient, clipping, rule, penalties."""
    g = row.g if row.XT is None else row.gradient(row.w)
    g = masked(g, row.mask)
    if row.shorten is not None:
        g = g * row.shorten
    if rule.clip_value is not None:
        g = clip(g, -rule.clip_value, rule.clip_value)
    if rule.clip_row_norm is not None:
        norm = sqrt(rowsum(g * g))
        g = g * minimum(rule.clip_row_norm / maximum(norm, TINY), 1.0)
    if row.average is not None:
        average_row(row)
    _flow(p, row, rule.move(row, g))
    if row.seen is not None:
        row.seen <<= row.now


def rest_row(rule: GradientRule, p: Managed, row: Row, seen: Any = None) -> None:
    """Apply the penalties that a resting row has missed. seen: the time to note."""
    _flow(p, row, rule.rest(row))
    if row.seen is not None:
        row.seen <<= seen


def wake_row(rule: GradientRule, p: Managed, row: Row) -> None:
    """Apply the penalties that a row has missed before it is read.

    Most rows were in the block before: they have missed nothing, and stay as they are.
    """
    if not rule.keeps_time or any(term.flows for term in p.terms):
        rest_row(rule, p, row, row.now)
        return
    for _ in repeat(row.missed() > 0.0):
        rest_row(rule, p, row, row.now)


def average_row(row: Row) -> None:
    """Extend the mean of the row to `count` steps; since `averaged` it rested.

    A mean of no steps is the row as it is.
    """
    missed = where(row.count, (row.count - row.averaged) / maximum(row.count, 1.0), 1.0)
    mean = row.average + (row.w - row.average) * missed
    row.average <<= where(missed < 1.0, mean, row.w)
    row.averaged <<= row.count


def swap_row(row: Row) -> None:
    """Swap the row and its average."""
    w = copy(row.w)
    row.w <<= row.average
    row.average <<= w


def _flow(p: Managed, row: Row, time: Any) -> None:
    for term in p.terms:
        if term.flows:
            row.w <<= term.flow(row.w, time)
