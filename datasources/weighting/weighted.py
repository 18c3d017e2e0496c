"""Weighs the entries of rows by how much their columns tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from ..arrays.compiled import kernel
from ..block import HostBlock
from ..errors import DataError
from ..holdout.derived import DerivedSource
from ..source import DataSource, each_block, rows_last, target_names
from .names import Weighting

IDF, TF_IDF, PMI = 0, 1, 2
CODES: dict[Weighting, int] = {"idf": IDF, "tf-idf": TF_IDF, "pmi": PMI}

Floats = npt.NDArray[np.float32]


class WeightedSource(DerivedSource):
    """The rows of `source`, whose entries x_ij become others; those of 0 stay 0.

    - "idf": x_ij w_j, where w_j = ln((1 + n) / (1 + n_j)) + 1, n is the number of rows, and n_j
      that of rows with an entry in column j. It is scikit-learn's smooth inverse document
      frequency.
    - "tf-idf": the same, and then each row is divided by its Euclidean length.
    - "pmi": max(0, ln(x_ij / x_i) + w_j), where w_j = ln(x / x_j), and x_i, x_j and x are the sums
      of the row, of the column, and of all: positive pointwise mutual information (Church and
      Hanks, *Computational Linguistics* 16, 1990). Entries below 0 become 0.

    A row of weight 2 counts as two rows.

    weights: float32 [columns], w_j; None: those of a pass over `source`. A column without entries
        in this pass has w_j = 0 with "pmi".

    Raises `DataError` for a dense source.

    >>> from scipy.sparse import csr_array
    >>> from blocklearn.datasources import MatrixSource
    >>> source = MatrixSource(csr_array([[3.0, 1.0], [2.0, 0.0]]), block_rows=2)
    >>> weighted = WeightedSource(source, "idf")
    >>> block = HostBlock(weighted.shape)
    >>> weighted.read(0, 0, block)
    >>> block.values[:3].astype(float).round(3).tolist()
    [3.0, 1.405, 2.0]
    """

    def __init__(
        self, source: DataSource, weighting: Weighting, weights: Floats | None = None
    ) -> None:
        """Read a pass of `source`, if there are no weights."""
        if source.shape.dense:
            raise DataError(
                f"{weighting}: the data are dense: must be a sparse matrix of counts. Write "
                "scipy.sparse.csr_array(X)."
            )
        self.weights = weights_of(source, weighting) if weights is None else weights
        self._code = CODES[weighting]
        digest = xxhash.xxh3_64_hexdigest(self.weights.tobytes())
        super().__init__(source, source.shape, f"{weighting} {digest}")
        self.rows_last = rows_last(source)

    @property
    def target_names(self) -> Sequence[str] | None:
        """The names of the targets, or None."""
        return target_names(self._source)

    def _make(
        self, pass_: int, whole: HostBlock, scratch: npt.NDArray[Any], into: HostBlock
    ) -> int:
        rows, nnz = whole.rows, whole.nnz
        into.write()
        into.row_ids[:rows] = whole.row_ids[:rows]
        into.weights[:rows] = whole.weights[:rows]
        into.targets[:rows] = whole.targets[:rows]
        into.indptr[: rows + 1] = whole.indptr[: rows + 1]
        into.indices[:nnz] = whole.indices[:nnz]
        weigh(
            whole.indptr, whole.indices, whole.values, rows, self.weights, self._code, into.values
        )
        return rows

    def __repr__(self) -> str:
        """Show the weighting and the source."""
        name = next(name for name, code in CODES.items() if code == self._code)
        return f"WeightedSource({name} of {self._source})"


def weights_of(source: DataSource, weighting: Weighting) -> Floats:
    """Return w_j of a pass over a sparse source, float32 [columns]: see `WeightedSource`."""
    sums, rows = np.zeros(source.shape.columns), 0.0
    for block in each_block(source):
        rows += float(block.weights[: block.rows].sum(dtype=np.float64))
        add_columns(
            block.indptr, block.indices, block.values, block.weights, block.rows,
            weighting == "pmi", sums,
        )  # fmt: skip
    if weighting != "pmi":
        return (np.log((1.0 + rows) / (1.0 + sums)) + 1.0).astype(np.float32)
    found = np.zeros(sums.size)
    np.log(sums.sum() / np.where(sums > 0.0, sums, 1.0), where=sums > 0.0, out=found)
    return found.astype(np.float32)


@kernel
def add_columns(
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[np.int32],
    values: Floats,
    weights: Floats,
    rows: int,
    summed: bool,
    sums: npt.NDArray[np.float64],
) -> None:
    """Add the positive values of the columns, or the number of entries that are not 0."""
    for row in range(rows):
        for entry in range(indptr[row], indptr[row + 1]):
            value = np.float64(values[entry])
            if summed:
                sums[indices[entry]] += weights[row] * max(value, 0.0)
            elif value != 0.0:
                sums[indices[entry]] += weights[row]


@kernel
def weigh(
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[np.int32],
    values: Floats,
    rows: int,
    weights: Floats,
    code: int,
    found: Floats,
) -> None:
    """Write the weighed entries; code: IDF, TF_IDF or PMI."""
    for row in range(rows):
        start, end = indptr[row], indptr[row + 1]
        total = 0.0
        for entry in range(start, end):
            value = np.float64(values[entry])
            if code == PMI:
                total += max(value, 0.0)
            else:
                value *= weights[indices[entry]]
                total += value * value
        scale = 1.0 / np.sqrt(total) if code == TF_IDF and total > 0.0 else 1.0
        for entry in range(start, end):
            value, weight = np.float64(values[entry]), np.float64(weights[indices[entry]])
            if code != PMI:
                found[entry] = value * weight * scale
            elif value > 0.0:
                found[entry] = max(np.log(value / total) + weight, 0.0)
            else:
                found[entry] = 0.0
