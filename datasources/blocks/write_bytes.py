"""Writes all bytes to a file without a buffer."""

from io import FileIO
from pathlib import Path

from blocklearn.durable import naming


def write_all(file: FileIO, data: bytes | memoryview) -> None:
    """Write all of `data`; one call of the system writes at most 2 GiB, and less on a full disk.

    Raises `OSError` with the name of the file.
    """
    rest = memoryview(data).cast("B")
    with naming(Path(file.name)):
        while rest:
            rest = rest[file.write(rest) :]
