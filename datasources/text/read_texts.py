"""Reads lines of text files, with their names."""

from collections.abc import Iterator
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import cast

from ..errors import DataError


def read_lines(path: Path) -> Iterator[tuple[str, str]]:
    """Yield `("file:line", text)` for every line of a file.

    The file may be packed (`x.txt.gz`). An empty line is an empty document.
    """
    from ..packed.streams import opened  # imported late: plain texts need no Arrow

    with opened(path, lambda count: None) as file:
        lines = BufferedReader(cast(RawIOBase, file))  # Arrow's unpacked streams cannot split lines
        for number, line in enumerate(lines, start=1):
            yield f"{path.name}:{number}", decode(line, path, number)


def decode(data: bytes, path: Path, line: int) -> str:
    """Decode UTF-8 to text; `data` starts at line number `line` of `path`."""
    try:
        return data.decode("utf-8-sig" if line == 1 else "utf-8")
    except UnicodeDecodeError as error:
        line += data.count(b"\n", 0, error.start)
        raise DataError(
            f"{path}:{line}: byte {data[error.start]:#04x} is not UTF-8; convert the file, for "
            f"example with iconv -f latin1 -t utf-8."
        ) from error
