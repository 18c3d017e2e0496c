"""Refuse sizes that a file announces but cannot mean."""

from __future__ import annotations

from ..errors import DataError

ALWAYS, SHARE = 2 * 10**7, 1000


def check_announced(path: object, what: str, count: int, entries: int) -> None:
    """Raise `DataError` if names for `count` rows or columns would fill memory for nothing.

    Up to 20 million are always taken, and more of them up to 1,000 for each entry: a damaged
    header easily announces thousands of millions.
    """
    if count > ALWAYS and count > SHARE * entries:
        raise DataError(
            f"{path}: announces {count:,} {what} for {entries:,} entries: must be at most "
            f"{ALWAYS:,}, or {SHARE:,} for each entry. Is its header damaged?"
        )
