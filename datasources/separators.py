"""A hint for tables that were read with the wrong separator, or in the wrong encoding."""

from collections.abc import Sequence

OTHERS = (";", "\t", "|", ",")


def separator_hint(names: Sequence[str]) -> str:
    """Return a sentence that names the separator of a header that was not split, or UTF-16.

    Returns "" if the header was split, or contains no other separator.

    >>> separator_hint(["user;item;rating"])
    "Its first line is not split: say what is between its fields: separator: ';'."
    >>> separator_hint(["a", "b;c"])
    ''
    """
    if any("\0" in name for name in names):
        return "It is UTF-16: must be UTF-8. Convert it with iconv -f utf-16 -t utf-8."
    found = [other for other in OTHERS if len(names) == 1 and other in names[0]]
    if not found:
        return ""
    return f"Its first line is not split: say what is between its fields: separator: {found[0]!r}."
