"""Blocks of a matrix that lies on a device: the numbers of their rows."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays.accept import CSR
from ..arrays.copy_rows import count_entries
from ..block import HostBlock
from ..source import DataSource, check_request
from .order import RowOrder

FEW_ROWS = 2**12  # so few numbers are written in less time than a thread takes to wake up


class RowNumbers:
    """The rows of a matrix, as blocks of their numbers, with weights, if rows have any.

    shape: has no features and no targets, for blocks bring none. The `nnz` of a block is that of
        its rows.
    """

    names: Sequence[str] | None = None

    def __init__(
        self,
        source: DataSource,
        order: RowOrder,
        matrix: CSR | npt.NDArray[Any],
        weights: npt.NDArray[np.float32] | None,
    ) -> None:
        """Give the numbers of the rows of a source, whose matrix and weights these are."""
        self.shape = replace(source.shape, nnz=0, dense=False, targets=0)
        self.blocks = order.blocks
        self._source, self._order, self._matrix, self._weights = source, order, matrix, weights

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the source."""
        return self._source.fingerprint

    def read(self, pass_: int, index: int, into: HostBlock) -> None:
        """Fill `into` with the row numbers of block `index` of pass `pass_`."""
        check_request(self, pass_, index, into.shape)
        into.write()
        rows = self._order.rows_of(pass_, index, into.row_ids)
        ids = into.row_ids[:rows]
        if self._weights is not None:
            np.take(self._weights, ids, out=into.weights[:rows], mode="clip")
        into.finish(pass_=pass_, index=index, rows=rows, checked=True)
        if isinstance(self._matrix, CSR):
            into.nnz = count_entries(ids, self._matrix.indptr)

    def kept(self, pass_: int, index: int) -> bool:
        """Whether blocks are small."""
        return self.shape.rows <= FEW_ROWS
