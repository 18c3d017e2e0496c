"""Faults that are known and not repaired yet. A line goes when its fault does."""

from collections.abc import Callable

KNOWN: dict[str, Callable[[str, str, bytes], bool]] = {
    "a quote that is not closed when a table ends": lambda kind, detail, data: (
        kind == "undue" and "unexpected end of data" in detail
    ),
    "text after a quoted field": lambda kind, detail, data: (
        kind == "undue" and "expected after" in detail
    ),
    "an array that is missing from a checkpoint whose digest was made anew": (
        # reading does not notice; resuming refuses it, unless it is an optimizer's
        lambda kind, detail, data: (
            kind == "wrong" and detail.startswith("tensors: ") and data.lstrip()[:1] == b"{"
        )
    ),
    "sums of a block dataset whose manifest's digest was made anew": lambda kind, detail, data: (
        kind == "wrong" and detail.startswith("sums: ") and data.lstrip()[:1] == b"{"
    ),
    "a byte order mark that is not at the start": lambda kind, detail, data: (
        kind == "undue" and b"\xef\xbb\xbf" in data[1:]
    ),
}
"""By name: whether it is the fault, given the verdict, its detail, and the damaged file."""


def known(verdict: str, detail: str, data: bytes) -> str | None:
    """The name of a known fault."""
    return next((name for name, fits in KNOWN.items() if fits(verdict, detail, data)), None)
