"""The base class of mixins: terms of an objective, and reports on parameters.

A term applies to any model that is trained by gradients. A term whose gradient is split into two
parts applies to models of non-negative tables, too.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

import numpy as np
from annotated_types import Ge
from pydantic import Field

from blocklearn.fields import Fields
from blocklearn.matcache import Mat, MatCache, from_array, full

NonNegativeNumber = Annotated[float, Ge(0)]
Weights = NonNegativeNumber | list[NonNegativeNumber]


class Mixin(Fields):
    """Base of all mixins, which adds nothing. Fields are the configuration.

    The objective is (mean loss of the rows) + (terms). A mixin defines one or more of:

    l1, l2: weights of ||W||_1 and of ||W||^2 / 2, numbers or one per column. Those of all terms are
        added up and applied as one.
    flow: if `flows`, moves a row along the term's own descent for some time. `projects`: the time
        does not matter. `by_row`: all entries of a row need the same time.
    gradient: if `smooth`, needs the whole table in every step.
    slopes: if `splits`, the gradient of the whole term as a difference of two non-negative parts.
    scores: numbers for evaluations.
    """

    kind: str
    parameters: list[str] | None = Field(
        None, description="names of the model's parameters; null: those that the model names"
    )

    reserved: ClassVar[frozenset[str]] = frozenset({"cache", "tables"})  # set by `attach`

    flows: ClassVar[bool] = False
    projects: ClassVar[bool] = False
    by_row: ClassVar[bool] = False
    splits: ClassVar[bool] = False

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a field, which is validated, or an attribute of the replica."""
        if name in type(self).model_fields:
            super().__setattr__(name, value)
        else:
            object.__setattr__(self, name, value)

    @property
    def l1(self) -> Weights:
        """The weight of the sum of absolute values."""
        return 0.0

    @property
    def l2(self) -> Weights:
        """The weight of half the sum of squares."""
        return 0.0

    @property
    def smooth(self) -> bool:
        """Whether to add `gradient` to that of the loss."""
        return False

    @property
    def acts(self) -> bool:
        """Whether the mixin changes how parameters are trained."""
        return bool(np.any(self.l1) or np.any(self.l2) or self.flows or self.smooth)

    def attach(self, cache: MatCache, tables: dict[str, Mat]) -> None:
        """Take the parameters it is for. The learner calls this once they exist.

        tables: these parameters, by name.

        Raises TypeError where the class defines a method that nothing would call.
        """
        own = type(self)
        for method, said in (("flow", "flows"), ("gradient", "smooth"), ("slopes", "splits")):
            defined = getattr(own, method) is not getattr(Mixin, method)
            if defined and getattr(own, said) is getattr(Mixin, said):
                raise TypeError(
                    f"{own.__name__}: defines {method}, which nothing calls while {said} is False. "
                    f"Set {said} = True in the class."
                )
        self.cache = cache
        self.tables = tables

    def flow(self, w: Any, time: Any) -> Any:
        """Return the row w [1 x columns] after `time`, in a row-wise program."""
        return w

    def gradient(self, W: Mat) -> Any:
        """Return the derivative of the term by the table W: an expression of its shape."""
        return full(W, 0.0)

    def slopes(self, W: Mat) -> tuple[Any, Any]:
        """Return (rising, falling), expressions of W's shape: the gradient is their difference.

        Both are >= 0 where no entry of W is negative. Models of positive tables multiply by them.
        """
        return full(W, 0.0), full(W, 0.0)

    @abstractmethod
    def scores(self) -> dict[str, Any]:
        """Return the numbers of an evaluation: expressions of shape 1 x 1, by name."""

    def report(self, name: str, W: np.ndarray[Any, Any], names: Sequence[str] | None) -> list[str]:
        """Return lines to print about the parameter `name`.

        W: the parameter as a NumPy array.
        names: of its rows; None where unknown.
        """
        return []

    def per_table(self, title: str, value: Any) -> dict[str, Any]:
        """Return `value(W)` of each table by title; several tables add their names to it."""
        several = len(self.tables) > 1
        return {
            f"{title}.{name}" if several else title: value(W) for name, W in self.tables.items()
        }

    def weight_of(self, weight: Weights, W: Mat) -> Any:
        """Return a weight as a factor of W: a number, or a Mat [1 x columns]."""
        if isinstance(weight, list):
            label = f"weights of {self.kind} ({hash(tuple(weight))})"
            return from_array(self.cache, np.asarray([weight], np.float32), label)
        return weight
