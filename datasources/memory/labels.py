"""The labels of rows: targets to predict, and weights."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash
from scipy import sparse

from ..arrays.accept import CSR, accept, accept_weights
from ..arrays.block_shape import MAX_COLUMNS
from ..arrays.copy_rows import expand_csr, gather_dense
from ..arrays.hashing import hash_matrix, hash_numbers
from ..arrays.moments import weighted_sums
from ..block import HostBlock
from ..errors import DataError

Sums = tuple[float, list[float]]
"""The sum of weights, and of weight times target for each target."""


class Labels:
    """Verified targets and weights of `rows` rows; each is None if not given.

    - targets: [rows] or [rows, T], numbers or booleans: a SciPy sparse matrix (multi-label) or
      anything that `numpy.asarray` takes. C-contiguous and CSR targets are kept, not copied.
    - weights: [rows], finite, not negative.
    - names: names of the targets.

    Raises `DataError`.
    """

    def __init__(self, rows: int, targets: Any, weights: Any, names: Sequence[str] | None) -> None:
        """Verify everything."""
        self.rows = rows
        self.targets = None if targets is None else accept_targets(targets, rows)
        self.weights = None
        if weights is not None:
            check_rows("weights", np.shape(weights), rows)
            self.weights = accept_weights(weights, "MatrixSource")
        self._hold(names)
        if self.columns > MAX_COLUMNS:
            raise DataError(f"MatrixSource: {self.columns} targets: must be at most {MAX_COLUMNS}.")
        if names is not None and len(names) != self.columns:
            raise DataError(
                f"MatrixSource: {self.columns} targets and {len(names)} target_names; give each "
                "target one name."
            )
        if names is not None and len(set(names)) != len(names):
            twice = next(name for i, name in enumerate(names) if name in names[:i])
            raise DataError(f"MatrixSource: target_names has {twice!r} twice.")

    def _hold(self, names: Sequence[str] | None) -> None:
        """Note what follows from verified labels."""
        table = self.targets
        self.names, self.given = names, table is not None or self.weights is not None
        self.columns = (
            0 if table is None else table.columns if isinstance(table, CSR) else table.shape[1]
        )
        self._sums: Sums | None = None

    @classmethod
    def verified(
        cls,
        rows: int,
        targets: CSR | npt.NDArray[Any] | None,
        weights: npt.NDArray[np.float32] | None,
        names: Sequence[str] | None,
        sums: Sums,
    ) -> "Labels":
        """Return labels that were verified before, with their `sums`; none is read."""
        found = cls.__new__(cls)
        found.rows, found.targets, found.weights = rows, targets, weights
        found._hold(names)
        found._sums = sums
        return found

    def of_weights(self) -> "Labels":
        """Return the weights without the targets."""
        return Labels(self.rows, None, self.weights, None)

    def write(self, ids: npt.NDArray[np.int64], into: HostBlock, at: int = 0) -> None:
        """Write targets and weights of the rows `ids` to a block from row `at` on."""
        self.write_targets(ids, into.targets[at:])
        if self.weights is not None:
            np.take(self.weights, ids, out=into.weights[at : at + ids.size], mode="clip")

    def write_targets(self, ids: npt.NDArray[np.int64], targets: npt.NDArray[np.float32]) -> None:
        """Write the targets of the rows `ids` to the first rows of a table."""
        if isinstance(self.targets, CSR):
            matrix = self.targets
            bad = expand_csr(ids, matrix.indptr, matrix.indices, matrix.values, targets)
            if bad >= 0:
                raise DataError(
                    f"MatrixSource: the targets of row {ids[bad]} are not what they were when the "
                    "source was made; do not change them while they are in use."
                )
        elif self.targets is not None:
            gather_dense(ids, self.targets, targets)

    def sums(self) -> Sums:
        """Return the sum of weights, and of weight times target for each target."""
        if self._sums is not None:
            return self._sums
        rows = 0 if self.targets is None else self.rows
        weights = np.ones(rows) if self.weights is None else self.weights.astype(np.float64)
        if isinstance(self.targets, CSR):
            matrix = sparse.csr_array(
                (self.targets.values, self.targets.indices, self.targets.indptr),
                shape=(self.rows, self.columns),
            )
            found = weights @ matrix
        elif self.targets is not None:
            found = np.zeros(self.columns)
            for start in range(0, self.rows, 4096):  # no copy of the whole table in float64
                part = slice(start, start + 4096)
                found += weighted_sums(weights[part], self.targets[part])
        else:
            found = np.zeros(0)
        return float(weights.sum()), found.tolist()

    def hash(self, digest: xxhash.xxh3_64) -> None:
        """Add targets and weights, if given, to a digest."""
        if self.targets is not None:
            digest.update(f"targets {self.columns} {isinstance(self.targets, CSR)}".encode())
            hash_matrix(digest, self.targets)
        if self.weights is not None:
            digest.update(b"weights")
            hash_numbers(digest, self.weights, np.float32)


def accept_targets(targets: Any, rows: int) -> CSR | npt.NDArray[Any]:
    """Return targets as verified CSR or as a verified C-contiguous table [rows, T].

    A row of a table by columns, as of pandas, lies in as many lines of the cache as it has numbers.
    """
    if not sparse.issparse(targets):
        targets = np.asarray(targets)
        if targets.dtype.kind in "OSUT" and targets.size:
            raise DataError(
                f"MatrixSource: targets are of dtype {targets.dtype} (the first one is "
                f"{targets.flat[0]!r}), but must be numbers. One column of 0 and 1 per class: "
                "targets=(y[:, None] == numpy.unique(y)), target_names=numpy.unique(y)."
            )
        if targets.ndim == 1:
            targets = targets.reshape(-1, 1)
    check_rows("targets", targets.shape, rows)
    table = accept(targets, "MatrixSource: targets")
    return table if isinstance(table, CSR) else np.ascontiguousarray(table)


def check_rows(what: str, shape: tuple[int, ...], rows: int) -> None:
    """Raise `DataError` unless labels have as many rows as X."""
    if not shape or shape[0] != rows:
        found = shape[0] if shape else "no"
        hint = "; pass Y.T" if len(shape) == 2 and shape[1] == rows else ""
        raise DataError(
            f"MatrixSource: {what} have {found} rows and X has {rows}, but must have as many{hint}."
        )
