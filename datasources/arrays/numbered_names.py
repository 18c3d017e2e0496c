"""The base of sequences of names that are made or read on demand."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import overload


class NumberedNames(Sequence[str]):
    """Names by their numbers. A slice is a list of names."""

    @abstractmethod
    def _name(self, number: int) -> str:
        """Return the name with this number, from 0."""

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        """Return a name, or a list of names."""
        numbers = range(len(self))[index]
        return self._name(numbers) if isinstance(numbers, int) else list(map(self._name, numbers))
