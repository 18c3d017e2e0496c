"""Read text files as chunks of whole lines."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from ..errors import DataError
from ..packed.streams import opened
from ..separators import encoding_hint
from .layout import FIRST, Place
from .scratch import Scratch

Parsed = TypeVar("Parsed")
LONGEST = 1 << 28
BOM = b"\xef\xbb\xbf"


class Lines(NamedTuple):
    """Whole lines of a file, ending with a newline, and the first line's place."""

    path: Path
    data: bytes
    place: Place
    next: Place

    def parse(self, at: int, end: int, parse: Callable[[bytes], Parsed]) -> Parsed:
        """Parse the line `data[at:end]`.

        A `ValueError` of `parse` becomes a `DataError` that names file and line.
        """
        try:
            return parse(self.data[at:end])
        except ValueError as error:
            line = self.place.line + self.data.count(b"\n", 0, at)
            raise DataError(f"{self.path}:{line}: {error}.") from None


def line_chunks(paths: Sequence[Path], scratch: Scratch, start: Place = FIRST) -> Iterator[Lines]:
    """Yield lines from `start` on, about `scratch.chunk_bytes` at a time.

    A byte order mark is left out; a last line without a newline gets one. Raises `DataError` for
    UTF-16 and UTF-32, for a packed file that is cut off, and for a line of 256 MB.
    """
    for number in range(start.file, len(paths)):
        place = start if number == start.file else Place(number)
        yield from file_chunks(paths[number], scratch, place)


def file_chunks(path: Path, scratch: Scratch, place: Place) -> Iterator[Lines]:
    """Yield the lines of one file; see `line_chunks`."""
    with opened(path, scratch.tell, place.offset) as stream:
        rest = b""
        while True:
            piece = stream.read(scratch.chunk_bytes)
            if place.offset == 0 and not rest:
                if other := encoding_hint(piece):
                    raise DataError(f"{path}: {other}")
                if piece.startswith(BOM):
                    piece, place = piece.removeprefix(BOM), place._replace(offset=len(BOM))
            if not piece and rest:
                piece = b"\n"
            end = piece.rfind(b"\n") + 1
            if end:
                data = rest + piece[:end]
                after = Place(place.file, place.offset + len(data), place.line + data.count(b"\n"))
                yield Lines(path, data, place, after)
                rest, place = piece[end:], after
            elif piece:
                rest += piece
            else:
                return
            if len(rest) > LONGEST:
                raise DataError(
                    f"{path}:{place.line}: a line of more than {LONGEST >> 20} MB; is it a text "
                    "file, with lines that end with a newline?"
                )


def split_lines(chunk: Lines) -> Iterator[tuple[int, bytes]]:
    """Yield number and text of every line, without its end."""
    for number, line in enumerate(chunk.data[:-1].split(b"\n"), chunk.place.line):
        yield number, line.removesuffix(b"\r")


def text_lines(chunk: Lines) -> Iterator[tuple[int, str]]:
    """Yield what `split_lines` yields, decoded. Raises `DataError` if a line is not UTF-8."""
    text = decode(chunk.data[:-1], chunk.path, chunk.place.line)
    for number, line in enumerate(text.split("\n"), chunk.place.line):
        yield number, line.removesuffix("\r")


def read_lines(path: Path) -> Iterator[tuple[str, str]]:
    """Yield `("file:line", text)` for every line of a file, perhaps packed; see `text_lines`."""
    for chunk in line_chunks([path], Scratch(path.parent)):
        for number, line in text_lines(chunk):
            yield f"{path.name}:{number}", line


def placed_lines(
    path: Path, scratch: Scratch, start: Place = FIRST
) -> Iterator[tuple[int, bytes, Place]]:
    """Yield number and text of lines from `start` on, and the next line's place."""
    for chunk in file_chunks(path, scratch, start):
        place = chunk.place
        for number, raw in enumerate(chunk.data[:-1].split(b"\n"), place.line):
            place = Place(place.file, place.offset + len(raw) + 1, number + 1)
            yield number, raw.removesuffix(b"\r"), place


def decode(data: bytes, path: Path, line: int) -> str:
    """Return text that begins at a line of a file. Raises `DataError` if it is not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line += data.count(b"\n", 0, error.start)
        raise DataError(
            f"{path}:{line}: byte {data[error.start]:#04x} is not UTF-8; convert the file, for "
            "example with iconv -f latin1 -t utf-8."
        ) from error
