"""Weights of ALS's penalty to choose among, where none are given.

The best weights depend on how much of the values is noise (the ridge of a Gaussian model is the
variance of the noise over that of the factors), so no fixed ones are safe. If all ratings are
multiplied by c, the best factors grow by sqrt(c) on both sides, and the best weights of their
squares by c; biases grow by c, and their weight stays. So weights of factors are multiples of the
standard deviation of the ratings, or of the mean confidence of implicit feedback.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..inputs import ValueMoments
from ..undecided import Settings

RATINGS = ((0.0, 0.14), (0.0, 0.07), (0.0, 0.28), (0.0, 0.035), (0.0, 0.0175), (5.0, 0.05))
"""Pairs of row_reg and reg, over the standard deviation of the ratings, the likeliest first.

Without row_reg, each reg is twice the one below it: where the best lies between two, the error is
up to .6 % above it.
"""

NO_FACTORS = 1e4
"""The same for a row_reg that leaves nothing of the factors: predictions by biases alone."""

FEEDBACK = (0.1, 0.01, 0.03, 0.3, 1.0)
"""Values of reg, over the mean confidence of an entry."""

UNWEIGHTED = (5.0, 1.0, 2.0, 10.0, 25.0, 100.0)
"""Values of reg that the number of a row's entries does not multiply, over the same."""

BIAS = 2.0
"""The weight of the square of a bias."""

OTHER_BIASES = (1.0, 8.0)
"""The same, where biases explain more, or noise is larger: the best is its variance over theirs."""


def ridges_to_try(
    values: ValueMoments, *, alpha: float | None, weighted: bool, biases: bool
) -> Settings:
    """Return values of `reg`, `row_reg` and `bias_reg`, the likeliest first.

    values: of the training data.
    alpha, weighted, biases: as of the model; alpha is None for ratings.
    """
    scale = values.std if alpha is None else 1.0 + alpha * values.magnitude
    scale = scale or 1.0  # all ratings are equal
    if not weighted:
        pairs = [(0.0, reg) for reg in UNWEIGHTED]
    elif alpha is None:
        pairs = list(RATINGS)
    else:
        pairs = [(0.0, reg) for reg in FEEDBACK]
    found = [{"reg": rounded(reg * scale), "row_reg": rounded(row * scale)} for row, reg in pairs]
    if not biases:
        return [{**ridge, "bias_reg": None} for ridge in found]
    return [{**ridge, "bias_reg": BIAS} for ridge in [*found, without_factors(scale)]]


def with_other_biases(values: ValueMoments, best: Mapping[str, object]) -> Settings:
    """Return `best` with other values of `bias_reg`, and biases alone with the largest one."""
    alone = {**without_factors(values.std or 1.0), "bias_reg": OTHER_BIASES[-1]}
    found = [{**best, "bias_reg": weight} for weight in OTHER_BIASES]
    return found if alone in found else [*found, alone]


def without_factors(scale: float) -> Mapping[str, object]:
    """Return the `reg` and `row_reg` of biases alone, for ratings of the deviation `scale`."""
    return {"reg": 0.0, "row_reg": rounded(NO_FACTORS * scale)}


def rounded(weight: float) -> float:
    """Return `weight` with three digits, as configurations show it.

    >>> rounded(0.123456)
    0.123
    """
    return float(f"{weight:.3g}")
