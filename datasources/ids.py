"""Names of many rows or columns, in one Arrow array."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from .arrays.arrow import number_array, text_array
from .arrays.numbered_names import NumberedNames

CHUNK = 1 << 16  # names converted to Python strings at a time


class Ids(NumberedNames):
    """A compact sequence of names that also finds the number of a name.

    A name takes a few bytes, where a list of str takes about sixty.

    >>> ids = Ids(["ann", "bob", "Zoë"])
    >>> ids[1], len(ids), ids.numbers(["Zoë", "eve"]).tolist()
    ('bob', 3, [2, -1])
    """

    def __init__(self, names: Any) -> None:
        """Copy `names`: a sequence of str, an Arrow array or other `Ids`."""
        import pyarrow as pa

        if isinstance(names, Ids):
            names = names.arrow
        elif not isinstance(names, pa.Array):
            starts = range(0, len(names), CHUNK)
            parts = [text_array(names[i : i + CHUNK]) for i in starts]
            names = pa.concat_arrays(parts) if parts else text_array([])
        self.arrow: Any = names.cast(pa.large_string())

    @classmethod
    def numbered(cls, n: int) -> Ids:
        """Return the names "0", "1", ... for `n` things that have only numbers."""
        return cls(number_array(np.arange(n)))

    @classmethod
    def of(cls, ends: npt.NDArray[np.int64], text: npt.NDArray[np.uint8]) -> Ids:
        """Return the names with these `ends` and this `text`, which are kept, not copied.

        >>> ids = Ids(["ann", "Zoë"])
        >>> Ids.of(ids.ends, ids.text)
        Ids('ann', 'Zoë'; 2)
        """
        import pyarrow as pa

        buffers = pa.py_buffer(ends), pa.py_buffer(text)
        return cls(pa.LargeStringArray.from_buffers(len(ends) - 1, *buffers))

    @property
    def ends(self) -> npt.NDArray[np.int64]:
        """Where the names begin in `text`, and where the last one ends: int64 [names + 1]."""
        places = self._places
        found: npt.NDArray[np.int64] = places - places[0]
        return found

    @property
    def text(self) -> npt.NDArray[np.uint8]:
        """The names in UTF-8, one after another: uint8 [bytes]."""
        places, whole = self._places, self.arrow.buffers()[2]
        return np.frombuffer(whole or b"", np.uint8)[places[0] : places[-1]]

    @property
    def _places(self) -> npt.NDArray[np.int64]:
        """Where names begin and end in the memory of the Arrow array."""
        if not len(self):
            return np.zeros(1, np.int64)  # it may have no memory
        first = self.arrow.offset
        found: npt.NDArray[np.int64] = np.frombuffer(self.arrow.buffers()[1], np.int64)
        return found[first : first + len(self) + 1]

    def numbers(self, names: Any) -> npt.NDArray[np.int64]:
        """Return the number of each of `names` (as for `Ids`), or -1 if it is unknown."""
        from pyarrow import compute

        places = compute.index_in(Ids(names).arrow, value_set=self.arrow)
        found: npt.NDArray[np.int64] = places.fill_null(-1).to_numpy(zero_copy_only=False)
        return found.astype(np.int64)

    def take(self, places: npt.NDArray[Any]) -> Ids:
        """Return the names with these numbers."""
        return Ids(self.arrow.take(number_array(places)))

    def __len__(self) -> int:
        """Return the number of names."""
        return len(self.arrow)

    def _name(self, number: int) -> str:
        return str(self.arrow[number].as_py())

    def __iter__(self) -> Iterator[str]:
        """Yield all names."""
        for start in range(0, len(self), CHUNK):
            yield from self.arrow.slice(start, CHUNK).to_pylist()

    def __eq__(self, other: object) -> bool:
        """Whether `other` is a sequence of the same names in the same order."""
        if isinstance(other, Ids):
            return bool(self.arrow.equals(other.arrow))
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Show the first three names and the count."""
        more = ", ..." if len(self) > 3 else ""
        return f"Ids({', '.join(map(repr, self[:3]))}{more}; {len(self):,})"


class Finder:
    """Finds the numbers of some names again and again: a search for each, 16 bytes a name.

    `Ids.numbers` reads all names at each call, which suits many names at once.

    >>> Finder(["ann", "bob", "Zoë"]).numbers(["Zoë", "eve"]).tolist()
    [2, -1]
    """

    def __init__(self, names: Sequence[str]) -> None:
        """Hash `names`; of equal ones the first counts."""
        self.names = names
        hashes = np.fromiter((_hash(name) for name in names), np.uint64, len(names))
        self._order = np.argsort(hashes, kind="stable")
        self._sorted = hashes[self._order]

    def number(self, name: str) -> int:
        """Return the number of `name`, -1 if it is unknown."""
        hashed = np.uint64(_hash(name))
        place = int(np.searchsorted(self._sorted, hashed))
        while place < len(self._order) and self._sorted[place] == hashed:
            number = int(self._order[place])
            if self.names[number] == name:
                return number
            place += 1  # another name with the same hash
        return -1

    def numbers(self, names: Sequence[str]) -> npt.NDArray[np.int64]:
        """Return the number of each of `names`, -1 for unknown ones."""
        return np.array([self.number(name) for name in names], np.int64)


def _hash(name: str) -> int:
    return xxhash.xxh3_64_intdigest(name.encode("utf-8", "surrogatepass"))
