"""Files that are there completely or not at all, also after a power cut."""

import os
from pathlib import Path


def replace_file(path: Path, data: bytes) -> None:
    """Put `data` at `path` in one step, and wait until it is on disk."""
    temporary = path.with_name(f".{path.name}.new")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Wait until the names in `path` are on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
