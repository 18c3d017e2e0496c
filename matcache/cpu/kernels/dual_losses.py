"""Steps of dual variables by loss: see `dual_ascent.py`.

The `dual` of a link in `models/glm/links.py` defines each step; here classes are 0 or 1, and a test
compares both.
"""

# Numba infers the types.
# mypy: allow-untyped-defs, allow-untyped-calls

import numpy as np

from ...notation.functions import TINY
from ..compiling.jit import helper
from ..fitting import HINGE, HUBER, LOGISTIC, QUANTILE, SQUARED_HINGE
from ..inline.math32 import exp

_F = np.float32
_ONE, _LARGEST, _TINY = _F(1), _F(3e38), _F(TINY)
_inserted = helper("contract", "reassoc", "nsz", "arcp", inline=True)


@_inserted
def kinked(loss):
    """Return whether a loss consists of straight lines."""
    return loss in (HINGE, QUANTILE)


@_inserted
def share_of(square, loss):
    """Return the share of its step that a dual variable makes: all of it, for straight lines."""
    if kinked(loss):
        return _ONE / max(square, _TINY)
    bend = _F(2) if loss == SQUARED_HINGE else _F(0.25) if loss == LOGISTIC else _ONE
    return _ONE / (_ONE + bend * square)


@_inserted
def step(eta, y, a, share, loss, shape):
    """Return how far a dual variable moves, and how far it was from the optimum."""
    if loss == SQUARED_HINGE:
        sign = y + y - _ONE
        margin, z = _ONE - sign * eta, -sign * a
        lacks = max(margin, _F(0)) - _F(0.5) * z
        gap = lacks * lacks + z * (max(margin, _F(0)) - margin)
        return -sign * (max(z + (margin + margin - z) * share, _F(0)) - z), gap
    if loss == HINGE:
        sign = y + y - _ONE
        margin = _ONE - sign * eta
        gap = max(margin, _F(0)) + sign * a * margin
        return min(max(a - sign * margin * share, -y), _ONE - y) - a, gap
    if loss == LOGISTIC:
        d = _ONE / (_ONE + exp(-eta)) - y - a
        return d * share, d * d
    error = eta - y
    if loss == QUANTILE:
        gap = max((_ONE - shape) * error, -shape * error) - a * error
        return min(max(a + error * share, -shape), _ONE - shape) - a, gap
    most = shape if loss == HUBER else _LARGEST
    d = min(max(error, -most), most) - a
    return min(max(a + (error - a) * share, -most), most) - a, d * d
