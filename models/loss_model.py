"""The base class of models that state the loss of a row; gradients and scores follow from it."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import ClassVar

from blocklearn.matcache import (
    Gradients,
    Number,
    Rows,
    ShapeError,
    Table,
    TurnedProduct,
    maximum,
    rowsum,
    total,
)
from blocklearn.matcache.notation.operand import Operand
from blocklearn.optimizers import Adam, Gradient, Meaning, Objective, Optimizer
from blocklearn.optimizers.linear_loss import LEAST_WEIGHT

from .base import Model
from .inputs import Block
from .score import Score, Sum

__hands_on__ = True  # a matrix is named where the model asks for it, see `source_line`


class LossModel(Model):
    """Base of models that define `allocate`, `loss` and `predict`.

    The objective is the mean of the rows' losses by their weights. `loss` is traced like a
    `@rowwise` function and differentiated by the parameters that it takes: see `matcache.grad`.
    `update` hands the gradients over to an optimizer; for sparse data, they are those of the
    features that occur. `score` returns the mean loss.
    """

    meaning: ClassVar[Meaning | None] = "gradients"

    @abstractmethod
    def loss(self, *args: Rows) -> Rows:
        """Return the loss of a row: a number, or several that are added up.

        A model names the parameters of this method. Each is found by its name: `X`, `Y`, `row_ids`
        of the block; parameters of the model; other attributes, such as fields and scratch. The
        loss has no weights of rows. Fields that are read as `self.name` are constants.
        """

    def default_optimizer(self) -> Optimizer | None:
        """Return Adam, whose steps do not depend on the scale of the loss."""
        return Adam(rate=0.01)

    def update(self, block: Block) -> None:
        """Hand the gradients of the block's mean loss to the optimizer."""
        weight = total(block.weights)
        given = (*self._given(block), block.weights, maximum(weight, LEAST_WEIGHT).mat())
        found: Table | tuple[Table, ...] = self._gradients(*given)
        every = found if isinstance(found, tuple) else (found,)
        for name, gradient in zip(self._trained, every, strict=True):
            sparse = isinstance(gradient, TurnedProduct)
            self.updates[name] = Gradient(gradient.sparse, gradient.dense) if sparse else gradient
        self.objective = Objective(self._losses.total(*given[:-1], 1.0), weight)

    def score(self, block: Block) -> Score:
        """Return the mean loss."""
        losses = self._losses(*self._given(block), block.weights, 1.0)
        return {"loss": Sum(total(losses), total(block.weights))}

    # ------------------------------------------------------------- how

    @cached_property
    def _names(self) -> Sequence[str]:
        """The names of the parameters of `loss`."""
        return list(inspect.signature(self.loss).parameters)

    @cached_property
    def _trained(self) -> Sequence[str]:
        """The parameters of the model that `loss` takes."""
        weights = {name for name, rule in self.rules.items() if rule.merge == "mean"}
        trained = [name for name in self._names if name in weights]
        if not trained:
            raise ShapeError(
                f"{type(self).__name__}.loss({', '.join(self._names)}): must take a parameter of "
                f"the model: {', '.join(self.parameters)}."
            )
        return trained

    @cached_property
    def _gradients(self) -> Gradients:
        return Gradients(self._weighted, tuple(self._trained), value=False)

    @cached_property
    def _losses(self) -> Gradients:
        return Gradients(self._weighted, (), value=True)

    @cached_property
    def _weighted(self) -> Callable[..., Number]:
        """The loss of a row times its weight, divided by a number."""

        def weighted(*args: Rows) -> Number:
            *given, weights, norm = args
            found: object = self.loss(*given)
            if not isinstance(found, Operand):
                raise ShapeError(
                    f"{type(self).__name__}.loss returns {type(found).__name__}, but must return "
                    "the loss of a row, computed from its arguments."
                )
            return rowsum(found) * (weights / norm)

        weighted.__name__ = f"{type(self).__name__}.loss"
        weighted.__wrapped__ = self.loss  # type: ignore[attr-defined]
        return weighted

    def _given(self, block: Block) -> list[object]:
        """Return the arguments of `loss`."""
        return [self._found(name, block) for name in self._names]

    def _found(self, name: str, block: Block) -> object:
        if name in ("X", "Y", "row_ids"):
            found: object = getattr(block, name)
            return found
        if name in self.parameters:
            return self.parameters[name]
        if not hasattr(self, name):
            raise ShapeError(
                f"{type(self).__name__}.loss: parameter {name!r}: must be X, Y or row_ids of the "
                f"block, a parameter ({', '.join(self.parameters)}) or an attribute of the model."
            )
        own: object = getattr(self, name)
        return own
