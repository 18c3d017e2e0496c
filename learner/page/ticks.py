"""Round numbers for axes, and how they are written."""

from __future__ import annotations

import math

UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def linear_ticks(low: float, high: float, most: int = 5) -> list[float]:
    """At most `most` and one multiples of 1, 2 or 5 times a power of ten, from `low` to `high`.

    >>> linear_ticks(0, 9.3), linear_ticks(0.11, 0.19)
    ([0.0, 2.0, 4.0, 6.0, 8.0], [0.12, 0.14, 0.16, 0.18])
    """
    rough = (high - low) / most
    if rough <= 0 or not math.isfinite(rough):
        return [low]
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [
        round(index * step, 12 - math.floor(math.log10(step))) for index in range(first, last + 1)
    ]


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten from `low` to `high`, some of them if they are many; fewer than two: others.

    >>> log_ticks(0.5, 2000), log_ticks(20, 90)
    ([1.0, 10.0, 100.0, 1000.0], [20.0, 40.0, 60.0, 80.0])
    """
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    powers = range(first, last + 1)
    if len(powers) < 2:
        return [tick for tick in linear_ticks(low, high) if tick > 0]
    return [10.0**power for power in powers[:: -(-len(powers) // 6)]]


def label(value: float, among: list[float]) -> str:
    """A tick, with as many digits as the ticks `among` which it stands need.

    >>> [label(v, [0, 50_000, 100_000]) for v in (0, 50_000)], label(0.5, [0.5, 1.0])
    (['0', '50k'], '0.5')
    """
    if value == 0:
        return "0"
    largest = max(map(abs, among))
    for scale, unit in UNITS:
        if largest >= 10 * scale:
            return f"{value / scale:.4g}{unit}"
    return f"{value:.4g}" if abs(value) >= 1e-4 else f"{value:.0e}".replace("e-0", "e-")
