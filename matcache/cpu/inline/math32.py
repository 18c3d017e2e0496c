"""Scalar functions of float32 CPU kernels, branch-free for LLVM's vectoriser.

Cephes-style polynomials (Moshier 1989) for exp and log; digamma and exppsi by the recurrence psi(x)
= psi(x + n) - sum 1/(x + i) and an asymptotic series (Abramowitz & Stegun 6.3.6, 6.3.18). Tests
check the errors against float64. Relative errors are below 1e-6 away from zeros of the function.
That of exppsi is 1e-5 at 0.02, since exp multiplies the error of psi by psi.
"""

# Numba infers the types.
# mypy: allow-untyped-defs

import math

import numpy as np

from ...notation.elementwise import LEAST_EXPPSI
from ..compiling.jit import helper

_F = np.float32
_FAST = {"contract", "reassoc", "nsz", "arcp"}
_inline = helper(*_FAST, inline=True)
# where the order of operations is the point: reductions of arguments, scaling in two steps
_ordered = helper("contract", "nsz", inline=True)

_LOG2E = _F(1.44269504088896341)
_LN2_HI = _F(0.693359375)
_LN2_LO = _F(-2.12194440e-4)
_LEAST_EXPPSI = _F(LEAST_EXPPSI)
_INF = _F(np.inf)
_NAN = _F(np.nan)


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
    return _F(1) if x > _F(0) else (_F(-1) if x < _F(0) else x)


@_inline
def sqrt(x):
    """Return the square root."""
    return _F(math.sqrt(x))


@_ordered
def _exp_rest(x, n):
    """Return e^x / 2^n, for n the nearest integer to x / ln 2."""
    r = x - n * _LN2_HI
    r = r - n * _LN2_LO
    p = _F(1.9875691500e-4)
    p = p * r + _F(1.3981999507e-3)
    p = p * r + _F(8.3334519073e-3)
    p = p * r + _F(4.1665795894e-2)
    p = p * r + _F(1.6666665459e-1)
    p = p * r + _F(5.0000001201e-1)
    return p * r * r + r + _F(1)


@_ordered
def exp(x):
    """Return e^x; below -87.3 it is 0, never denormal.

    It is 2^n times a polynomial on [-ln2/2, ln2/2].
    """
    y = _F(88.72283) if x > _F(88.72283) else (x if x > _F(-87.3) else _F(-87.3))
    n = np.floor(y * _LOG2E + _F(0.5))
    p = _exp_rest(y, n)
    # n reaches 128 just below overflow: scale in two steps
    half = np.int32(n) >> np.int32(1)
    rest = np.int32(n) - half
    s1 = np.int32((half + np.int32(127)) << np.int32(23)).view(np.float32)
    s2 = np.int32((rest + np.int32(127)) << np.int32(23)).view(np.float32)
    p = p * s1 * s2
    p = _F(0) if x < _F(-87.3) else p
    p = _INF if x > _F(88.72283) else p
    return x if x != x else p


@_ordered
def log(x):
    """Return ln x; 0 gives -inf, x < 0 NaN.

    Denormal arguments count as the smallest normal number.
    """
    y = x if x > _F(1.17549435e-38) else _F(1.17549435e-38)
    bits = _F(y).view(np.int32)
    e = _F((bits >> np.int32(23)) - np.int32(126))
    f = np.int32((bits & np.int32(0x007FFFFF)) | np.int32(0x3F000000)).view(np.float32)
    low = f < _F(0.70710678)
    e = e - _F(1) if low else e
    f = f + f - _F(1) if low else f - _F(1)
    z = f * f
    p = _F(7.0376836292e-2)
    p = p * f + _F(-1.1514610310e-1)
    p = p * f + _F(1.1676998740e-1)
    p = p * f + _F(-1.2420140846e-1)
    p = p * f + _F(1.4249322787e-1)
    p = p * f + _F(-1.6668057665e-1)
    p = p * f + _F(2.0000714765e-1)
    p = p * f + _F(-2.4999993993e-1)
    p = p * f + _F(3.3333331174e-1)
    p = p * f * z
    p = p + e * _LN2_LO
    p = p - _F(0.5) * z
    p = f + p + e * _LN2_HI
    p = x if x == _INF else p
    p = -_INF if x == _F(0) else p
    p = _NAN if x < _F(0) else p
    return x if x != x else p


@_inline
def _reciprocals(x):
    """Return 1/x + 1/(x+1) + 1/(x+2) + 1/(x+3), with two divisions.

    x must be below 1e18, or its square overflows.
    """
    t = x * (x + _F(3))
    b = x + x + _F(3)
    return b / t + b / (t + _F(2))


