"""Text from files and options as a terminal may have it."""

import unicodedata

UNSAFE = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Unicode categories: control characters, formats (which turn text around), lone surrogates, and
line ends that are not a newline.
"""


def printable(text: str) -> str:
    r"""Returns `text` with what could command a terminal as escapes; newlines and tabs stay.

    >>> print(printable("a\x1b[31mb"))
    a\x1b[31mb
    """
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(
        letter.encode("unicode_escape").decode()
        if letter not in "\n\t" and unicodedata.category(letter) in UNSAFE
        else letter
        for letter in text
    )
