"""Convert columns of an Arrow batch to NumPy arrays: numbers, lists and nulls."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as kinds

from ..arrays.compiled import kernel
from ..arrays.validate import LARGEST
from .columns import Dense, Sparse
from .types import is_list

NOWHERE = np.empty(0, np.bool_)


class Fault(Exception):
    """Row `row` of a batch is unusable; `text` says why."""

    def __init__(self, row: int, text: str) -> None:
        super().__init__(text)
        self.row, self.text = row, text


class Lists(NamedTuple):
    """A list of elements for each of n rows.

    offsets: int32 or int64 [n+1], starting at 0.
    elements: an Arrow array of offsets[-1] elements.
    """

    offsets: npt.NDArray[Any]
    elements: Any

    def row_of(self, place: int) -> int:
        """Return the row that holds element `place`."""
        return int(np.searchsorted(self.offsets, place, side="right")) - 1


class Entries(NamedTuple):
    """The non-zeros of n rows.

    offsets: as in `Lists`.
    indices: int32 or int64 [offsets[-1]].
    values: float32 [offsets[-1]]; empty if all are 1.
    holes: bool [offsets[-1]], True for entries to leave out; empty if none are left out.
    """

    offsets: npt.NDArray[Any]
    indices: npt.NDArray[Any]
    values: npt.NDArray[np.float32]
    holes: npt.NDArray[np.bool_]


def texts_of(name: str, batch: Any) -> Any:
    """Return a column of text or integers as an Arrow array of large strings.

    Raises `Fault` for a null and for text that is not valid UTF-8.
    """
    texts = plain_array(batch.column(name))
    if texts.null_count:
        raise Fault(
            texts.is_null().index(True).as_py(),
            f"column {name!r} is null, but must be text; fill or leave out such rows.",
        )
    texts = texts.cast(pa.large_string())
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid as error:
        for row, text in enumerate(texts.cast(pa.large_binary()).to_pylist()):
            try:
                text.decode()
            except UnicodeDecodeError as reason:
                raise Fault(row, f"column {name!r} is not UTF-8: {reason}") from error
        raise Fault(0, f"column {name!r}: {error}") from error
    return texts


def plain_array(array: Any) -> Any:
    """Return an Arrow array without its dictionaries and extensions."""
    while True:
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        elif isinstance(array, pa.DictionaryArray):
            array = array.dictionary_decode()
        else:
            return array


def lists_of(column: Any) -> Lists:
    """Return the rows of a column as lists; single numbers become lists of one."""
    column = plain_array(column)
    rows = len(column)
    if is_list(column.type):
        offsets = column.offsets.to_numpy()
        first, last = int(offsets[0]), int(offsets[-1])
        return Lists(offsets - first, plain_array(column.values.slice(first, last - first)))
    if kinds.is_fixed_size_list(column.type):
        width = column.type.list_size
        elements = column.values.slice(column.offset * width, rows * width)
        return Lists(np.arange(rows + 1, dtype=np.int64) * width, plain_array(elements))
    return Lists(np.arange(rows + 1, dtype=np.int64), column)


def null_rows(column: Any) -> npt.NDArray[np.bool_] | None:
    """Return the rows with nulls, bool [n]; None if there are none."""
    column = plain_array(column)
    lists = lists_of(column)
    if not column.null_count and not lists.elements.null_count:
        return None
    nulls: npt.NDArray[np.bool_] = column.is_null().to_numpy(zero_copy_only=False).copy()
    if lists.elements.null_count:
        places = np.flatnonzero(lists.elements.is_null().to_numpy(zero_copy_only=False))
        nulls[np.searchsorted(lists.offsets, places, side="right") - 1] = True
    return nulls


def table_of(part: Dense, column: Any) -> npt.NDArray[np.float32]:
    """Return the rows of a dense column, float32 [n, width]; nulls become 0.

    Raises `Fault` for lists of the wrong length and for numbers that are not finite float32.
    """
    width = part.width or 0
    lists = lists_of(column)
    lengths = np.diff(lists.offsets)
    absent = plain_array(column).is_null().to_numpy(zero_copy_only=False)
    wrong = np.flatnonzero((lengths != width) & ~absent)
    if wrong.size:
        row = int(wrong[0])
        raise Fault(
            row, f"column {part.column!r} has {lengths[row]} numbers; every row must have {width}."
        )
    found = floats(part.column, lists)
    if not absent.any():
        return found.reshape(-1, width)
    table = np.zeros((absent.size, width), np.float32)
    table[lengths == width] = found.reshape(-1, width)
    table[absent] = 0.0  # Arrow leaves the values below a null undefined
    return table


def entries_of(part: Sparse, batch: Any) -> Entries:
    """Return the non-zeros of a sparse feature.

    A null index is a hole, a null value is 0. Raises `Fault` for rows with unequal counts of
    indices and values, and for invalid numbers.
    """
    places = lists_of(batch.column(part.indices))
    indices = integers(part.indices, places)
    holes = NOWHERE
    if places.elements.null_count:
        holes = places.elements.is_null().to_numpy(zero_copy_only=False)
    values = np.empty(0, np.float32)
    if part.values is not None:
        numbers = lists_of(batch.column(part.values))
        lengths, others = np.diff(places.offsets), np.diff(numbers.offsets)
        if not np.array_equal(lengths, others):
            row = int(np.flatnonzero(lengths != others)[0])
            raise Fault(
                row,
                f"column {part.indices!r} has {lengths[row]} indices, but column "
                f"{part.values!r} has {others[row]} values; the counts must be equal.",
            )
        values = floats(part.values, numbers)
    return Entries(places.offsets, indices, values, holes)


def floats(name: str, lists: Lists) -> npt.NDArray[np.float32]:
    """Return all elements as float32, nulls as 0.

    Raises `Fault` if one is not finite.
    """
    elements = given = lists.elements
    if kinds.is_boolean(given.type):
        given = given.cast(pa.int8())
    given = given.cast(pa.float32(), safe=False)
    given = given.fill_null(0.0) if given.null_count else given
    numbers = given.to_numpy(zero_copy_only=False)
    bad = first_not_finite(numbers)
    if bad >= 0:
        raise Fault(
            lists.row_of(bad),
            f"column {name!r} is {elements[bad].as_py()}, but every value must be a finite "
            f"float32 (at most {LARGEST:.3g} in size); clean or rescale the data.",
        )
    found: npt.NDArray[np.float32] = numbers
    return found


def integers(name: str, lists: Lists) -> npt.NDArray[Any]:
    """Return all elements as int32 or int64, nulls as 0. Raises `Fault` beyond int64."""
    elements = lists.elements.fill_null(0) if lists.elements.null_count else lists.elements
    if elements.type not in (pa.int32(), pa.int64()):
        try:
            elements = elements.cast(pa.int64())
        except pa.ArrowInvalid as error:
            large = (i for i, number in enumerate(elements.to_pylist()) if number >= 2**63)
            raise Fault(
                lists.row_of(next(large, 0)), f"column {name!r} is not an index: {error}"
            ) from error
    found: npt.NDArray[Any] = elements.to_numpy(zero_copy_only=False)
    return found


@kernel
def first_not_finite(values: npt.NDArray[np.float32]) -> int:
    """Return the place of the first NaN or infinite value, or -1."""
    faults = 0
    for i in range(values.size):
        faults += not (abs(np.float64(values[i])) <= LARGEST)
    if faults:
        for i in range(values.size):
            if not (abs(np.float64(values[i])) <= LARGEST):
                return i
    return -1
