"""Lines of source text with indentation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Writer:
    """Collects lines; `block()` indents what is written inside it."""

    def __init__(self) -> None:
        """Empty."""
        self._lines: list[str] = []
        self._depth = 0

    def raw(self, text: str) -> None:
        """Text that is already laid out."""
        self._lines.append(text.rstrip("\n"))

    def line(self, text: str) -> None:
        """One line at the present depth."""
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, opening: str = "", closing: str = "") -> Iterator[None]:
        """Indent; with `opening` and `closing` for languages that have braces."""
        if opening:
            self.line(opening)
        self._depth += 1
        yield
        self._depth -= 1
        if closing:
            self.line(closing)

    def text(self) -> str:
        """All of it."""
        return "\n".join(self._lines) + "\n"
