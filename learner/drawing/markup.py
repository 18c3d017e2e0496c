"""HTML and SVG elements as text. All text but `Markup` is escaped, so names break no page.

Control characters, marks that turn the direction of text, and halves of characters are shown as
`\\u202e`, as in a terminal.
"""

from __future__ import annotations

from html import escape

from ..terminal import printable_text

VOID = {"input"}  # elements that have no end


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def tag(name: str, *children: str, **attributes: object) -> Markup:
    """Return the element `name`.

    attributes: a trailing _ is dropped, other _ become -; None is left out.

    >>> tag("p", "a < b", tag("b", "!"), class_="x", data_y=1)
    '<p class="x" data-y="1">a &lt; b<b>!</b></p>'
    """
    given = {k.rstrip("_").replace("_", "-"): v for k, v in attributes.items() if v is not None}
    inside = "".join(
        f' {key}="{_escaped(_text(value), quote=True)}"' for key, value in given.items()
    )
    end = "" if name in VOID else f"{join(*children)}</{name}>"
    return Markup(f"<{name}{inside}>{end}")


def join(*parts: str) -> Markup:
    """Concatenate parts, escaping all but `Markup`."""
    return Markup("".join(p if isinstance(p, Markup) else _escaped(p, quote=False) for p in parts))


def _escaped(text: str, *, quote: bool) -> str:
    return escape(printable_text(text), quote=quote)


def _text(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
