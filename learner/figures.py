"""Format numbers for people: scores, sizes in bytes, durations."""

import math
from collections.abc import Mapping


def overall(scores: Mapping[str, float]) -> dict[str, float]:
    """Return the scores that are not of a single target, `NAME/TARGET`.

    >>> overall({"auc": 0.8, "auc/cat": 0.7, "auc/dog": 0.9})
    {'auc': 0.8}
    """
    return {name: value for name, value in scores.items() if "/" not in name}


def number(value: float) -> str:
    """Format a score with four digits or more, and a NaN as a dash.

    >>> number(1290.123), number(-7.16312), number(0.00012345), number(math.nan)
    ('1,290.1', '-7.163', '0.0001234', '-')
    """
    if math.isnan(value):
        return "-"
    return f"{value:,.1f}" if abs(value) >= 1000 else f"{value:.4g}"


def size(count: int) -> str:
    """Format bytes with a unit.

    >>> size(512), size(2_500_000), size(3_000_000_000)
    ('512 B', '2.5 MB', '3.0 GB')
    """
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{count / scale:.1f} {unit}"
    return f"{count} B"


def counted(count: int, thing: str, several: str = "") -> str:
    """Return a number and what it counts. several: its plural; empty: `thing` with an s.

    >>> counted(1, "block"), counted(1200, "pass", "passes")
    ('1 block', '1,200 passes')
    """
    return f"{count:,} {thing if count == 1 else several or thing + 's'}"


def duration(seconds: float) -> str:
    """Format a time in at most two units.

    >>> [duration(s) for s in (0.01234, 59.96, 100, 9059, 200_000)]
    ['12.3 ms', '60 s', '2 min', '2 h 31 min', '2 days 7 h']
    """
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    if seconds < 100:
        return f"{seconds:.3g} s"
    minutes = round(seconds / 60)
    hours, days = minutes // 60, minutes // 1440
    if minutes < 100:
        return f"{minutes} min"
    return f"{hours} h {minutes % 60} min" if hours < 48 else f"{days} days {hours % 24} h"
