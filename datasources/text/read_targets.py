"""Reads targets and weights of documents from separate files."""

from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from ..arrays.accept import accept, accept_weights
from ..arrays.block_shape import MAX_COLUMNS
from ..errors import DataError
from ..parsing.array_files import READERS, load_file
from ..parsing.lines import read_lines


def read_weights(path: Path, documents: int) -> Any:
    """Read the weights of documents from a .npy file: [rows], finite, not negative.

    Raises `DataError` with the file name.
    """
    if path.suffix != ".npy":
        raise DataError(f"{path}: unknown kind of weights; name a .npy file.")
    weights = load_file(path, "weights")
    if weights.shape != (documents,) or weights.dtype.kind not in "biuf":
        raise DataError(
            f"{path}: weights of shape {weights.shape} and dtype {weights.dtype}: must be "
            f"{documents} real numbers, one per document."
        )
    return accept_weights(weights, str(path))


def read_targets(path: Path, documents: int) -> tuple[Any, list[str] | None]:
    """Read the targets of `documents` rows, and their names, or None if unknown.

    - `y.npy`: an array [rows] or [rows, targets].
    - `Y.npz`: written by `scipy.sparse.save_npz`, [rows, targets].
    - `Y.mtx`: Matrix Market, [rows, targets].

    A file `labels.txt` beside it names the targets, one per line. It is used only if it has one
    line per target. Returns an array or a `csr_array` [rows, targets]. Raises `DataError` with the
    file name.
    """
    if not path.exists():
        raise DataError(f"{path}: there is no such file.")
    if path.suffix not in READERS:
        raise DataError(f"{path}: unknown kind of targets; name one of {', '.join(READERS)}.")
    targets = load_file(path, "targets")
    if sparse.issparse(targets):
        targets = sparse.csr_array(targets)
    elif isinstance(targets, np.ndarray) and targets.ndim == 1:
        targets = targets.reshape(-1, 1)
    accept(targets, f"{path}: the targets")
    rows, columns = targets.shape
    if columns > MAX_COLUMNS:
        raise DataError(f"{path}: {columns} targets: must be at most {MAX_COLUMNS}.")
    if rows != documents:
        raise DataError(f"{path}: targets of {rows} rows, but there are {documents} documents.")
    listed = path.with_name("labels.txt")
    names = [line.strip() for _, line in read_lines(listed)] if listed.exists() else []
    return targets, names if len(names) == columns else None
