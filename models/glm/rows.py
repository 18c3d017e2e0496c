"""Compute losses, measures and predictions of linear models, row by row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from blocklearn.matcache import Column, Matrix, Row, Rows, Table, full, rowwise, where
from blocklearn.optimizers.linear_loss import scores_of

from .links import LINKS, At, Link, log_softmax, softmax_hit, softmax_label


@dataclass(frozen=True)
class Links:
    """The links in use, in the order of W's columns; softmax once for every group.

    names: of the links.
    masks: [1 x columns] for each link, 1 at its columns; () if only one link is in use.
    shapes: [1 x columns], the shapes of losses; None: no link in use has one.
    """

    names: tuple[str, ...]
    masks: tuple[Row, ...] = ()
    shapes: Row | None = None

    def each(self, compute: Callable[[Link, At], Rows]) -> Rows:
        """Join compute(link, at) of all links, each at its columns.

        A single link has no mask.
        """
        if len(self.names) == 1:
            return compute(LINKS[self.names[0]], At(None, self.shapes))
        result = None
        for name, mask in zip(self.names, self.masks, strict=True):
            value = compute(LINKS[name], At(mask, self.shapes))
            result = value if result is None else where(mask, value, result)
        return result


@dataclass(frozen=True)
class Labels:
    """Targets of the columns of W, and factors of their losses.

    A factor of None is 1 everywhere.

    Y: [rows x columns], targets.
    own: [rows x columns], weights of rows by column, used where `has_own` is 1.
    has_own: [1 x columns].
    low, high: [1 x columns], factors for y = 0 and for y = 1.
    shares: [1 x columns], factors of softmax classes.
    """

    Y: Rows
    own: Rows | None = None
    has_own: Row | None = None
    low: Row | None = None
    high: Row | None = None
    shares: Row | None = None

    @property
    def factor(self) -> Rows | None:
        """A column's own weights of rows [rows x columns]; None: all are 1."""
        return None if self.own is None else where(self.has_own, self.own, 1.0)

    def times(self, weights: Column) -> Column | Rows:
        """Return the weights of rows, times those by column."""
        return weights if self.own is None else weights * self.factor

    @property
    def shared(self) -> Rows:
        """Y times the factors of softmax classes."""
        return self.Y if self.shares is None else self.Y * self.shares

    def weigh(self, loss: Rows) -> Rows:
        """Multiply losses, or their derivatives, by the factors for y = 0 and y = 1."""
        if self.low is None:
            return loss
        return loss * (self.low + (self.high - self.low) * self.Y)


@rowwise
def losses(eta: Rows, labels: Labels, links: Links) -> tuple[Rows, ...]:
    """Return d loss / d eta and the losses [rows x columns], before weights of rows.

    Where columns have their own weights of rows, these follow as a third result.
    """
    y = labels.shared
    residual = links.each(lambda link, at: link.residual(eta, y, at))
    loss = links.each(lambda link, at: link.loss(eta, y, at))
    found = labels.weigh(residual), labels.weigh(loss)
    factor = labels.factor
    return found if factor is None else (*found, factor)


@rowwise
def dual_variables(eta: Rows, a: Rows, s: Rows, labels: Labels, links: Links) -> Rows:
    """Return the next dual variables [rows x columns]: see `LinearLoss.dual`."""
    y, factor = labels.shared, labels.weigh(full(eta, 1.0))
    factor = factor if labels.factor is None else factor * labels.factor

    def of(link: Link, at: At) -> Rows:
        assert link.dual is not None  # see `GLM.update`
        return link.dual(eta, a, s, y, factor, at)

    return links.each(of)


@rowwise
def measures(
    X: Matrix, W: Table | None, b: Row, labels: Labels, weights: Column, links: Links
) -> tuple[Rows, ...]:
    """Return weighted measures, ranking scores, weighted hits [rows x columns].

    Hits are returned only if softmax is in use.
    """
    eta = scores_of(X, W, b)
    Y, factor = labels.Y, labels.times(weights)
    softmax = LINKS["softmax"]
    measure = links.each(lambda link, at: link.measure(eta, Y, at))
    rank = links.each(lambda link, at: log_softmax(eta, at) if link is softmax else eta)
    if "softmax" not in links.names:
        return measure * factor, rank
    hits = links.each(
        lambda link, at: softmax_hit(eta, Y, at) if link is softmax else full(eta, 0.0)
    )
    return measure * factor, rank, hits * factor


@rowwise
def means(X: Matrix, W: Table | None, b: Row, output: str, links: Links) -> Rows:
    """Predict [rows x columns]. output: "score", "mean" or "label"."""
    eta = scores_of(X, W, b)
    if output == "score":
        return +eta

    def of(link: Link, at: At) -> Rows:
        if output == "label" and link is LINKS["softmax"]:
            return softmax_label(eta, at)
        if output == "label" and link.binary:
            return eta > 0.0
        return link.mean(eta, at)

    return links.each(of)
