"""Targets of documents from a file of their own."""

from pathlib import Path
from typing import Any

import numpy as np
from scipy import io, sparse

from .accept import accept
from .count_files import UNREADABLE
from .errors import DataError
from .text_files import read_lines


def read_targets(path: Path, documents: int) -> tuple[Any, list[str] | None]:
    """Targets of `documents` rows, and their names, if anybody knows them.

    `y.npy`: an array [rows] or [rows, targets]; `Y.npz`, written by `scipy.sparse.save_npz`, or
    `Y.mtx`, Matrix Market: [rows, targets]. A file `labels.txt` beside it names the targets, one
    per line; it counts only where it has as many lines as there are targets. Returns an array or a
    `csr_array`, [rows, targets]. Raises `DataError` naming the file.
    """
    readers = {".npy": np.load, ".npz": sparse.load_npz, ".mtx": io.mmread}
    if not path.exists():
        raise DataError(f"{path}: there is no such file.")
    if path.suffix not in readers:
        raise DataError(f"{path}: unknown kind of targets; name one of {', '.join(readers)}.")
    try:
        with path.open("rb") as file:
            targets = readers[path.suffix](file)
    except UNREADABLE as error:
        raise DataError(f"{path}: cannot be read as targets: {error}") from error
    if sparse.issparse(targets):
        targets = sparse.csr_array(targets)
    elif isinstance(targets, np.ndarray) and targets.ndim == 1:
        targets = targets.reshape(-1, 1)
    accept(targets, f"{path}: the targets")
    rows, columns = targets.shape
    if rows != documents:
        raise DataError(f"{path}: targets of {rows} rows, but there are {documents} documents.")
    listed = path.with_name("labels.txt")
    names = [line.strip() for _, line in read_lines(listed)] if listed.exists() else []
    return targets, names if len(names) == columns else None
