"""Scalar functions of float64 CPU kernels: libm where possible, else series."""

# Numba infers the types.
# mypy: allow-untyped-defs

import math

import numpy as np

from ...notation.elementwise import LEAST_EXPPSI
from ..compiling.jit import helper

_F = np.float64
_FAST = {"contract", "reassoc", "nsz", "arcp"}
_inline = helper(*_FAST)


@_inline
def maximum(a, b):
    """Return the larger; NaN wins."""
    return a if (a > b) or (a != a) else b


@_inline
def minimum(a, b):
    """Return the smaller; NaN wins."""
    return a if (a < b) or (a != a) else b


@_inline
def sign(x):
    """Return -1, 0, 1 or NaN."""
    return 1.0 if x > 0.0 else (-1.0 if x < 0.0 else x)


@_inline
def sqrt(x):
    """Return the square root."""
    return math.sqrt(x)


@_inline
def exp(x):
    """Return e^x."""
    return math.exp(x)


@_inline
def tanh(x):
    """Return (e^x - e^-x) / (e^x + e^-x)."""
    return math.tanh(x)


@_inline
def cos(x):
    """Return the cosine."""
    return math.cos(x)


@_inline
def sin(x):
    """Return the sine."""
    return math.sin(x)


@_inline
def floor(x):
    """Return the largest whole number that is not larger."""
    return np.floor(x)


@_inline
def log(x):
    """Return ln x; 0 gives -inf, x < 0 NaN."""
    return np.log(x)


@_inline
def digamma(x):
    """Return psi(x) for x > 0; 0 gives -inf, x < 0 NaN.

    By the recurrence to x + 10 and the asymptotic series.
    """
    if x < 0.0 or x != x:
        return np.nan
    if x == 0.0:
        return -np.inf
    r = 0.0
    y = x
    while y < 10.0:
        r -= 1.0 / y
        y += 1.0
    w = 1.0 / (y * y)
    s = w * (
        1 / 12 - w * (1 / 120 - w * (1 / 252 - w * (1 / 240 - w * (1 / 132 - w * (691 / 32760)))))
    )
    return r + math.log(y) - 0.5 / y - s


@_inline
def exppsi(x):
    """Return max(exp(psi(x)), 1e-20)."""
    return maximum(math.exp(digamma(x)), LEAST_EXPPSI)


@_inline
def lgamma(x):
    """Return ln gamma(x) for x > 0; 0 gives inf, x < 0 NaN."""
    return np.nan if x < 0.0 else (np.inf if x == 0.0 else math.lgamma(x))


@_inline
def sigmoid(x):
    """Return 1 / (1 + e^-x)."""
    e = math.exp(-abs(x))
    return 1.0 / (1.0 + e) if x >= 0.0 else e / (1.0 + e)


@_inline
def softplus(x):
    """Return ln(1 + e^x)."""
    return maximum(x, 0.0) + math.log1p(math.exp(-abs(x)))


@_inline
def uniform(bits):
    """Return a float64 in (0, 1) from 32 random bits: (bits + 1/2) / 2^32."""
    return (np.float64(bits) + 0.5) * 2.0**-32
