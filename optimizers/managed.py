"""A parameter as gradient optimizers manage it, and checks of combinations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from blocklearn.matcache import Mat, MatCache, from_array

from .errors import CombinationError
from .terms import Term, Weights

ALL: Literal["all"] = "all"
ONE: Literal["one"] = "one"


@dataclass(frozen=True)
class Slot:
    """A state of a parameter: of its shape (ALL), or with one number per row (ONE)."""

    columns: Literal["all", "one"]
    initial: float = 0.0

    def __post_init__(self) -> None:
        """Raise ValueError for other columns."""
        if self.columns not in (ALL, ONE):
            raise ValueError(f"Slot: columns={self.columns!r}: must be ALL or ONE.")


@dataclass
class Managed:
    """A parameter, with its terms and its state."""

    name: str
    w: Mat
    terms: list[Term]
    state: tuple[Mat, ...] = ()
    rates: Mat | None = None
    l1: Mat | None = None
    l2: Mat | None = None
    most_l2: Mat | None = None  # the largest of l2 [1 x 1], where columns have one rate
    average: Mat | None = None
    averaged: Mat | None = None
    seen: Mat | None = None  # time of the penalties' clock when a row was last exact
    sparse: bool = False  # whether its updates are sparse
    kernels: dict[str, Any] = field(default_factory=dict)

    @property
    def rests(self) -> bool:
        """Whether penalties move a row that has no gradient."""
        return bool(self.terms)

    def common(self) -> dict[str, Any]:
        """Return the arguments that every kernel takes."""
        names = ("w", "rates", "l1", "l2", "most_l2", "state")
        return {name: getattr(self, name) for name in names}


def weight_row(
    cache: MatCache, kind: str, p: Managed, what: str, weights: list[Weights]
) -> Mat | None:
    """Return the sum of the weights [1 x 1] or [1 x columns]; None if all are 0.

    Raises CombinationError for a list of another length than the columns.
    """
    columns = p.w.shape[1]
    for weight in weights:
        if not isinstance(weight, float | int) and len(weight) != columns:
            raise CombinationError(
                f"{what} on {p.name!r} has {len(weight)} weights, but there are {columns} "
                "columns (targets). Give one number, or one for each column."
            )
    row = np.zeros(columns, p.w.dtype)
    for weight in weights:
        row += np.asarray(weight)
    if not row.any():
        return None
    label = f"{p.name}: {what} weights ({kind})"
    return from_array(cache, row[None, :1] if (row == row[0]).all() else row[None], label)


def check_rows(kind: str, p: Managed, *, by_entry: bool) -> None:
    """Raise CombinationError for terms that need one time per row, where entries differ."""
    for term in p.terms:
        if term.by_row and (by_entry or p.rates is not None):
            why = "gives every weight a rate of its own"
            if not by_entry:
                why = "has a rate for each target here"
            raise CombinationError(
                f"{term.kind} on {p.name!r} shrinks a row of weights as a whole, but "
                f"{kind} {why}. Use {term.kind} with sgd and one rate."
            )


def check_sparse(
    kind: str, p: Managed, *, average_from: int | None, clip_global_norm: float | None
) -> None:
    """Raise CombinationError for settings without an exact form for sparse updates."""
    smooth = [t.kind for t in p.terms if t.smooth]
    flows = [t.kind for t in p.terms if t.flows and not t.projects]
    way_out = "Give the data as a dense matrix (NumPy), or leave it out."
    if smooth:
        raise CombinationError(
            f"{smooth[0]} needs the whole table {p.name!r} in every step, but the block is "
            f"sparse, and a step touches only the features that occur in it. {way_out}"
        )
    if flows and (len(flows) > 1 or p.l1 is not None or p.l2 is not None):
        others = [t.kind for t in p.terms if t.kind != flows[0]]
        raise CombinationError(
            f"{flows[0]} together with {', '.join(others) or 'itself'} on {p.name!r}: for a "
            "feature that does not occur in a block, the two have no exact common form. "
            f"{way_out}"
        )
    if average_from is not None and p.rests:
        raise CombinationError(
            f"{kind}: average_from with {', '.join(t.kind for t in p.terms)} on "
            f"{p.name!r}: penalties move the rows that a sparse block does not touch, and the "
            "average of that has no exact form. Set average_from: null, or give dense data."
        )
    if clip_global_norm is not None:
        raise CombinationError(
            f"{kind}: clip_global_norm={clip_global_norm} needs the whole gradient "
            f"of {p.name!r} before the step, but for a sparse block it is never stored. Use "
            "clip_row_norm or clip_value."
        )


def check_row_steps(
    kind: str, p: Managed, *, average_from: int | None, row_norm: float | None
) -> None:
    """Raise CombinationError for settings that steps of single rows do not support."""
    way_out = "Use step_per: block."
    if average_from is not None:
        raise CombinationError(
            f"{kind}: average_from={average_from} averages the iterates after each block, and "
            f"step_per=row moves within it. Leave one of them out. {way_out}"
        )
    if p.w.shape[1] > 1:  # each column of a row moves by itself
        whole = [t.kind for t in p.terms if t.by_row]
        whole += [] if row_norm is None else [f"clip_row_norm={row_norm}"]
        if whole:
            raise CombinationError(
                f"{kind}: {whole[0]} on {p.name!r} needs all columns of a row at once, and "
                f"step_per=row moves one by one. {way_out}"
            )
