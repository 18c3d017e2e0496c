"""Hints for text files that were read with the wrong separator, or in the wrong encoding."""

from collections.abc import Sequence

OTHERS = (";", "\t", "|", ",")
MARKS = {  # first bytes; the longer ones first, since one begins like a shorter one
    b"\xff\xfe\0\0": "UTF-32",
    b"\0\0\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}


def separator_hint(names: Sequence[str]) -> str:
    """Return a sentence that names the separator of a header that was not split, or its encoding.

    Returns "" if the header was split, or contains no other separator.

    >>> separator_hint(["user;item;rating"])
    "Its first line is not split: say what is between its fields: separator: ';'."
    >>> separator_hint(["a", "b;c"])
    ''
    """
    if any("\0" in name for name in names):
        return encoded("UTF-32" if any("\0\0" in name for name in names) else "UTF-16")
    found = [other for other in OTHERS if len(names) == 1 and other in names[0]]
    if not found:
        return ""
    return f"Its first line is not split: say what is between its fields: separator: {found[0]!r}."


def encoding_hint(head: bytes) -> str:
    """Return a sentence on the encoding of a file that begins with `head`, "" for UTF-8.

    >>> encoding_hint("a".encode("utf-16"))
    'the file is UTF-16: must be UTF-8. Convert it with iconv -f utf-16 -t utf-8.'
    >>> encoding_hint(b"a")
    ''
    """
    return next((encoded(name) for mark, name in MARKS.items() if head.startswith(mark)), "")


def encoded(name: str) -> str:
    """Return the sentence on an encoding of this name."""
    return f"the file is {name}: must be UTF-8. Convert it with iconv -f {name.lower()} -t utf-8."
