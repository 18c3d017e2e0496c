"""Turn a target of class numbers into a target of 0 and 1 for each class."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import DataError
from ..parsing.layout import FIRST, Place, RowFile, Rows
from ..parsing.scratch import Scratch

MOST_CLASSES = 1 << 20
EXACT = 1 << 24  # float32 cannot tell all larger integers apart


class OneHot:
    """The rows of a file with one target, which holds class numbers.

    The classes become targets of 0 and 1, in ascending order, named after their numbers. Unless
    `known` has the names of all classes, the file is read once more to find them.
    """

    def __init__(
        self, name: Any, file: RowFile, scratch: Scratch, known: Sequence[str] | None = None
    ) -> None:
        """Find the classes. name: of the file, in messages."""
        if file.layout.targets != 1:
            raise DataError(
                f"{name}: {file.layout.targets} targets: must be one, with a class of each row."
            )
        self._file, self._name = file, name
        if known is not None:
            self._classes = numbers_of(name, known)
        else:
            found = scratch.remember("classes.json", lambda: self._find(name))
            self._classes = np.array(found, np.float32)
        names = [spell(number) for number in self._classes.tolist()]
        self.layout = replace(file.layout, targets=len(names), target_names=names)

    def chunks(self, start: Place = FIRST) -> Iterator[Rows]:
        """Yield all rows from `start` on."""
        for rows in self._file.chunks(start):
            assert rows.targets is not None
            yield replace(rows, targets=indicators(self._name, rows.targets, self._classes))

    def _find(self, name: Any) -> list[float]:
        found = np.zeros(0, np.float32)
        for rows in self._file.chunks():
            assert rows.targets is not None
            found = np.union1d(found, rows.targets)
            check_classes(name, found.size, float(np.abs(found).max(initial=0.0)))
        return found.tolist()


def indicators(
    name: Any, labels: npt.NDArray[np.float32], classes: npt.NDArray[np.float32]
) -> npt.NDArray[np.float32]:
    """Return 0 and 1, float32 [n, classes], for labels [n, 1]. Raises `DataError`."""
    table: npt.NDArray[np.float32] = (labels == classes).astype(np.float32)
    check_known(name, labels[table.sum(axis=1) == 0])
    return table


def check_known(name: Any, strange: npt.NDArray[np.float32]) -> None:
    """Raise `DataError` if there are unknown labels."""
    if strange.size:
        raise DataError(
            f"{name}: the label {spell(float(strange.flat[0]))} is not one of the classes. The "
            "model does not know it, or the file has changed while it was read."
        )


def numbers_of(name: Any, classes: Sequence[str]) -> npt.NDArray[np.float32]:
    """Return a model's classes as numbers.

    Raises `DataError` if their names are not numbers.
    """
    try:
        return np.array([float(known) for known in classes], np.float32)
    except ValueError as error:
        raise DataError(
            f"{name}: labels are numbers, but the targets of the model are called "
            f"{', '.join(classes[:5])}."
        ) from error


def check_classes(name: Any, count: int, largest: float) -> None:
    """Raise `DataError` for too many classes, or too large class numbers."""
    if count > MOST_CLASSES:
        raise DataError(
            f"{name}: more than {MOST_CLASSES:,} different labels: too many for classes. If they "
            "are numbers to predict, leave out `classes`."
        )
    if largest > EXACT:
        raise DataError(
            f"{name}: label {largest:,.0f}: must be at most {EXACT:,}, the largest that float32 "
            "tells from its neighbours. Number the classes from 0."
        )


def spell(number: float) -> str:
    """Return the name of a class.

    >>> spell(3.0), spell(-1.0), spell(0.5)
    ('3', '-1', '0.5')
    """
    return str(int(number)) if number == int(number) else repr(number)
