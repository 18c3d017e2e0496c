"""Read named documents: a text per line, JSON lines, or a folder of .txt files."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from ..errors import DataError
from ..listing import files_among
from ..parsing.layout import FIRST, Place
from ..parsing.lines import BOM, Lines, decode, line_chunks, text_lines
from ..parsing.numbers import TOO_LARGE
from ..parsing.scratch import Scratch

FOLDER_FILES = 64  # files of a folder in a chunk
MENTIONED = 5  # fields listed in a message


class Document(NamedTuple):
    """A text with its name and its targets."""

    name: str
    text: str
    targets: Sequence[float] = ()


class Documents(Protocol):
    """Documents of a file or folder.

    name: for messages; targets: names of the targets.
    """

    name: str
    targets: Sequence[str]

    def chunks(self, start: Place = FIRST) -> Iterator[tuple[Place, Iterator[Document]]]:
        """Yield the documents from `start` on in chunks, each with the place after it."""


class TextLines:
    """Reads a document per line; an empty line is an empty document."""

    targets: Sequence[str] = ()

    def __init__(self, paths: Sequence[Path], scratch: Scratch) -> None:
        """Set up; nothing is read yet."""
        self._paths, self._scratch, self.name = paths, scratch, str(paths[0])

    def chunks(self, start: Place = FIRST) -> Iterator[tuple[Place, Iterator[Document]]]:
        """Yield the documents; see `Documents`."""
        for chunk in line_chunks(self._paths, self._scratch, start):
            yield chunk.next, self._parse(chunk)

    def _parse(self, chunk: Lines) -> Iterator[Document]:
        file = chunk.path.name
        for number, line in text_lines(chunk):
            yield Document(f"{file}:{number}", line)


class JsonLines:
    """Reads a document per line, `{"text": "..."}`; empty lines are skipped.

    text: the field with the text.
    targets: fields with numbers, or true and false.
    ids: the field with the name; None: a document is named after its line.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        scratch: Scratch,
        *,
        text: str = "text",
        targets: Sequence[str] = (),
        ids: str | None = None,
    ) -> None:
        """Set up; nothing is read yet."""
        self._paths, self._scratch, self.name = paths, scratch, str(paths[0])
        self._text, self.targets, self._ids = text, targets, ids

    def chunks(self, start: Place = FIRST) -> Iterator[tuple[Place, Iterator[Document]]]:
        """Yield the documents; see `Documents`."""
        for chunk in line_chunks(self._paths, self._scratch, start):
            yield chunk.next, self._parse(chunk)

    def _parse(self, chunk: Lines) -> Iterator[Document]:
        path, file = str(chunk.path), chunk.path.name
        for number, line in text_lines(chunk):
            if not line.strip():
                continue
            place = f"{path}:{number}"
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise DataError(f"{place}: not valid JSON: {error}") from error
            text = record.get(self._text) if isinstance(record, dict) else None
            if not isinstance(text, str):
                raise DataError(
                    f"{place}: a line must be an object with a string {self._text!r}, such as "
                    f'{{"{self._text}": "..."}}{of_strings(record)}.'
                )
            name = f"{file}:{number}"
            if self._ids is not None:
                found = record.get(self._ids)
                if not isinstance(found, str | int) or isinstance(found, bool):
                    raise DataError(
                        f"{place}: {self._ids!r} is {found!r}: must be text or integer."
                    )
                name = str(found)
            yield Document(
                name, text, [self._target(record, field, place) for field in self.targets]
            )

    def _target(self, record: dict[str, object], field: str, place: str) -> float:
        value = record.get(field)
        if isinstance(value, bool | int | float) and abs(value) < TOO_LARGE:
            return float(value)
        raise DataError(
            f"{place}: the target {field!r} is {value!r}, but must be a finite number, or true or "
            "false."
        )


def of_strings(record: object) -> str:
    """Return a hint that lists the string fields of an object without the text field."""
    items = record.items() if isinstance(record, dict) else ()
    found = [key for key, value in items if isinstance(value, str)]
    if not found:
        return ""
    return f"; this one has {', '.join(found[:MENTIONED])}: `text` says which field has the text"


class TextFolder:
    """Reads a document per .txt file of a folder, at any depth, sorted by name."""

    targets: Sequence[str] = ()

    def __init__(self, path: Path, scratch: Scratch) -> None:
        """List the files."""
        self.name, self._path, self._scratch = str(path), path, scratch
        self._files = files_among(path.rglob("*.txt"))

    def chunks(self, start: Place = FIRST) -> Iterator[tuple[Place, Iterator[Document]]]:
        """Yield the documents; see `Documents`."""
        for first in range(start.file, len(self._files), FOLDER_FILES):
            files = self._files[first : first + FOLDER_FILES]
            yield Place(first + len(files)), self._parse(files)

    def _parse(self, files: Sequence[Path]) -> Iterator[Document]:
        for file in files:
            data = file.read_bytes()
            self._scratch.tell(len(data))
            name = file.relative_to(self._path).as_posix()
            yield Document(name, decode(data.removeprefix(BOM), file, 1))
