"""CPU kernels that draw random numbers of many distributions; see `operations/draws.py`.

All have the signature `kernel(chunk, thread, bounds, key, stream, a, b, out)`. Bounds are of
elements, those of `multinomial` of rows. A parameter has the sides of the result, or 1.
"""

# Numba infers the types.
# mypy: allow-untyped-defs

import math
from typing import Any

import numpy as np

from ..compiling.jit import helper, kernel
from ..inline.random import random_words

ATTEMPTS = 256
_helper = helper("contract", "nsz")
_kernel = kernel("contract", "nsz")
_TAU = 2.0 * math.pi


@_helper
def _unit(word):
    """Return a number in (0, 1) from 32 random bits."""
    return (np.float64(word) + 0.5) * 2.0**-32


@_helper
def _fine_unit(first, second):
    """Return a number in (0, 1) from 64 random bits, of which 53 count."""
    high, low = np.float64(first >> np.uint32(5)), np.float64(second >> np.uint32(6))
    return (high * 67108864.0 + low + 0.5) * 2.0**-53


@_helper
def _log_gamma(key, row, column, stream, a):
    if not a > 0.0:
        return np.nan
    larger = a if a >= 1.0 else a + 1.0
    d = larger - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    for attempt in range(ATTEMPTS):
        w0, w1, w2, w3 = random_words(key, row, column, stream + attempt)
        x = math.sqrt(-2.0 * math.log(_unit(w0))) * math.cos(_TAU * _unit(w1))
        v = 1.0 + c * x
        v = v * v * v
        if v > 0.0 and math.log(_unit(w2)) < 0.5 * x * x + d - d * v + d * math.log(v):
            found = math.log(d * v)
            return found if a >= 1.0 else found + math.log(_unit(w3)) / a
    return math.log(larger)


@_helper
def _poisson(key, row, column, stream, rate):
    if not 0.0 <= rate < np.inf:
        return np.nan
    if rate < 10.0:
        w0, w1, _, _ = random_words(key, row, column, stream)
        u, k, p = _fine_unit(w0, w1), 0.0, math.exp(-rate)
        total = p
        while u > total and k < 1000.0:
            k += 1.0
            p *= rate / k
            total += p
        return k
    root = math.sqrt(rate)
    b = 0.931 + 2.53 * root
    a = -0.059 + 0.02483 * b
    inverse = 1.1239 + 1.1328 / (b - 3.4)
    least = 0.9277 - 3.6224 / (b - 2.0)
    for attempt in range(ATTEMPTS):
        w0, w1, w2, w3 = random_words(key, row, column, stream + attempt)
        u, v = _fine_unit(w0, w1) - 0.5, _fine_unit(w2, w3)
        us = 0.5 - abs(u)
        k = math.floor((2.0 * a / us + b) * u + rate + 0.43)
        if us >= 0.07 and v <= least:
            return k
        if k >= 0.0 and (us >= 0.013 or v <= us):
            bound = -rate + k * math.log(rate) - math.lgamma(k + 1.0)
            if math.log(v * inverse / (a / (us * us) + b)) <= bound:
                return k
    return math.floor(rate)


@_helper
def _binomial(key, row, column, stream, n, chance):
    if not (n >= 0.0 and n == math.floor(n) and n < np.inf and 0.0 <= chance <= 1.0):
        return np.nan
    p = min(chance, 1.0 - chance)
    k = -1.0
    if n * p < 10.0:
        w0, w1, _, _ = random_words(key, row, column, stream)
        u, odds, q = _fine_unit(w0, w1), p / (1.0 - p), math.exp(n * math.log1p(-p))
        k, total = 0.0, q
        while u > total and k < n and k < 1000.0:
            k += 1.0
            q *= odds * (n - k + 1.0) / k
            total += q
        return n - k if chance > 0.5 else k
    spread = math.sqrt(n * p * (1.0 - p))
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * p
    middle = n * p + 0.5
    least = 0.92 - 4.2 / b
    alpha = (2.83 + 5.1 / b) * spread
    log_odds, mode = math.log(p / (1.0 - p)), math.floor((n + 1.0) * p)
    h = math.lgamma(mode + 1.0) + math.lgamma(n - mode + 1.0)
    for attempt in range(ATTEMPTS):
        w0, w1, w2, w3 = random_words(key, row, column, stream + attempt)
        u, v = _fine_unit(w0, w1) - 0.5, _fine_unit(w2, w3)
        us = 0.5 - abs(u)
        k = math.floor((2.0 * a / us + b) * u + middle)
        if us >= 0.07 and v <= least:
            break
        if 0.0 <= k <= n:
            bound = h - math.lgamma(k + 1.0) - math.lgamma(n - k + 1.0) + (k - mode) * log_odds
            if math.log(v * alpha / (a / (us * us) + b)) <= bound:
                break
        k = mode
    return n - k if chance > 0.5 else k


@_kernel
def log_gamma(chunk, thread, bounds, key, stream, a, b, out):
    """Draw logarithms of gamma numbers. a: shape parameters."""
    m, tall, wide = out.shape[1], a.shape[0] > 1, a.shape[1] > 1
    for e in range(bounds[chunk], bounds[chunk + 1]):
        i, j = e // m, e % m
        out[i, j] = _log_gamma(key, i, j, stream, a[i if tall else 0, j if wide else 0])


