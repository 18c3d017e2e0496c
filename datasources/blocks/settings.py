"""The settings of a writer; they must be the same when it resumes."""

from collections.abc import Sequence

from pydantic import BaseModel

from ..arrays.block_shape import MAX_COLUMNS
from ..errors import DataError
from .arrow_file import Codec


class Settings(BaseModel, extra="forbid", strict=True, frozen=True):
    """Settings of a `BlockWriter`, which describes them."""

    stripes: int
    block_rows: int
    codec: Codec
    columns: int | None
    origin: str


def check_count(name: str, value: int | None) -> None:
    """Raise `DataError` if an int32 cannot number `value` things."""
    if value is not None and not 1 <= value <= MAX_COLUMNS:
        raise DataError(f"BlockWriter: {name}={value}: must be 1 to {MAX_COLUMNS}.")


def count_columns(
    announced: int | None, said: int | None, names: Sequence[str] | None, seen: int
) -> int:
    """Return the number of columns; raise `DataError` if its sources disagree.

    - announced: `columns` of the writer.
    - said: `columns` of `finish`.
    - names: names of the columns.
    - seen: the largest index plus 1.

    >>> count_columns(None, None, ["a", "b", "c"], 2)
    3
    """
    known = [
        (announced, "columns were announced"),
        (said, "columns were given to finish"),
        (None if names is None else len(names), "names of columns are given"),
    ]
    given = [(count, words) for count, words in known if count is not None]
    if not given:
        return max(1, seen)
    width, first = given[0]
    for count, words in given[1:]:
        if count != width:
            raise DataError(f"BlockWriter: {count} {words}, but {width} {first}.")
    if width < seen:
        raise DataError(f"BlockWriter: {width} {first}, but the index {seen - 1} occurs.")
    return width
