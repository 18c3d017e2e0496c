"""The parts of pages: the document, sections, figures, tiles, tables.

A page may run one script, `script.js`: its policy (Content Security Policy) has the digest of that
text. It may load nothing.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files
from typing import Any

from ..drawing.markup import Markup, join, tag

SHOWN = 24  # cards shown; the others are folded


def page(title: str, *parts: str) -> str:
    """Return a whole document that refers to no other file."""
    style, script = text_of("style.css"), text_of("script.js")
    head = tag(
        "head",
        Markup('<meta charset="utf-8">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{policy(script)}">'),
        tag("title", title),
        tag("style", style),
    )
    body = tag("body", tag("main", *parts), tag("script", script))
    return "<!doctype html>\n" + tag("html", head, body, lang="en")


def text_of(file: str) -> Markup:
    """Return the text of a file of this folder."""
    return Markup(files(__package__).joinpath(file).read_text(encoding="utf-8"))


def policy(script: str) -> str:
    """Return the policy of a page that runs `script` and no other."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"


def data_for_script(name: str, data: Any) -> Markup:
    """Return an element with JSON, which the script reads by its name and does not run.

    A string in `data` cannot end the element, because `<` is written as an escape.
    """
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    return tag("script", Markup(text), type="application/json", id=name)


def section(title: str, *parts: str, note: str = "") -> Markup:
    """Return a heading, a note and the section's parts."""
    words = [tag("p", note, class_="note")] if note else []
    return tag("section", tag("h2", title), *words, *parts)


def figures(parts: Iterable[str]) -> Markup:
    """Return figures side by side, as many as fit."""
    return tag("div", *parts, class_="figures")


def figure(title: str, value: str, *parts: str, class_: str | None = None) -> Markup:
    """Return a figure captioned with a title and its most important number."""
    caption = tag("figcaption", tag("span", title), tag("b", value))
    return tag("figure", caption, *parts, class_=class_)


def tiles(entries: Iterable[tuple[str, str]]) -> Markup:
    """Return (name, number) entries in large type."""
    return tag(
        "div",
        *(join(tag("div", tag("span", what), tag("b", number))) for what, number in entries),
        class_="tiles",
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Markup:
    """Return a table: the first column aligned left, numbers right.

    head: may be empty.
    """
    return tag(
        "div",
        tag(
            "table",
            *([tag("thead", tag("tr", *(tag("th", cell) for cell in head)))] if head else []),
            tag("tbody", *(tag("tr", *(tag("td", cell) for cell in row)) for row in rows)),
        ),
        class_="scroll",
    )


def folded(cards: Sequence[Markup], what: str) -> Iterator[Markup]:
    """Yield the first cards, then the others behind a line that opens them."""
    yield tag("div", *cards[:SHOWN], class_="topics")
    if rest := cards[SHOWN:]:
        head = tag("summary", f"{len(rest):,} more {what}")
        yield tag("details", head, tag("div", *rest, class_="topics"))
