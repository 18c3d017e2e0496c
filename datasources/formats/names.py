"""Read names of columns from a file beside the data."""

from collections.abc import Sequence
from pathlib import Path

from ..errors import DataError
from ..parsing.lines import line_chunks, text_lines
from ..parsing.scratch import Scratch
from ..text.corpus import columns_of


def names_beside(path: Path, columns: int, scratch: Scratch) -> Sequence[str] | None:
    """Return the words of `vocab.txt` beside `path`, None if it does not exist."""
    listed = path.with_name("vocab.txt")
    return read_names(listed, columns, scratch) if listed.exists() else None


def read_names(path: Path, columns: int, scratch: Scratch) -> list[str]:
    """Return the words in a file, one per line.

    Raises `DataError` unless they are `columns` different ones.
    """
    names = listed_names(path, scratch)
    if len(names) != columns:
        raise DataError(f"{path}: {len(names)} names, but there are {columns} columns.")
    return names


def listed_names(path: Path, scratch: Scratch) -> list[str]:
    """Return the words in a file, one per line.

    Raises `DataError` if one occurs twice.
    """
    names: list[str] = []
    for chunk in line_chunks([path], Scratch(scratch.folder, scratch.memory)):
        names += [line.strip() for _, line in text_lines(chunk)]
    try:
        columns_of(names)
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
    return names
