"""Tables whose fields are split at something else than was thought."""

from collections.abc import Sequence

OTHERS = (";", "\t", "|", ",")


def separator_hint(names: Sequence[str]) -> str:
    """A sentence on what to set for a header that was not split; "" if it was, or has nothing to
    split it at.

    >>> separator_hint(["user;item;rating"])
    "Its first line is not split: say what is between its fields: separator: ';'."
    >>> separator_hint(["a", "b;c"])
    ''
    """
    found = [other for other in OTHERS if len(names) == 1 and other in names[0]]
    if not found:
        return ""
    return f"Its first line is not split: say what is between its fields: separator: {found[0]!r}."
