"""Refuse to replace files without being told to."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from blocklearn.datasources.remote import StoredPath

from ..errors import RunFolderError


def check_new(files: Iterable[Path | StoredPath]) -> None:
    """Raise RunFolderError for the first of `files` that exists."""
    there = next((file for file in files if file.exists()), None)
    if there is not None:
        raise RunFolderError(f"{there}: the file exists already. --overwrite replaces it.")
