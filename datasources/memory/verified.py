"""The rows of a matrix source, once they are verified, and what whole passes over them found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from ..arrays.accept import CSR
from .labels import Labels
from .order import RowOrder

PARTS = ("indptr", "indices", "values")  # of a CSR matrix


@dataclass(frozen=True)
class Verified:
    """What a `MatrixSource` is made of.

    - matrix: X; a table, or CSR with `columns` columns.
    - labels: of the rows.
    - order: of the rows in each pass.
    - names, row_names: of columns and rows, or None.
    - keep_bytes: most bytes of blocks kept for later passes.
    - fingerprint, value_sums: those of the source; None: not known yet.
    - turned: X.T in the same way; None: it is made where it is wanted.
    """

    matrix: CSR | npt.NDArray[Any]
    labels: Labels
    order: RowOrder
    names: Sequence[str] | None
    row_names: Sequence[str] | None
    keep_bytes: int
    fingerprint: str | None = None
    value_sums: tuple[float, int] | None = None
    turned: Verified | None = None

    @property
    def columns(self) -> int:
        """The number of columns."""
        return self.matrix.columns if isinstance(self.matrix, CSR) else int(self.matrix.shape[1])

    @property
    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays of X, the targets and the weights, by name."""
        labels = self.labels
        found = _arrays("X", self.matrix) | _arrays("targets", labels.targets)
        return found if labels.weights is None else found | {"weights": labels.weights}


def matrix_of(
    name: str, arrays: Mapping[str, npt.NDArray[Any]], columns: int
) -> CSR | npt.NDArray[Any] | None:
    """Return the matrix that `Verified.arrays` has under this name; None: there is none."""
    if name in arrays:
        return arrays[name]
    parts = {part: arrays[key] for part in PARTS if (key := f"{name}.{part}") in arrays}
    return CSR(**parts, columns=columns) if parts else None


def _arrays(name: str, matrix: CSR | npt.NDArray[Any] | None) -> dict[str, npt.NDArray[Any]]:
    if matrix is None:
        return {}
    if isinstance(matrix, CSR):
        return {f"{name}.{part}": getattr(matrix, part) for part in PARTS}
    return {name: matrix}
