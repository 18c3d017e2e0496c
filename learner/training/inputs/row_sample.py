"""Take a sample of the rows of a source."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from blocklearn.datasources import DataSource, HostBlock
from blocklearn.models import Sample


def take_rows(source: DataSource, most: int) -> Sample:
    """Return about `most` rows of the first pass, if there are as many.

    They are from 64 blocks or more that are far apart, with rows of each that are far apart, too.
    """
    shape = source.shape
    chosen = min(source.blocks, max(64, -(-most // shape.rows)))
    each = -(-most // chosen)
    block, X, weights = HostBlock(shape, indexed=False), list[Any](), list[Any]()
    for index in np.linspace(0, source.blocks - 1, chosen).astype(int).tolist():
        source.read(0, index, block)
        rows = np.unique(np.linspace(0, block.rows - 1, min(each, block.rows)).astype(int))
        X.append(_rows_of(block, shape.dense)[rows])
        weights.append(block.weights[rows])
    whole = np.concatenate(X) if shape.dense else sp.csr_array(sp.vstack(X, "csr"))
    return Sample(whole, np.concatenate(weights))


def _rows_of(block: HostBlock, dense: bool) -> Any:
    """Return copies of the true rows of a block, CSR or dense."""
    if dense:
        return np.array(block.dense[: block.rows])
    ends, nnz = block.indptr[: block.rows + 1], block.nnz
    arrays = (block.values[:nnz], block.indices[:nnz], ends)
    return sp.csr_array(arrays, shape=(block.rows, block.shape.columns), copy=True)
