"""Reads named texts from files."""

import json
from collections.abc import Iterator
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import Any, cast

from ..errors import DataError
from ..listing import files_among

MENTIONED = 5  # fields listed in a message


def read_lines(path: Path) -> Iterator[tuple[str, str]]:
    """Yield `("file:line", text)` for every line of a file.

    The file may be packed (`x.txt.gz`). An empty line is an empty document.
    """
    from ..packed.streams import opened  # imported late: plain texts need no Arrow

    with opened(path, lambda count: None) as file:
        lines = BufferedReader(cast(RawIOBase, file))  # Arrow's unpacked streams cannot split lines
        for number, line in enumerate(lines, start=1):
            yield f"{path.name}:{number}", decode(line, path, number)


def read_json_lines(path: Path, field: str = "text") -> Iterator[tuple[str, str]]:
    """Yield `("file:line", text)` for every line `{"text": ...}`; skip empty lines.

    field: name of the field with the text.
    """
    for number, (name, line) in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path}:{number}: not valid JSON: {error}") from error
        text = record.get(field) if isinstance(record, dict) else None
        if not isinstance(text, str):
            raise DataError(
                f'{path}:{number}: a line must be an object with a string "{field}", such as '
                f'{{"{field}": "..."}}{of_strings(record)}.'
            )
        yield name, text


def of_strings(record: Any) -> str:
    """Return a hint that lists the string fields of an object without the text field."""
    items = record.items() if isinstance(record, dict) else ()
    found = [key for key, value in items if isinstance(value, str)]
    if not found:
        return ""
    return f"; this one has {', '.join(found[:MENTIONED])}: `text` says which field has the text"


def read_folder(path: Path) -> Iterator[tuple[str, str]]:
    """Yield `("sub/folder/file.txt", text)` for every .txt file at any depth, sorted."""
    for file in files_among(path.rglob("*.txt")):
        yield file.relative_to(path).as_posix(), decode(file.read_bytes(), file, 1)


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
