"""Read the names of rows from a column, when they are first needed."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, overload


class ColumnNames(Sequence[str]):
    """A sequence of `count` names, read by `load` (an Arrow array) on first use."""

    def __init__(self, count: int, load: Callable[[], Any]) -> None:
        self._count, self._load = count, load

    def __len__(self) -> int:
        """Return the number of names."""
        return self._count

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        """Return a name, or a list of names for a slice."""
        places = range(self._count)[index]
        if isinstance(places, int):
            return str(self._names[places].as_py())
        return [str(self._names[i].as_py()) for i in places]

    @cached_property
    def _names(self) -> Any:
        return self._load()
