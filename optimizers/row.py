"""Named arguments of the kernels that work on one row of a parameter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from blocklearn.matcache import rowwise

NAMES = (
    "XT",  # X.T of a sparse block: the rows are then those of the features that occur
    "w",  # the row of the parameter, [1 x columns]
    "R",  # residuals, the table of the product XT @ R
    "mask",  # 0 where w stays 0, else 1
    "g",  # the row of the gradient, where it is computed already
    "shorten",  # factor of the gradient (clipping by its global norm)
    "rate",
    "rates",  # factors of the rate, [1 x columns]
    "now",  # the clock of the penalties
    "seen",  # time of the clock when the row was last exact, one number
    "elapsed",  # time since then, where that is computed already
    "l1",
    "l2",
    "average",  # mean of the row's past values
    "averaged",  # steps that the average includes
    "count",  # steps that it should include
)


class Row:
    """The arguments of a kernel, one attribute each; None for an absent one."""

    XT: Any
    w: Any
    R: Any
    mask: Any
    g: Any
    shorten: Any
    rate: Any
    rates: Any
    now: Any
    seen: Any
    elapsed: Any
    l1: Any
    l2: Any
    average: Any
    averaged: Any
    count: Any
    state: tuple[Any, ...]

    def __init__(self, *args: Any) -> None:
        """args: in the order of NAMES, then the optimizer's state."""
        for name, arg in zip(NAMES, args, strict=False):
            setattr(self, name, arg)
        self.state = args[len(NAMES) :]

    @classmethod
    def of(cls, *, state: tuple[Any, ...] = (), **args: Any) -> Row:
        """Make a row from keyword arguments of NAMES."""
        return cls(*(args.get(n) for n in NAMES), *state)

    def missed(self) -> Any:
        """Return the time since the row was last exact."""
        return self.now - self.seen if self.elapsed is None else self.elapsed

    def pace(self) -> Any:
        """Return the step size: one number, or one per column."""
        return self.rate if self.rates is None else self.rate * self.rates


def kernel(body: Callable[[Row], None], name: str) -> Callable[..., None]:
    """Make a row-wise kernel of `body`, called with NAMES and `state` by keyword."""

    def program(*args: Any) -> None:
        body(Row(*args))

    program.__name__ = name
    compiled = rowwise(program)

    def call(*, state: tuple[Any, ...] = (), **args: Any) -> None:
        compiled(*(args.get(n) for n in NAMES), *state)

    return call