@_kernel
def poisson(chunk, thread, bounds, key, stream, a, b, out):
    """Draw Poisson numbers. a: rates."""
    m, tall, wide = out.shape[1], a.shape[0] > 1, a.shape[1] > 1
    for e in range(bounds[chunk], bounds[chunk + 1]):
        i, j = e // m, e % m
        out[i, j] = _poisson(key, i, j, stream, a[i if tall else 0, j if wide else 0])


@_kernel
def binomial(chunk, thread, bounds, key, stream, a, b, out):
    """Draw binomial numbers. a, b: trials and chances."""
    m, tall, wide = out.shape[1], a.shape[0] > 1, a.shape[1] > 1
    high, broad = b.shape[0] > 1, b.shape[1] > 1
    for e in range(bounds[chunk], bounds[chunk + 1]):
        i, j = e // m, e % m
        n, p = a[i if tall else 0, j if wide else 0], b[i if high else 0, j if broad else 0]
        out[i, j] = _binomial(key, i, j, stream, n, p)


@_kernel
def multinomial(chunk, thread, bounds, key, stream, a, b, out):
    """Draw rows of counts. a: their sums. b: weights of columns."""
    m, tall = out.shape[1], a.shape[0] > 1
    high, broad = b.shape[0] > 1, b.shape[1] > 1
    for i in range(bounds[chunk], bounds[chunk + 1]):
        left, rest = a[i if tall else 0, 0], 0.0
        for j in range(m):
            weight = b[i if high else 0, j if broad else 0]
            rest += weight if weight >= 0.0 else np.nan
        if not 0.0 < rest < np.inf:
            left = np.nan
        for j in range(m):
            weight = b[i if high else 0, j if broad else 0]
            share = 1.0 if j == m - 1 else (min(1.0, weight / rest) if rest > 0.0 else 0.0)
            out[i, j] = x = _binomial(key, i, j, stream, left, share)
            left -= x
            rest -= weight


@_kernel
def integers(chunk, thread, bounds, key, stream, a, b, out):
    """Draw whole numbers below a[0, 0]."""
    m, end = out.shape[1], np.uint64(a[0, 0])
    for e in range(bounds[chunk], bounds[chunk + 1]):
        w0, _, _, _ = random_words(key, e // m, e % m, stream)
        out[e // m, e % m] = np.int64((np.uint64(w0) * end) >> np.uint64(32))


@_kernel
def choice(chunk, thread, bounds, key, stream, a, b, out):
    """Draw positions. a: chance of staying. b: the other position."""
    m, end = out.shape[1], np.uint64(a.shape[1])
    for e in range(bounds[chunk], bounds[chunk + 1]):
        w0, w1, _, _ = random_words(key, e // m, e % m, stream)
        place = np.int64((np.uint64(w0) * end) >> np.uint64(32))
        out[e // m, e % m] = place if _unit(w1) < a[0, place] else b[0, place]


@_kernel
def beside(chunk, thread, bounds, key, stream, a, b, indptr, starts, columns, values, counts):
    """Draw a column for each entry. a, b: as of `choice`. counts: see `filled_pattern`."""
    end = np.uint64(a.shape[1])
    for i in range(bounds[chunk], bounds[chunk + 1]):
        if i == 0:
            starts[0], counts[0] = indptr[0], indptr[indptr.size - 1]
        starts[i + 1] = indptr[i + 1]
        for e in range(indptr[i], indptr[i + 1]):
            w0, w1, _, _ = random_words(key, i, e - indptr[i], stream)
            place = np.int64((np.uint64(w0) * end) >> np.uint64(32))
            place = place if _unit(w1) < a[0, place] else b[0, place]
            columns[e], values[e] = max(place, 0), 1.0 if place >= 0 else np.nan


@_kernel
def alias_table(weights, chance, other, rest, stack):
    """Make a table for `choice`, by Vose's algorithm.

    weights: [m]; the others are [1 x m].
    rest, stack: scratch.

    Positions with less than an even share are at the front of the stack, the others at its end.
    """
    m, total = weights.size, 0.0
    for i in range(m):
        total += weights[i] if weights[i] >= 0.0 else np.nan
    if not 0.0 < total < np.inf:
        for i in range(m):
            chance[0, i], other[0, i] = 0.0, -1
        return
    few, many = 0, m
    for i in range(m):
        rest[0, i] = weights[i] / total * m
        if rest[0, i] < 1.0:
            stack[0, few] = i
            few += 1
        else:
            many -= 1
            stack[0, many] = i
    while few > 0 and many < m:
        few -= 1
        one, giver = stack[0, few], stack[0, many]
        chance[0, one], other[0, one] = rest[0, one], giver
        rest[0, giver] = (rest[0, giver] + rest[0, one]) - 1.0
        if rest[0, giver] < 1.0:
            many += 1
            stack[0, few] = giver
            few += 1
    for n in range(m):
        if n < few or n >= many:
            chance[0, stack[0, n]], other[0, stack[0, n]] = 1.0, stack[0, n]


DRAWS: dict[str, Any] = {
    "binomial": binomial,
    "choice": choice,
    "integers": integers,
    "log_gamma": log_gamma,
    "multinomial": multinomial,
    "poisson": poisson,
}
