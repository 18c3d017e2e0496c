"""Turn the text of docstrings and tables into Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

EXAMPLE = re.compile(r"(^>>> .*(?:\n(?!\s*$).*)*)", re.M)


def escaped(text: str) -> str:
    """Return plain words as Markdown without mark-up.

    Text between backticks and indented lines stay unchanged.

    >>> escaped("2**k columns [rows x k], `a*b`")
    '2\\\\*\\\\*k columns \\\\[rows x k\\\\], `a*b`'
    """
    parts = re.split(r"(`[^`]*`|^    .*$)", text, flags=re.M)
    parts[::2] = [re.sub(r"([\\*_\[\]#])", r"\\\1", escape(part, False)) for part in parts[::2]]
    return "".join(parts)


def as_markdown(text: str) -> str:
    """Return a docstring as Markdown whose only mark-up is code.

    >>> as_markdown("E[x] of [rows].\\n\\n>>> 2 * 3\\n6")
    'E\\\\[x\\\\] of \\\\[rows\\\\].\\n\\n```pycon\\n>>> 2 * 3\\n6\\n```'
    """
    parts = EXAMPLE.split(text)
    parts[::2] = map(escaped, parts[::2])
    parts[1::2] = (f"```pycon\n{part}\n```" for part in parts[1::2])
    return "".join(parts)


def cell(text: str) -> str:
    """Return Markdown as a cell of a table: one line, with bars escaped.

    >>> cell("`a | b`")
    '`a \\\\| b`'
    """
    return re.sub(r"(?<!\\)\|", r"\\|", " ".join(text.split()))


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of Markdown cells."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(cell, line))} |" for line in lines) + "\n"


def code(text: object) -> str:
    """Return `text` as code within a sentence."""
    return f"`{text}`"
