"""Read the rows of Matrix Market files in coordinate form.

A banner (`%%MatrixMarket matrix coordinate real general`) and sizes precede an entry per line.
R. F. Boisvert, R. Pozo, K. A. Remington, The Matrix Market exchange formats, NISTIR 5935 (1996).
"""

from collections.abc import Sequence
from pathlib import Path

from ..errors import DataError
from ..parsing.entries import read_entries
from ..parsing.layout import Known, Layout, check_columns
from ..parsing.market_head import mirrored, read_head
from ..parsing.scratch import Scratch
from .grouping import Grouped, group
from .names import names_beside


def matrix_market(paths: Sequence[Path], scratch: Scratch, known: Known | None = None) -> Grouped:
    """Read the rows of a file in coordinate form.

    Fields: real, integer or pattern (each entry is 1). Symmetries: general, symmetric or
    skew-symmetric. Entries may be in any order; those at one place are added. Names of columns come
    from `vocab.txt` beside the file, if it exists. Raises `DataError`.
    """
    if len(paths) > 1:
        raise DataError(
            f"{paths[1]}: a Matrix Market file is a whole matrix; convert each by itself."
        )
    path = paths[0]
    head = read_head(path, scratch)
    size = head.size
    columns = check_columns(path, size.columns, known)
    found = mirrored(read_entries(path, size, head.body, scratch), head.symmetry)
    parts = group(str(path), found, size.rows, scratch)
    names = names_beside(path, columns) if known is None else known.names
    return Grouped(str(path), Layout(columns, names=names), parts, scratch)
