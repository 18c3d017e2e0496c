"""Base of everything that `with` closes. Below all folders: it imports none of them."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Closing(ABC):
    """Closed at the end of a `with` block, whatever happened in it."""

    @abstractmethod
    def close(self) -> None:
        """Release what this holds. Twice is fine."""

    def __enter__(self) -> Self:
        """The object itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        self.close()
