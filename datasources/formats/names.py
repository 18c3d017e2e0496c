"""Read names of columns from a file beside the data."""

from collections.abc import Sequence
from pathlib import Path

from ..errors import DataError
from ..parsing.lines import read_lines
from ..text.corpus import columns_of


def names_beside(path: Path, columns: int) -> Sequence[str] | None:
    """Return the words of `vocab.txt` beside `path`, None if it does not exist."""
    listed = path.with_name("vocab.txt")
    return read_names(listed, columns) if listed.exists() else None


def read_names(path: Path, columns: int) -> list[str]:
    """Return the words in a file, one per line.

    Raises `DataError` unless they are `columns` different ones.
    """
    names = listed_names(path)
    if len(names) != columns:
        raise DataError(f"{path}: {len(names)} names, but there are {columns} columns.")
    return names


def listed_names(path: Path) -> list[str]:
    """Return the words in a file, one per line.

    Raises `DataError` if one occurs twice.
    """
    names = [line.strip() for _, line in read_lines(path)]
    try:
        columns_of(names)
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
    return names
