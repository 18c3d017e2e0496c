"""Read the head of a Matrix Market file, and apply its symmetry to entries.

R. F. Boisvert, R. Pozo, K. A. Remington, The Matrix Market exchange formats, NISTIR 5935 (1996).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from ..errors import DataError
from .entries import Entries, Size
from .layout import Place
from .lines import placed_lines
from .numbers import INTEGER, show
from .scratch import Scratch

FIELDS = ("real", "double", "integer", "pattern")
SYMMETRIES = ("general", "symmetric", "skew-symmetric")
Form = Literal["coordinate", "array"]
SIZES: dict[Form, tuple[str, ...]] = {
    "coordinate": ("rows", "columns", "entries"),
    "array": ("rows", "columns"),
}


class Head(NamedTuple):
    """The head of a file, and where its entries or numbers begin."""

    size: Size
    symmetry: str
    body: Place


def read_head(path: Path, scratch: Scratch, form: Form = "coordinate") -> Head:
    """Read banner, comments and sizes. Raises `DataError` unless it is a matrix of this form."""
    banner: list[str] = []
    for number, line, after in placed_lines(path, scratch):
        words = line.split()
        if not banner:
            banner = [word.decode("utf-8", "replace").lower() for word in words]
            check_banner(f"{path}:{number}", banner, line, form)
        elif words and not words[0].startswith(b"%"):
            *names, last = SIZES[form]
            if len(words) != len(SIZES[form]) or not all(INTEGER.fullmatch(word) for word in words):
                raise DataError(
                    f"{path}:{number}: {show(line)}: must be the numbers of "
                    f"{', '.join(names)} and {last}."
                )
            rows, columns = int(words[0]), int(words[1])
            entries = int(words[2]) if form == "coordinate" else rows * columns
            size = Size(rows, columns, entries, banner[3] != "pattern")
            check_size(f"{path}:{number}", size, banner[4])
            return Head(size, banner[4], after)
    raise DataError(f"{path}: cut off; it has no line with the numbers of rows and columns.")


def check_banner(place: str, banner: list[str], line: bytes, form: Form) -> None:
    """Raise `DataError` unless the banner declares a supported matrix."""
    if len(banner) != 5 or banner[0] != "%%matrixmarket" or banner[1] != "matrix":
        raise DataError(
            f"{place}: {show(line)}: a Matrix Market file must begin with a line such as "
            f"%%MatrixMarket matrix {form} real general."
        )
    kind = " ".join(banner[2:])
    if banner[2] != form or banner[3] not in FIELDS or banner[4] not in SYMMETRIES:
        raise DataError(
            f"{place}: a matrix that is {kind}: must be {form}; {', '.join(FIELDS)}; "
            f"{', '.join(SYMMETRIES)}."
        )


def check_size(place: str, size: Size, symmetry: str) -> None:
    """Raise `DataError` for sizes that no matrix can have."""
    if not size.rows or not size.columns:
        raise DataError(
            f"{place}: {size.rows} rows and {size.columns} columns: must be at least one of each."
        )
    if symmetry != "general" and size.rows != size.columns:
        raise DataError(
            f"{place}: {size.rows} x {size.columns}: must be square, as it is {symmetry}."
        )


def mirrored(found: Iterator[Entries], symmetry: str) -> Iterator[Entries]:
    """Yield all entries, and those that `symmetry` implies across the diagonal."""
    for entries in found:
        yield entries
        if symmetry != "general":
            away = entries.rows != entries.columns
            values = entries.values[away] * np.float32(-1 if symmetry.startswith("skew") else 1)
            rows, columns = entries.columns[away], entries.rows[away]
            yield Entries(rows.astype(np.int64), columns.astype(np.int32), values)
