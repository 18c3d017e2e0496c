"""Step row by row: `step_per: row` of the optimizers that take gradients.

One kernel for each block moves the features of every row before it reads the next row, as blocks of
one row would. Rules, penalties and the clock are those of `gradient.py`. Two things differ from
blocks of one row:

- The schedule counts blocks, so all rows of a block have the same rate.
- A row of weight w moves for w times as long: its loss and its share of the penalties count w
  times. The mean over a block of one row would ignore w.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from blocklearn.matcache import Entries, Moment, Move, Scalar, named, row_steps, scalar

from .errors import CombinationError
from .linear_loss import LinearLoss, single_derivatives
from .managed import Managed, check_row_steps, check_sparse
from .row import Row
from .row_programs import rest_row, step_row
from .rule import GradientRule
from .updates import Update


class ByRow:
    """Steps a parameter and its bias, row by row."""

    def __init__(self, rule: GradientRule, clock: Scalar, rate: Scalar) -> None:
        """rule: the optimizer. clock: of penalties, float64. rate: of the present block."""
        self._rule, self._clock, self._rate = rule, clock, rate
        self._pace, self._gain = scalar(rule.cache, 0.0, f"gain of the clock ({rule.name})"), 0.0
        self._entries: dict[str, Entries] = {}

    def advance(self, gain: float) -> None:
        """Set how far a row of weight 1 advances the clock."""
        if gain != self._gain:
            self._pace.set(gain)
            self._gain = gain

    def step(self, updates: Mapping[str, Update], managed: Mapping[str, Managed]) -> None:
        """Step all rows of the block.

        updates: one `LinearLoss`, by name of its parameter.
        managed: all parameters, by name.
        """
        name, update = self._only(updates)
        p, bias = managed[name], None if update.bias is None else managed[update.bias]
        if name not in self._entries:
            self._prepare(p, bias, update)
        p.sparse = True
        row_steps(
            update.block.X,
            single_derivatives,
            (None if bias is None else bias.w, update.of_rows),
            self._entries[name],
            None if bias is None else self._entries[bias.name],
            weights=update.block.weights,
            rate=self._rate,
            pace=self._pace,
            clock=self._clock,
            seen=p.seen,
        )

    def settle(self, p: Managed) -> None:
        """Bring all rows of a parameter up to date."""
        elapsed = None
        if p.seen is not None:
            shape = p.seen.shape
            elapsed = named(self._rule.cache, f"{p.name}: time missed", shape, p.w.dtype)
            elapsed <<= self._clock - p.seen
            p.seen <<= 0.0
        p.kernels["settle"](now=self._clock, rate=self._rate, elapsed=elapsed, **p.common())

    # ------------------------------------------------------------- preparations

    def _only(self, updates: Mapping[str, Update]) -> tuple[str, LinearLoss]:
        found = list(updates.items())
        if len(found) != 1 or not isinstance(found[0][1], LinearLoss):
            raise CombinationError(
                f"{self._rule.name}: step_per=row needs the gradients of single rows, and this "
                "model hands over those of whole blocks. Use step_per: block, or hand over a "
                "LinearLoss."
            )
        name, update = found[0]
        if update.block.X.pattern is None:
            raise CombinationError(
                f"{self._rule.name}: step_per=row is for sparse data, and the block is dense. Give "
                "the data as scipy.sparse.csr_array(X), or use step_per: block."
            )
        return name, update

    def _prepare(self, p: Managed, bias: Managed | None, update: LinearLoss) -> None:
        """Check the parameters and make their entries, at the first step."""
        rule = self._rule
        check_sparse(rule.name, p, average_from=None, clip_global_norm=rule.clip_global_norm)
        for each in (p, bias):
            if each is not None:
                check_row_steps(
                    rule.name, each, average_from=rule.average_from, row_norm=rule.clip_row_norm
                )
                mask, wakes = (update.mask, p.rests) if each is p else (None, False)
                self._entries[each.name] = Entries(
                    (each.w, mask, *each.state),
                    (each.rates, each.l1, each.l2),
                    each.kernels["move"],
                    each.kernels["wake"] if wakes else None,
                )


def moves_of(rule: GradientRule, p: Managed) -> dict[str, Move]:
    """Return how entries of a parameter and its state move, by name.

    "move" is the step of a row. "wake" comes before it, and makes up for missed penalties.
    """

    def row_of(moment: Moment, entries: tuple[Any, ...], numbers: tuple[Any, ...]) -> Row:
        (w, mask, *state), (rates, l1, l2) = entries, numbers
        return Row(
            w=w,
            g=moment.gradient,
            mask=mask,
            rate=moment.rate,
            rates=rates,
            now=moment.clock,
            elapsed=moment.elapsed,
            l1=l1,
            l2=l2,
            state=tuple(state),
        )

    def move(moment: Moment, entries: tuple[Any, ...], numbers: tuple[Any, ...]) -> None:
        row = row_of(moment, entries, numbers)
        rule.weigh(row, moment.weight)
        step_row(rule, p, row)

    def wake(moment: Moment, entries: tuple[Any, ...], numbers: tuple[Any, ...]) -> None:
        rest_row(rule, p, row_of(moment, entries, numbers))

    return {"move": move, "wake": wake}
