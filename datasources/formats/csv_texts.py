"""Read documents from a column of CSV or TSV.

Texts may have line breaks, so records span lines.
"""

import csv
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

from ..errors import DataError
from ..parsing.layout import FIRST, Place
from ..parsing.lines import LONGEST, decode, placed_lines
from ..parsing.numbers import parse_float32
from ..parsing.scratch import Scratch
from ..separators import separator_hint
from .delimited import advice, separator_of
from .documents import Document

MENTIONED = 20  # columns named in a message
WHICH = " `text` says which column has the texts."


class Record(NamedTuple):
    """The fields of a record, the line it begins in, and the place after it."""

    fields: list[str]
    line: int
    next: Place


class CsvTexts:
    """Reads a document per record of files whose first record names the columns.

    text: the column with the texts; an empty text is an empty document.
    targets: columns with numbers.
    ids: the column with the names; None: a document is named after the line it begins in.
    separator: between fields; None: a tab in .tsv files, else a comma.

    Fields with line breaks, separators or quotes are in double quotes, and quotes in them are
    doubled (RFC 4180).
    """

    def __init__(
        self,
        paths: Sequence[Path],
        scratch: Scratch,
        *,
        text: str,
        targets: Sequence[str] = (),
        ids: str | None = None,
        separator: str | None = None,
    ) -> None:
        """Read the first record of each file. Raises `DataError` if a column is missing."""
        self._paths, self._scratch, self.name = paths, scratch, str(paths[0])
        self._separators = [separator_of(path, separator) for path in paths]
        self.targets = targets
        others = [*targets, *([] if ids is None else [ids])]
        self._heads = [self._head(number) for number in range(len(paths))]
        self._columns = [
            [
                column_of(path, head.fields, text, WHICH),
                *(column_of(path, head.fields, name) for name in others),
            ]
            for path, head in zip(paths, self._heads, strict=True)
        ]

    def chunks(self, start: Place = FIRST) -> Iterator[tuple[Place, Iterator[Document]]]:
        """Yield the documents; see `Documents`. Raises `DataError` if there are none."""
        empty = start == FIRST
        for number in range(start.file, len(self._paths)):
            place = max(start, self._heads[number].next._replace(file=number))
            found, begin = list[Document](), place.offset
            for record in self._records(number, place, self._scratch):
                found.append(self._document(number, record))
                if record.next.offset - begin >= self._scratch.chunk_bytes:
                    yield record.next._replace(file=number), iter(found)
                    found, begin = [], record.next.offset
            empty = empty and place.offset == begin and not found
            if found:
                yield Place(number + 1), iter(found)
        if empty:
            raise DataError(f"{self.name}: has a header but no documents.")

    def _document(self, number: int, record: Record) -> Document:
        path, head = self._paths[number], self._heads[number].fields
        place = f"{path}:{record.line}"
        if len(record.fields) != len(head):
            raise DataError(
                f"{place}: {len(record.fields)} fields, but the file has {len(head)} columns "
                f"(separator {self._separators[number]!r}; put a text that contains it in double "
                "quotes)."
            )
        text, *others = (record.fields[column] for column in self._columns[number])
        targets = []
        for name, field in zip(self.targets, others, strict=False):
            try:
                targets.append(parse_float32(field.strip().encode()))
            except ValueError as error:
                raise DataError(f"{place}: the target {name!r}: {error}.") from None
        named = others[len(targets) :]
        return Document(named[0] if named else f"{path.name}:{record.line}", text, targets)

    def _head(self, number: int) -> Record:
        """Read the first record.

        This is not counted as progress, because it is read again.
        """
        for record in self._records(number, FIRST, Scratch(self._scratch.folder)):
            return record._replace(fields=[field.strip() for field in record.fields])
        raise DataError(
            f"{self._paths[number]}: is empty: must have a line of names, and documents."
        )

    def _records(self, number: int, start: Place, scratch: Scratch) -> Iterator[Record]:
        """Yield all records from `start` on, without empty lines."""
        csv.field_size_limit(max(csv.field_size_limit(), LONGEST))  # process-wide; default 128 kB
        path, after = self._paths[number], start

        def lines() -> Iterator[str]:
            nonlocal after
            for at, data, place in placed_lines(path, scratch, start):
                after = place
                yield decode(data, path, at) + "\n"

        reader = csv.reader(lines(), delimiter=self._separators[number], strict=True)
        while True:
            line = after.line
            try:
                fields = next(reader, None)
            except csv.Error as error:
                raise DataError(
                    f"{path}:{line}: the record that begins here cannot be divided into fields: "
                    f"{error}; {advice(error, 'quotes in a quoted field are doubled')}."
                ) from error
            if fields is None:
                return
            if fields:
                yield Record(fields, line, after)


def column_of(path: Path, names: Sequence[str], name: str, what: str = "") -> int:
    """Return the number of a column.

    Raises `DataError` if it is missing or occurs twice.

    what: a hint for the message about a missing column.
    """
    if names.count(name) == 1:
        return names.index(name)
    if name in names:
        raise DataError(f"{path}: the column {name!r} occurs twice; rename one.")
    near = get_close_matches(name, names, n=1)
    hint = separator_hint(names) or (f"Did you mean {near[0]!r}?" if near else "")
    listed = ", ".join(map(repr, names[:MENTIONED])) + ", ..." * (len(names) > MENTIONED)
    raise DataError(
        f"{path}: no column {name!r}; there are {listed}.{' ' * bool(hint)}{hint}{what}"
    )
