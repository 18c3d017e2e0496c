"""Text of docstrings and tables as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

EXAMPLE = re.compile(r"(^>>> .*(?:\n(?!\s*$).*)*)", re.M)


def escaped(text: str) -> str:
    """Plain words as Markdown: what stands between backticks, or indented, stays as it is; the rest
    has no mark-up.

    >>> escaped("2**k columns [rows x k], `a*b`")
    '2\\\\*\\\\*k columns \\\\[rows x k\\\\], `a*b`'
    """
    parts = re.split(r"(`[^`]*`|^    .*$)", text, flags=re.M)
    parts[::2] = [re.sub(r"([\\*_\[\]#])", r"\\\1", escape(part, False)) for part in parts[::2]]
    return "".join(parts)


def as_markdown(text: str) -> str:
    """A docstring as text without mark-up, but for code.

    >>> as_markdown("E[x] of [rows].\\n\\n>>> 2 * 3\\n6")
    'E\\\\[x\\\\] of \\\\[rows\\\\].\\n\\n```pycon\\n>>> 2 * 3\\n6\\n```'
    """
    parts = EXAMPLE.split(text)
    parts[::2] = map(escaped, parts[::2])
    parts[1::2] = (f"```pycon\n{part}\n```" for part in parts[1::2])
    return "".join(parts)


def cell(text: str) -> str:
    """Markdown as a cell of a table: one line, and no bar that is not its own.

    >>> cell("`a | b`")
    '`a \\\\| b`'
    """
    return re.sub(r"(?<!\\)\|", r"\\|", " ".join(text.split()))


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; cells are Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(cell, line))} |" for line in lines) + "\n"


def code(text: object) -> str:
    """As code within a sentence."""
    return f"`{text}`"
