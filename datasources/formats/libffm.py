"""Read LIBFFM text: `label field:index:value ...` per row.

Juan, Zhuang, Chin, Lin, *Field-aware factorization machines for CTR prediction*, RecSys 2016.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from ..errors import DataError
from ..parsing.layout import FIRST, UNKNOWN, Known, Layout, Place, Rows
from ..parsing.lines import Lines, line_chunks, split_lines
from ..parsing.numbers import INTEGER, parse_float32, show
from ..parsing.scratch import Scratch
from .bags import Bags
from .vocabulary import Vocabulary, choose_words

Row = tuple[float, list[str], list[float]]


class LibffmFile:
    """Reads the rows of LIBFFM files; the target is the label.

    An index of a field is a column, `field=index`: so `fields: names` of a machine finds the
    fields. The files are read twice, first to find the columns.
    """

    def __init__(self, paths: Sequence[Path], scratch: Scratch, known: Known | None = None) -> None:
        """Find the columns."""
        self._paths, self._scratch = paths, scratch
        features = (
            (1, set(names)) for chunk in line_chunks(paths, scratch) for _, names, _ in of(chunk)
        )
        names = choose_words(paths[0], features, scratch, known)
        self._vocabulary = Vocabulary(names)
        self.layout = Layout(len(names), names=names, targets=1)

    def chunks(self, start: Place = FIRST) -> Iterator[Rows]:
        """Yield all rows from `start` on."""
        bags = Bags(self._vocabulary)
        for chunk in line_chunks(self._paths, self._scratch, start):
            labels = []
            for label, names, values in of(chunk):
                labels.append(label)
                bags.add(names, values)
            X, unknown = bags.take()
            remarks = {UNKNOWN: unknown.size} if unknown.size else {}
            yield Rows(X, chunk.next, np.array(labels, np.float32)[:, None], remarks=remarks)


def of(chunk: Lines) -> Iterator[Row]:
    """Yield label, names of columns and values of every row that is not empty.

    Raises `DataError` naming the line.
    """
    for number, line in split_lines(chunk):
        try:
            if line.strip():
                yield parse_row(line)
        except ValueError as error:
            raise DataError(f"{chunk.path}:{number}: {error}.") from None


def parse_row(line: bytes) -> Row:
    """Parse a line. Raises `ValueError` for an invalid one.

    >>> parse_row(b"1 0:7:1 3:12:0.5")
    (1.0, ['0=7', '3=12'], [1.0, 0.5])
    """
    label, *words = line.split()
    if b":" in label:
        raise ValueError(f"{show(label)} comes first; must be a label, such as 0 or 1")
    found: dict[str, float] = {}
    for word in words:
        field, _, rest = word.partition(b":")
        index, colon, value = rest.partition(b":")
        if not colon or not INTEGER.fullmatch(field) or not INTEGER.fullmatch(index):
            raise ValueError(f"{show(word)} is not field:index:value")
        name = f"{int(field)}={int(index)}"
        if name in found:
            raise ValueError(f"index {int(index)} of field {int(field)} comes twice")
        found[name] = parse_float32(value)
    return parse_float32(label), list(found), list(found.values())
