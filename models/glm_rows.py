"""What a generalised linear model computes for each row: residuals, losses, measures, predictions.

plan: the links in use, in the order of W's columns; masks: for each link, 1 at its columns.
"""

from __future__ import annotations

from typing import Any

from blocklearn.matcache import rowsum, rowwise, where

from .links import LINKS, log_softmax, softmax_hit, softmax_label


def by_link(plan: str, masks: tuple[Any, ...], compute: Any) -> Any:
    """compute(link, mask) of every link in `plan`, each at its columns. One link needs no mask."""
    links = plan.split()
    if len(links) == 1:
        return compute(links[0], None)
    result = None
    for link, mask in zip(links, masks, strict=True):
        value = compute(link, mask)
        result = value if result is None else where(mask, value, result)
    return result


def scores_of(X: Any, W: Any, b: Any) -> Any:
    """eta. Of dense data it is computed before: W is None then, and X is X W."""
    return (X if W is None else X @ W) + b


def row_factor(weights: Any, own: Any, has_own: Any) -> Any:
    """Weights of the rows: one number, or by column where some targets have `own` weights.

    weights: None where they are not to count.
    """
    if own is None:
        return 1.0 if weights is None else weights
    factor = where(has_own, own, 1.0)
    return factor if weights is None else weights * factor


@rowwise
def residuals(
    X: Any, W: Any, b: Any, Y: Any, weights: Any, own: Any, has_own: Any, low: Any, high: Any,
    shares: Any, norm: Any, plan: Any, *masks: Any,
) -> Any:  # fmt: skip
    """d objective / d eta [rows x columns], the block's weights `norm` being the divisor.

    weights and norm: None for rows by themselves, whose losses count once. low, high: factors for
    y = 0 and 1 [1 x columns]; shares: of classes of softmax. None: all 1.
    """
    eta = scores_of(X, W, b)
    labels = Y if shares is None else Y * shares
    r = by_link(plan, masks, lambda link, mask: LINKS[link].residual(eta, labels, mask))
    if low is not None:
        r = r * (low + (high - low) * Y)
    factor = row_factor(weights, own, has_own)
    return r * (factor if norm is None else factor / norm)


@rowwise
def residuals_and_losses(
    X: Any, W: Any, b: Any, Y: Any, own: Any, has_own: Any, low: Any, high: Any, shares: Any,
    plan: Any, *masks: Any,
) -> Any:  # fmt: skip
    """`residuals` of rows by themselves, and what they are the derivatives of: the losses of each
    row, all columns together [rows x 1].
    """
    eta = scores_of(X, W, b)
    labels = Y if shares is None else Y * shares
    r = by_link(plan, masks, lambda link, mask: LINKS[link].residual(eta, labels, mask))
    loss = by_link(plan, masks, lambda link, mask: LINKS[link].loss(eta, labels, mask))
    if low is not None:
        factor = low + (high - low) * Y
        r, loss = r * factor, loss * factor
    factor = row_factor(None, own, has_own)
    return r * factor, rowsum(loss * factor)


@rowwise
def measures(
    X: Any, W: Any, b: Any, Y: Any, weights: Any, own: Any, has_own: Any, plan: Any, *masks: Any
) -> Any:
    """Weighted measures, scores to rank by, weighted hits (softmax) [rows x columns] each."""
    eta = scores_of(X, W, b)
    factor = row_factor(weights, own, has_own)
    measure = by_link(plan, masks, lambda link, mask: LINKS[link].measure(eta, Y, mask))
    rank = by_link(
        plan, masks, lambda link, mask: log_softmax(eta, mask) if link == "softmax" else eta
    )
    if "softmax" not in plan:
        return measure * factor, rank
    hits = by_link(
        plan,
        masks,
        lambda link, mask: softmax_hit(eta, Y, mask) if link == "softmax" else 0.0 * eta,
    )
    return measure * factor, rank, hits * factor


@rowwise
def means(X: Any, W: Any, b: Any, output: Any, plan: Any, *masks: Any) -> Any:
    """Predictions [rows x columns]: output is "score", "mean" or "label"."""
    eta = scores_of(X, W, b)
    if output == "score":
        return +eta

    def of(link: str, mask: Any) -> Any:
        if output == "label" and link == "softmax":
            return softmax_label(eta, mask)
        if output == "label" and LINKS[link].binary:
            return eta > 0.0
        return LINKS[link].mean(eta, mask)

    return by_link(plan, masks, of)
