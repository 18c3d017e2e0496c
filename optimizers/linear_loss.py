"""Losses of X W + b, which leave the optimizer free how to step.

- By block, it evaluates the derivatives of the block's mean loss.
- By pass, it sums the derivatives and losses of rows.
- By row, it evaluates each row at the parameters that the rows before it have left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from blocklearn.matcache import (
    Column,
    Mat,
    Matrix,
    Number,
    Row,
    Rows,
    ShapeError,
    Table,
    rowsum,
    rowwise,
)
from blocklearn.matcache.notation.functions import TINY

LEAST_WEIGHT = TINY  # of a block, whose rows may all have weight 0


class Weighted(Protocol):
    """The part of a block that a `LinearLoss` reads: rows with weights."""

    @property
    def X(self) -> Matrix:
        """The features [rows x features]."""

    @property
    def weights(self) -> Mat:
        """The weights of the rows [rows x 1], 0 for padding."""

    @property
    def weight(self) -> float:
        """The sum of the weights."""


@dataclass(frozen=True)
class RowLosses:
    """Losses of rows as a function of their scores."""

    function: Callable[..., tuple[Rows, ...]]
    arguments: tuple[Any, ...]

    def at(self, scores: Rows) -> tuple[Rows, Rows, Rows | None]:
        """Return derivatives by the scores, losses, and factors of both (None: 1).

        Raises ShapeError where `function` does not return two or three values.
        """
        found = self.function(scores, *self.arguments)
        if not isinstance(found, tuple) or len(found) not in (2, 3):
            name = getattr(self.function, "__name__", "losses")
            count = len(found) if isinstance(found, tuple) else 1
            raise ShapeError(
                f"LinearLoss: losses={name} returns {count} values; must be two: the derivatives "
                "by the scores, and the losses; or factors of both as a third. Return them."
            )
        return found if len(found) == 3 else (*found, None)

    def counted(self, scores: Rows) -> tuple[Rows, Rows]:
        """Return derivatives and losses, times their factors."""
        r, loss, factors = self.at(scores)
        return (r, loss) if factors is None else (r * factors, loss * factors)


@dataclass(frozen=True)
class DualSteps:
    """Steps of dual variables as a function of scores: see `LinearLoss.dual`."""

    function: Callable[..., Rows]
    arguments: tuple[Any, ...]

    def at(self, scores: Rows, a: Rows, s: Rows) -> Rows:
        """Return the next dual variables of rows whose dual variables are a."""
        return self.function(scores, a, s, *self.arguments)


@dataclass(frozen=True)
class LinearLoss:
    """The weighted mean loss of a block's rows, by a parameter W [features x targets].

    The scores of row i are x_i W + b [1 x targets].

    - block: has `X` [rows x features], `weights` [rows x 1] and their sum `weight`.
    - losses: a `@rowwise` function. `losses(scores, *arguments)` returns the derivatives by the
      scores [rows x targets], and the losses, [rows x targets] or [rows x 1]. Both are without
      weights. The result for a row may depend on that row only. A third result may hold
      factors of both [rows x targets], if each target weighs rows in its own way.
    - arguments: matrices with one row, or with a row for each row of the block; numbers; names;
      tuples and frozen dataclasses of these. No parameters of the model.
    - mask: [features x targets], 0 where W must stay 0, else 1; None: 1 everywhere.
    - bias: the name of the parameter b [1 x targets]; None: no bias.
    - dual: a `@rowwise` function, for dual ascent; None: it cannot be used.
      `dual(scores, a, s, *arguments)` returns the next dual variables of a row [rows x targets]:
      the derivatives at scores that move by s * (a - next), or a share of the way there.
    """

    block: Weighted
    losses: Callable[..., tuple[Rows, ...]]
    arguments: tuple[Any, ...] = ()
    mask: Mat | None = None
    bias: str | None = None
    dual: Callable[..., Rows] | None = None

    @property
    def of_rows(self) -> RowLosses:
        """The losses as a function of scores."""
        return RowLosses(self.losses, self.arguments)

    def derivatives(self, name: str, parameters: Mapping[str, Mat], norm: Number) -> Rows:
        """Return the derivatives of the weighted losses by the scores, divided by `norm`.

        They are [rows x targets]. name: of the parameter W.
        """
        X, W, b = self._scores(name, parameters)
        return mean_derivatives(X, W, b, self.of_rows, self.block.weights, norm)

    def row_by_row(self, name: str, parameters: Mapping[str, Mat]) -> tuple[Rows, Column]:
        """Return derivatives by the scores [rows x targets], and losses [rows x 1]."""
        X, W, b = self._scores(name, parameters)
        found: tuple[Rows, Column] = row_losses(X, W, b, self.of_rows)
        return found

    def _scores(
        self, name: str, parameters: Mapping[str, Mat]
    ) -> tuple[Matrix, Table | None, Row | None]:
        """Return X, W, b for the kernels; for dense data, X W, None, b."""
        X, W = self.block.X, parameters[name]
        b = None if self.bias is None else parameters[self.bias]
        return (X, W, b) if X.pattern is not None else ((X @ W).mat(), None, b)


def scores_of(X: Matrix, W: Table | None, b: Row | None) -> Rows:
    """Return X W + b. Where W is None, X is X W already."""
    scores = X if W is None else X @ W
    return scores if b is None else scores + b


@rowwise
def mean_derivatives(
    X: Matrix,
    W: Table | None,
    b: Row | None,
    losses: RowLosses,
    weights: Column,
    norm: Number,
) -> Rows:
    """Return derivatives by the scores, times weights and factors, divided by `norm`."""
    r, _, factors = losses.at(scores_of(X, W, b))
    return r * ((weights if factors is None else weights * factors) / norm)


@rowwise
def row_losses(X: Matrix, W: Table | None, b: Row | None, losses: RowLosses) -> tuple[Rows, Column]:
    """Return derivatives by the scores, and losses summed over the targets."""
    r, loss = losses.counted(scores_of(X, W, b))
    return r, rowsum(loss)


@rowwise
def single_derivatives(scores: Rows, b: Row | None, losses: RowLosses) -> Rows:
    """Return the derivatives of a row whose product with W is `scores`."""
    return losses.counted(scores_of(scores, None, b))[0]
