"""Apply the elastic net as a movement in time, without bias in its fixed point.

dw/dt = -(g + l1 sign(w) + l2 w) with g held fixed. With h = t phi(l2 t), phi(x) = (1 - e^-x) / x,

    v = w e^(-l2 t) - h g,     w(t) = v - clip(v, -l1 h, l1 h).

For g = 0 this is the exact solution, so times add up: a row that nothing else moves can be brought
up to date when it is read. For any t, w stands still exactly where 0 is in g + l1 d|w| + l2 w: at
the optimum. (Exponential Euler method: Hochbruck, Ostermann, Acta Numerica 2010; soft threshold:
Daubechies, Defrise, De Mol 2004; lazy updates: Carpenter 2008.)
"""

from __future__ import annotations

from typing import Any

from blocklearn.matcache import clip, exp, maximum, where

NEAR = 0.5  # below, a short series is exact in float32


def saturation(x: Any) -> Any:
    """Return phi(x) = (1 - exp(-x)) / x for x >= 0, also near phi(0) = 1."""
    return _decay(x)[1]


def _decay(x: Any) -> tuple[Any, Any]:
    """Return 1 - exp(-x) and phi(x), from one exponential."""
    (below, series), lost = _small_decay(x), 1.0 - exp(-x)
    near = x < NEAR
    return where(near, below, lost), where(near, series, lost / maximum(x, NEAR))


def _small_decay(x: Any) -> tuple[Any, Any]:
    """Return the same for x below NEAR."""
    series = 1.0 - x * (1.0 / 8)
    for n in (7, 6, 5, 4, 3, 2):  # 1 - x/2 (1 - x/3 (1 - x/4 (...)))
        series = 1.0 - x * (1.0 / n) * series
    return x * series, series


def shrunk(w: Any, time: Any, l1: Any, l2: Any, gradient: Any = None, *, near: bool = False) -> Any:
    """Return w after `time` under the elastic net and a fixed gradient.

    l1, l2, gradient: None: the movement has no such part.
    near: whether l2 * time is known to be below NEAR, so that no exponential is needed.
    """
    reach = time
    if l2 is not None:
        lost, phi = (_small_decay if near else _decay)(l2 * time)
        reach = time * phi
        w = w - w * lost  # w e^(-l2 t), and w itself where l2 is 0
    if gradient is not None:
        w = w - reach * gradient
    if l1 is not None:
        w = w - clip(w, -(l1 * reach), l1 * reach)
    return w
