"""Read the names of rows from a column, when they are first needed."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

from ..arrays.numbered_names import NumberedNames


class ColumnNames(NumberedNames):
    """A sequence of `count` names, read by `load` (an Arrow array) on first use."""

    def __init__(self, count: int, load: Callable[[], Any]) -> None:
        self._count, self._load = count, load

    def __len__(self) -> int:
        """Return the number of names."""
        return self._count

    def _name(self, number: int) -> str:
        return str(self._names[number].as_py())

    @cached_property
    def _names(self) -> Any:
        return self._load()
