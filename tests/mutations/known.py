"""Faults that are known and not repaired yet. A line goes when its fault does."""

import re
from collections.abc import Callable

TWENTY_DIGITS = re.compile(rb"(\d\.?){20}")
MANY_DIGITS = re.compile(rb"\d{4000}")

KNOWN: dict[str, Callable[[str, str, bytes], bool]] = {
    "numbers of 20 digits that are read as others": lambda kind, detail, data: (
        kind == "wrong" and TWENTY_DIGITS.search(data) is not None
    ),
    "integers of 4,300 digits in YAML": lambda kind, detail, data: (
        kind == "internal" and MANY_DIGITS.search(data) is not None
    ),
    "a quote that is not closed when a table ends": lambda kind, detail, data: (
        kind == "undue" and "unexpected end of data" in detail
    ),
    "fields of model.json and checkpoint.json that are of no type or not there": (
        lambda kind, detail, data: (
            kind in ("internal", "wrong", "message")
            and data.lstrip().startswith(b"{")
            and b'"digest"' in data
        )
    ),
}
"""By name: whether it is the fault, given the verdict, its detail, and the damaged file."""


def known(verdict: str, detail: str, data: bytes) -> str | None:
    """The name of a known fault."""
    return next((name for name, fits in KNOWN.items() if fits(verdict, detail, data)), None)
