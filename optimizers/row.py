"""Named arguments of the kernels that work on one row of a parameter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from blocklearn.matcache import rowwise


@dataclass
class Row:
    """The arguments of a kernel; None for an absent one."""

    XT: Any = None  # X.T of a sparse block: the rows are then those of the features that occur
    w: Any = None  # the row of the parameter, [1 x columns]
    R: Any = None  # residuals, the table of the product XT @ R
    mask: Any = None  # 0 where w stays 0, else 1
    D: Any = None  # factors of w, the table of the product (XT * XT) @ D
    g: Any = None  # the row of the gradient, where it is computed already
    shorten: Any = None  # factor of the gradient (clipping by its global norm)
    rate: Any = None
    rates: Any = None  # factors of the rate, [1 x columns]
    now: Any = None  # the clock of the penalties
    seen: Any = None  # time of the clock when the row was last exact, one number
    elapsed: Any = None  # time since then, where that is computed already
    l1: Any = None
    l2: Any = None
    most_l2: Any = None  # bound of l2, one number; None: unknown
    average: Any = None  # mean of the row's past values
    averaged: Any = None  # steps that the average includes
    count: Any = None  # steps that it should include
    state: tuple[Any, ...] = ()  # of the optimizer, in the order of `slots`

    def gradient(self, w: Any) -> Any:
        """Return the gradient of a sparse block at the row w of the parameter."""
        g = self.XT @ self.R
        return g if self.D is None else g + ((self.XT * self.XT) @ self.D) * w

    def missed(self) -> Any:
        """Return the time since the row was last exact."""
        return self.now - self.seen if self.elapsed is None else self.elapsed

    def pace(self) -> Any:
        """Return the step size: one number, or one per column."""
        return self.rate if self.rates is None else self.rate * self.rates


NAMES = tuple(field.name for field in fields(Row) if field.name != "state")


def kernel(body: Callable[[Row], None], name: str) -> Callable[..., None]:
    """Make a row-wise kernel of `body`, called with NAMES and `state` by keyword."""

    def program(*args: Any) -> None:
        row = Row(*args[: len(NAMES)])
        row.state = args[len(NAMES) :]
        body(row)

    program.__name__ = name
    compiled = rowwise(program)

    def call(*, state: tuple[Any, ...] = (), **args: Any) -> None:
        compiled(*(args.get(n) for n in NAMES), *state)

    return call
