"""Find columns of targets and features by number or name."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import TargetError

Column = int | str


class Names:
    """Finds columns by number or name."""

    def __init__(self, what: str, count: int, names: Sequence[str] | None) -> None:
        """Keep what messages call them ("target" or "feature") and their names, None if unknown."""
        self.what, self.count, self.names = what, count, names
        self._number: dict[str, int] | None = None

    def number(self, column: Column) -> int:
        """Return the number of a column. Raises TargetError if the data do not have it."""
        if isinstance(column, int):
            if 0 <= column < self.count:
                return column
            raise TargetError(
                f"GLM: {self.what} {column}: must be 0 or above, and below {self.count:,}, the "
                f"number of {self.what}s."
            )
        if self.names is None:
            raise TargetError(
                f"GLM: {self.what} {column!r}, but the data have no names of {self.what}s; use "
                "its number."
            )
        if self._number is None:
            self._number = {name: i for i, name in enumerate(self.names)}
        if column not in self._number:
            some = ", ".join(self.names[: min(8, self.count)])
            raise TargetError(
                f"GLM: there is no {self.what} {column!r}. The data have {self.count:,}: {some}"
                f"{', ...' if self.count > 8 else ''}."
            )
        return self._number[column]

    def name(self, number: int) -> str:
        """Return the name of a column, or its number as text."""
        return str(number) if self.names is None else str(self.names[number])
