"""Read targets of rows: arrays, columns of frames, and classes given as texts."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from ..errors import DataError
from .frames import is_column, is_frame, numbers_of


def targets_of(labels: Any, known: Sequence[str] | None = None) -> tuple[Any, Sequence[str] | None]:
    """Return targets [rows x targets] and their names, None if they have none.

    labels: an array or SciPy matrix, a frame, a series, or a list or series of texts: classes.
        Classes become a target each, 1 in the rows of the class, in the order of their names.
    known: the targets of the model; classes and columns of frames are taken in this order.

    Raises:
        DataError: a class or a column is not one of `known`, or an entry is no number.
    """
    if sparse.issparse(labels):
        return labels, None
    if is_frame(labels):
        return numbers_of(labels, known)
    name = getattr(labels, "name", None)
    values = array_of(labels)
    classes = texts_of(values)
    if classes is not None:
        return one_each(classes, known)
    return values, [str(name)] if name is not None and values.ndim == 1 else None


def array_of(column: Any) -> Any:
    """Return a series, an Arrow array or a list as a NumPy array."""
    if hasattr(column, "to_pylist"):  # Arrow
        return np.array(column.to_pylist())
    return np.asarray(column.to_numpy() if is_column(column) else column)


def texts_of(values: Any) -> Any:
    """Return values [rows] as an array of texts if all are texts, else None."""
    if values.ndim != 1 or values.dtype.kind not in "OUT" or not values.size:
        return None
    return values.astype(str) if all(isinstance(value, str) for value in values) else None


def one_each(classes: Any, known: Sequence[str] | None) -> tuple[Any, list[str]]:
    """Return a target for each class, SciPy CSR float32 [rows x classes], and their names."""
    names, codes = np.unique(classes, return_inverse=True)
    order = [str(name) for name in names] if known is None else [str(name) for name in known]
    place = {name: number for number, name in enumerate(order)}
    unknown = [str(name) for name in names if str(name) not in place]
    if unknown:
        row = int(np.flatnonzero(classes == unknown[0])[0])
        raise DataError(
            f"Y: row {row} has the class {unknown[0]!r}, but the model knows "
            f"{', '.join(map(repr, order[:5]))}{' ...' if len(order) > 5 else ''}."
        )
    columns = np.array([place[str(name)] for name in names], np.int32)[codes]
    ones, rows = np.ones(len(classes), np.float32), np.arange(len(classes) + 1)
    return sparse.csr_array((ones, columns, rows), shape=(len(classes), len(order))), order
