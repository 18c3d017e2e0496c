"""Describe an object in a notebook: a title, facts, and perhaps a picture. Imports nothing."""

from collections.abc import Mapping
from html import escape

STYLE = (
    "<style>.blocklearn{font:13px/1.5 system-ui,sans-serif;max-width:46em}"
    ".blocklearn td{padding:1px 12px 1px 0;text-align:left;vertical-align:top}"
    ".blocklearn td:first-child{opacity:.65;white-space:nowrap}"
    ".blocklearn svg{max-width:360px;display:block}"
    ".blocklearn svg text{fill:currentColor;opacity:.65;font-size:11px}"
    ".blocklearn svg .end{text-anchor:end}.blocklearn svg .middle{text-anchor:middle}"
    ".blocklearn .grid,.blocklearn .axis{stroke:currentColor;opacity:.2}"
    ".blocklearn .curve{fill:none;stroke:#2f6fdb;stroke-width:2}.blocklearn .dot{fill:#2f6fdb}"
    ".blocklearn .c2{stroke:#e0762f}.blocklearn .told{fill:transparent}</style>"
)
"""Colours are those of the notebook, so that cards suit light and dark themes."""


def card(title: str, facts: Mapping[str, object], picture: str = "") -> str:
    """Return HTML of an object; title and facts are text, and escaped.

    picture: HTML to put below.

    >>> "a &lt; b" in card("Rows", {"test": "a < b"})
    True
    """
    rows = (
        f"<tr><td>{escape(str(name))}</td><td>{escape(str(value))}</td></tr>"
        for name, value in facts.items()
    )
    head = f"<b>{escape(title)}</b>"
    return f'{STYLE}<div class="blocklearn">{head}<table>{"".join(rows)}</table>{picture}</div>'
