"""Find the files that a path, folder or pattern refers to."""

import posixpath
from fnmatch import fnmatchcase

from ..errors import DataError
from .files import Files, Status


def find(files: Files, path: str, endings: tuple[str, ...], wild: str = "*?[") -> list[Status]:
    """Return the files that `path` refers to, sorted by name.

    path: a file; a folder, for all files in it, at any depth, whose names end with one of
        `endings`; or a pattern.
    wild: the characters that make a path a pattern; `*` stays within one folder.

    In folders, names that start with `_` or `.` are left out, as is the convention. Raises
    `FileNotFoundError` for a path that does not exist, and `DataError` if no file is found.
    """
    if any(letter in path for letter in wild) and not (files.quick and there(files, path)):
        return match(files, path, wild)
    status = files.status(path)
    if not status.folder:
        return [status]
    found = [file for file in walk(files, status) if file.path.endswith(endings)]
    if not found:
        raise DataError(
            f"{files.name(path)}: no file in this folder ends with {' or '.join(endings)}; name "
            "the files, or say which by a pattern such as part-*."
        )
    return sorted(found, key=lambda file: file.path)


def there(files: Files, path: str) -> bool:
    """Return whether a file has exactly this name, pattern characters included."""
    try:
        files.status(path)
    except OSError:
        return False
    return True


def walk(files: Files, folder: Status) -> list[Status]:
    """Return all files below a folder, without hidden ones."""
    found = []
    for child in files.children(folder.path):
        if posixpath.basename(child.path.rstrip("/")).startswith(("_", ".")):
            continue
        found += walk(files, child) if child.folder else [child]
    return found


def match(files: Files, pattern: str, wild: str) -> list[Status]:
    """Return the files whose path matches, folder by folder."""
    parts = pattern.split("/")
    first = next(i for i, part in enumerate(parts) if any(letter in part for letter in wild))
    root = "/".join(parts[:first]) or ("/" if pattern.startswith("/") else ".")
    level = [files.status(root)]
    for part in parts[first:]:
        level = [
            child
            for folder in level
            if folder.folder
            for child in files.children(folder.path)
            if fnmatchcase(posixpath.basename(child.path.rstrip("/")), part)
        ]
    found = [file for file in level if not file.folder]
    if not found:
        raise DataError(f"{files.name(pattern)}: no file matches this pattern.")
    return sorted(found, key=lambda file: file.path)
