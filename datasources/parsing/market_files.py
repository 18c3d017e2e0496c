"""Read Matrix Market files whole into memory, with every line checked.

SciPy's reader takes `0x10` for 0, ignores what follows a number, and reads float64.
"""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from ..errors import DataError
from .announced import check_announced
from .entries import read_entries
from .lines import placed_lines
from .market_head import mirrored, read_head
from .numbers import parse_float32
from .scratch import Scratch


def load_market(path: Path) -> Any:
    """Read a file's float32 matrix: a `coo_array` for coordinates, else an array.

    Raises:
        DataError: not a valid Matrix Market file of real numbers; names the line.
    """
    with tempfile.TemporaryDirectory(prefix="blocklearn-") as folder:
        scratch = Scratch(Path(folder))
        _, first, _ = next(placed_lines(path, scratch), (1, b"", None))
        if first.lower().split()[2:3] == [b"array"]:
            return read_array(path, scratch)
        head = read_head(path, scratch)
        found = read_entries(path, head.size, head.body, scratch)
        parts = list(mirrored(found, head.symmetry))
    rows, columns, values = (
        np.concatenate([np.empty(0, dtype), *(part[i] for part in parts)])
        for i, dtype in enumerate((np.int64, np.int32, np.float32))
    )
    check_announced(path, "rows", head.size.rows, values.size)
    return sparse.coo_array((values, (rows, columns)), shape=(head.size.rows, head.size.columns))


def read_array(path: Path, scratch: Scratch) -> Any:
    """Read a dense matrix: sizes, then one number per line, column by column.

    A symmetric matrix has only the numbers on and below the diagonal.
    """
    size, symmetry, body = read_head(path, scratch, "array")
    values = []
    for number, line, _ in placed_lines(path, scratch, body):
        try:
            if line.strip() and not line.startswith(b"%"):
                values.append(parse_float32(line.strip()))
        except ValueError as error:
            raise DataError(f"{path}:{number}: {error}.") from None
    rows, skew = size.rows, symmetry.startswith("skew")
    needed = size.entries if symmetry == "general" else rows * (rows + (-1 if skew else 1)) // 2
    if len(values) != needed:
        raise DataError(
            f"{path}: {len(values):,} numbers, but it declares {needed:,}; is it cut off?"
        )
    if symmetry == "general":
        return np.array(values, np.float32).reshape(size.columns, rows).T
    table = np.zeros((rows, rows), np.float32)
    upper = np.triu_indices(rows, int(skew))  # by row; by symmetry the lower part by column
    table.T[upper] = values
    table[upper] = -table.T[upper] if skew else table.T[upper]
    return table
