"""Columns of an Arrow batch as NumPy arrays: numbers, lists, and what is null in them."""

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
    """Row `row` of a batch cannot be used, because of `text`."""

    def __init__(self, row: int, text: str) -> None:
        super().__init__(text)
        self.row, self.text = row, text


class Lists(NamedTuple):
    """A list of elements for each of n rows.

    offsets: [n+1] from 0, int32 or int64. elements: an Arrow array of offsets[-1] elements.
    """

    offsets: npt.NDArray[Any]
    elements: Any

    def row_of(self, place: int) -> int:
        """The row that has element `place`."""
        return int(np.searchsorted(self.offsets, place, side="right")) - 1


class Entries(NamedTuple):
    """Non-zeros of n rows: offsets as in `Lists`; indices int32 or int64; values float32, empty
    where all are 1; holes: where an entry is to be left out, empty where nowhere.
    """

    offsets: npt.NDArray[Any]
    indices: npt.NDArray[Any]
    values: npt.NDArray[np.float32]
    holes: npt.NDArray[np.bool_]


def texts_of(name: str, batch: Any) -> Any:
    """A column of text, or of integers, as an Arrow array of large strings. Raises `Fault` where
    there is none, or it is no UTF-8.
    """
    texts = plain_array(batch.column(name))
    if texts.null_count:
        raise Fault(
            texts.is_null().index(True).as_py(),
            f"column {name!r} is null, and no text; fill or leave out such rows.",
        )
    texts = texts.cast(pa.large_string())
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid as error:
        for row, text in enumerate(texts.cast(pa.large_binary()).to_pylist()):
            try:
                text.decode()
            except UnicodeDecodeError as reason:
                raise Fault(row, f"column {name!r} is no UTF-8: {reason}") from error
        raise Fault(0, f"column {name!r}: {error}") from error
    return texts


def plain_array(array: Any) -> Any:
    """An Arrow array without dictionaries and extensions."""
    while True:
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        elif isinstance(array, pa.DictionaryArray):
            array = array.dictionary_decode()
        else:
            return array


def lists_of(column: Any) -> Lists:
    """The rows of a column as lists: those of single numbers have one element each."""
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
    """Which rows [n] of a column are null or have a null in them; None if none is."""
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
    """The rows of a dense column, [n, width]; nulls are 0.

    Raises `Fault` for lists of other lengths and for numbers that no finite float32 holds.
    """
    width = part.width or 0
    lists = lists_of(column)
    lengths = np.diff(lists.offsets)
    absent = plain_array(column).is_null().to_numpy(zero_copy_only=False)
    wrong = np.flatnonzero((lengths != width) & ~absent)
    if wrong.size:
        row = int(wrong[0])
        raise Fault(
            row, f"column {part.column!r} has {lengths[row]} numbers, but every row has {width}."
        )
    found = floats(part.column, lists)
    if not absent.any():
        return found.reshape(-1, width)
    table = np.zeros((absent.size, width), np.float32)
    table[lengths == width] = found.reshape(-1, width)
    table[absent] = 0.0  # what lies below a null is anything
    return table


def entries_of(part: Sparse, batch: Any) -> Entries:
    """The non-zeros of a sparse feature. An index that is null is a hole, a null value is 0.

    Raises `Fault` where indices and values differ in number, and for numbers that are none.
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
                f"{part.values!r} has {others[row]} values for them.",
            )
        values = floats(part.values, numbers)
    return Entries(places.offsets, indices, values, holes)


def floats(name: str, lists: Lists) -> npt.NDArray[np.float32]:
    """All elements as float32, nulls as 0. Raises `Fault` for one that is not finite."""
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
    """All elements as int32 or int64, nulls as 0."""
    elements = lists.elements.fill_null(0) if lists.elements.null_count else lists.elements
    if elements.type not in (pa.int32(), pa.int64()):
        try:
            elements = elements.cast(pa.int64())
        except pa.ArrowInvalid as error:
            large = (i for i, number in enumerate(elements.to_pylist()) if number >= 2**63)
            raise Fault(
                lists.row_of(next(large, 0)), f"column {name!r} is no index: {error}"
            ) from error
    found: npt.NDArray[Any] = elements.to_numpy(zero_copy_only=False)
    return found


@kernel
def first_not_finite(values: npt.NDArray[np.float32]) -> int:
    """The first of `values` that is NaN or infinite, or -1."""
    faults = 0
    for i in range(values.size):
        faults += not (abs(np.float64(values[i])) <= LARGEST)
    if faults:
        for i in range(values.size):
            if not (abs(np.float64(values[i])) <= LARGEST):
                return i
    return -1