@_inline
def digamma(x):
    """Return psi(x) for x > 0; 0 gives -inf, x < 0 NaN."""
    y = x + _F(3.5)  # psi(y + 1/2) = ln y + 1/(24 y^2) - 7/(960 y^4) + 31/(8064 y^6) - ...
    w = _F(1) / (y * y)
    s = w * (_F(1 / 24) - w * (_F(7 / 960) - w * _F(31 / 8064)))
    p = log(y) + s - _reciprocals(x if x < _F(1e9) else _F(1e9))
    p = -_INF if x == _F(0) else p
    p = x if x == _INF else p
    return _NAN if x < _F(0) else p


@_inline
def exppsi(x):
    """Return max(exp(psi(x)), 1e-20) for x >= 0, without a logarithm."""
    # exp(psi(y + 1/2)) = y + 1/(24 y) - 37/(5760 y^3) + 10313/(2903040 y^5) - ...
    y = x + _F(3.5)
    v = _F(1) / y
    w = v * v
    s = y + v * (_F(1 / 24) - w * (_F(37 / 5760) - w * _F(10313 / 2903040)))
    r = x if x > _F(0.02) else _F(0.02)  # below, the result is less than that anyway
    r = r if r < _F(1e9) else _F(1e9)
    # e^-r for r in [0, 53]: never overflows, never denormal
    q = _exp_in_range(-_reciprocals(r))
    p = s * q
    p = p if p > _LEAST_EXPPSI else _LEAST_EXPPSI
    p = _LEAST_EXPPSI if x < _F(0.02) else p
    p = _NAN if x < _F(0) else p
    p = x if x == _INF else p
    return x if x != x else p


@_ordered
def _exp_in_range(x):
    """Return e^x for x in [-87, 0]."""
    n = np.floor(x * _LOG2E + _F(0.5))
    p = _exp_rest(x, n)
    return p * np.int32((np.int32(n) + np.int32(127)) << np.int32(23)).view(np.float32)


@_inline
def lgamma(x):
    """Return ln gamma(x) for x > 0; 0 gives inf, x < 0 NaN.

    Near the zeros at 1 and 2 the absolute error is 2e-6.
    """
    # below 8: Stirling at y = x + 4, less ln of x (x+1) (x+2) (x+3) = t (t + 2)
    small = x < _F(8)
    y = x + _F(4) if small else x
    v = _F(1) / y
    w = v * v
    s = v * (_F(1 / 12) - w * (_F(1 / 360) - w * _F(1 / 1260)))
    p = (y - _F(0.5)) * log(y) - y + _F(0.91893853320467274) + s
    t = x * (x + _F(3)) if small else _F(1)
    p = p - (log(t) + log(t + _F(2))) if small else p
    p = _INF if x == _F(0) else p
    p = x if x == _INF else p
    return _NAN if x < _F(0) else p


@_inline
def sigmoid(x):
    """Return 1 / (1 + e^-x)."""
    e = exp(-abs(x))
    p = _F(1) / (_F(1) + e)
    return p if x >= _F(0) else e * p


@_inline
def tanh(x):
    """Return (e^x - e^-x) / (e^x + e^-x)."""
    a = abs(x)
    z = x * x
    p = _F(-5.70498872745e-3)  # below 0.625, where 1 - tanh would lose digits
    p = p * z + _F(2.06390887954e-2)
    p = p * z + _F(-5.37397155531e-2)
    p = p * z + _F(1.33314422036e-1)
    p = p * z + _F(-3.33332819422e-1)
    small = p * z * x + x
    large = _F(1) - _F(2) / (exp(a + a) + _F(1))
    large = large if x > _F(0) else -large
    p = small if a < _F(0.625) else large
    return x if x != x else p


@_inline
def cos(x):
    """Return the cosine, in float64: a polynomial is right for small x only."""
    return _F(math.cos(np.float64(x)))


@_inline
def sin(x):
    """Return the sine, in float64 as `cos`."""
    return _F(math.sin(np.float64(x)))


@_inline
def floor(x):
    """Return the largest whole number that is not larger."""
    return np.floor(x)


@_inline
def softplus(x):
    """Return ln(1 + e^x) = max(x, 0) + ln(1 + e^-|x|)."""
    e = exp(-abs(x))
    # ln(1 + e) = 2 artanh(s), s = e / (2 + e) <= 1/3: 1 + e would lose digits of e
    s = e / (_F(2) + e)
    z = s * s
    p = _F(1 / 9) + z * (_F(1 / 11) + z * _F(1 / 13))
    p = _F(1) + z * (_F(1 / 3) + z * (_F(1 / 5) + z * (_F(1 / 7) + z * p)))
    p = (s + s) * p
    return p + (x if x > _F(0) else _F(0)) if x == x else x


@_inline
def uniform(bits):
    """Return a float32 in (0, 1) from 32 random bits: (bits / 2^9 + 1/2) / 2^23."""
    return (_F(np.uint32(bits) >> np.uint32(9)) + _F(0.5)) * _F(2.0**-23)
