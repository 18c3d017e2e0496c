"""Print text without control characters, and messages without secrets.

Vocabularies, ids and file names are foreign input. A terminal obeys the control characters in them:
it sets titles, moves the cursor, answers with keystrokes. All output of `learn` passes through
here.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable
from typing import TextIO

ORDERS = {chr(code) for code in (*range(0x20), *range(0x7F, 0xA0))}
"""The control characters C0 and C1 of Unicode, which terminals obey."""

TURNS = {chr(code) for code in (0x61C, *range(0x200E, 0x2010), *range(0x202A, 0x202F),
                                *range(0x2066, 0x206A))}  # fmt: skip
"""Marks that change the direction of the text after them, and so can disguise a line."""

BREAKS = {"\u2028", "\u2029"}
"""Ends of lines that are not `\\n`."""

LONE = range(0xD800, 0xE000)
"""Halves of characters, as undecodable file names have: no stream can write them."""

ESCAPES = {ord(c): f"\\u{ord(c):04x}" for c in ORDERS | TURNS | BREAKS}
ESCAPES |= {code: f"\\u{code:04x}" for code in LONE}
KEPT = {ord("\n"), ord("\t")}
ESCAPES_OF_TEXT = {code: text for code, text in ESCAPES.items() if code not in KEPT}


def printable(line: str) -> str:
    r"""Escape control characters and line breaks of `line` as JSON does: `\u001b`.

    >>> print(printable("\x1b[2Jword\nnext"))
    \u001b[2Jword\u000anext
    """
    return line if line.isprintable() else line.translate(ESCAPES)


def printable_text(text: str) -> str:
    r"""Escape control characters of several lines; line breaks and tabs stay.

    >>> print(printable_text("a\n\x07b"))
    a
    \u0007b
    """
    return text.translate(ESCAPES_OF_TEXT)


def message_text(text: str) -> str:
    """Return a message for people: printable, without secrets."""
    from blocklearn.datasources.secrets import hidden

    return printable_text(hidden(text))


def show_lines(lines: Iterable[str], *, flush: bool = False) -> None:
    """Print results of one line each."""
    for line in lines:
        print(printable(line), flush=flush)


def show_text(text: str) -> None:
    """Print a result of several lines, such as JSON."""
    print(printable_text(text))


def say(text: str, file: TextIO | None = None) -> None:
    """Print a message; file: None: standard error."""
    print(message_text(text), file=sys.stderr if file is None else file, flush=True)


class MessageFormatter(logging.Formatter):
    """Formats log records as messages."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the message of a record, with its traceback if it has one."""
        return message_text(super().format(record))
