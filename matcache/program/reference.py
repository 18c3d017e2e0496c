"""The definition of row-wise programs: the same Python code, in NumPy float64.

It runs row by row: slow and obvious. Tests compare every compiled function with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..notation.elementwise import ELEMENTWISE
from ..notation.operand import Operand
from .loops import EagerLoop, eager_loop
from .records import flatten, rebuild

_REDUCE: dict[str, tuple[Callable[..., Any], float]] = {
    "rowsum": (np.sum, 0.0),
    "rowmax": (np.max, -np.inf),
    "rowmin": (np.min, np.inf),
}


class Ref(Operand):
    """One row of a matrix, or a whole table, as a NumPy array.

    columns: columns of the non-zeros, if the row is sparse.
    """

    def __init__(self, array: Any, columns: Any = None, table: Any = None) -> None:
        """Wrap one row.

        array: [1 x k], or the values of one row's non-zeros.
        columns: columns of these non-zeros.
        table: all rows of the matrix.
        """
        self.array = array
        self.columns = columns
        self.whole: Callable[[], Any] = lambda: array if table is None else table

    @property
    def table(self) -> Any:
        """All rows of the matrix; of an expression of matrices, as a whole too."""
        return self.whole()

    def _apply(self, op: str, args: tuple[Any, ...]) -> Ref:
        if op in ELEMENTWISE:
            columns = next((a.columns for a in args if _sparse(a)), None)
            define = ELEMENTWISE[op].define
            with np.errstate(all="ignore"):
                arrays = [_values(a, columns) for a in args]
                found = Ref(np.array(define(*arrays), dtype=np.float64), columns)
            found.whole = lambda: define(*(a.table if isinstance(a, Ref) else a for a in args))
            return found
        if op == "sddmm":
            row, table, pattern = args
            return Ref(table.table[pattern.columns] @ row.array.ravel(), pattern.columns)
        if op == "matmul":
            left, table = args
            rows = table.table if left.columns is None else table.table[left.columns]
            return Ref((left.array.ravel() @ rows)[None, :])
        if op in _REDUCE:
            array = args[0].array
            reduce, start = _REDUCE[op]
            return Ref(np.array([[reduce(array, initial=start)]]))
        if op in ("argmax", "argmin"):
            array, columns = args[0].array.ravel(), args[0].columns
            place = getattr(np, op)(array) if len(array) else -1
            place = place if columns is None or place < 0 else columns[place]
            return Ref(np.array([[float(place)]]))
        if op == "rownnz":
            return Ref(np.array([[float(len(args[0].columns))]]))
        raise TypeError(f"{op} is not row-local")

    def _assign(self, value: Any) -> None:
        self.array[...] = value.array if isinstance(value, Ref) else value

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the row: (1, columns)."""
        rows, columns = self.array.shape
        return (rows, columns)

    def mean(self, axis: int | None = None) -> Ref:
        """Return the mean of the row's numbers."""
        found: Ref = self.sum(axis) / float(self.shape[1])
        return found

    def __float__(self) -> float:
        """Return the first number."""
        return float(self.array.ravel()[0])

    def __int__(self) -> int:
        """Return the first number, as a count of rounds."""
        return int(float(self))


def _sparse(arg: Any) -> bool:
    return isinstance(arg, Ref) and arg.columns is not None


def _values(arg: Any, columns: Any) -> Any:
    """Bring an elementwise operation's argument to the non-zeros, if there are any."""
    if not isinstance(arg, Ref):
        return arg
    if columns is None or arg.columns is not None:
        return arg.array
    return arg.array.ravel()[columns] if arg.array.size > 1 else arg.array.ravel()


def run_rows(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Run `function` for each row.

    Dense arguments with a row per row are written in place by <<=. Returns what the function
    returns, stacked: arrays [rows x k], or SciPy CSR for non-zeros.
    """
    args, structure = flatten(args)
    work = [_float64(a) for a in args]
    shapes = [a.shape for a in work if sp.issparse(a)]
    rows = (shapes or [np.shape(a) for a in work if np.ndim(a) == 2])[0][0]
    results: list[tuple[Any, ...]] = []
    single = False
    for i in range(rows):
        inputs = rebuild(structure, tuple(_row(a, i, rows) for a in work))
        token = eager_loop.set(EagerLoop())
        try:
            result = function(*inputs)
        finally:
            eager_loop.reset(token)
        single = not isinstance(result, tuple)
        results.append((result,) if single else result)
    for arg, after in zip(args, work, strict=True):
        if isinstance(arg, np.ndarray):
            arg[...] = after
    if not results or results[0][0] is None:
        return None
    shape = shapes[0] if shapes else (rows, 0)
    stacked = tuple(_stack([r[n] for r in results], shape) for n in range(len(results[0])))
    return stacked[0] if single else stacked


def _row(arg: Any, i: int, rows: int) -> Any:
    if sp.issparse(arg):
        part = slice(arg.indptr[i], arg.indptr[i + 1])
        return Ref(arg.data[part], arg.indices[part])
    if np.ndim(arg) == 2:
        return Ref(arg[i : i + 1], table=arg) if arg.shape[0] == rows else Ref(arg)
    return arg


def _float64(arg: Any) -> Any:
    if sp.issparse(arg):
        return sp.csr_array(arg, dtype=np.float64, copy=True)
    return arg.astype(np.float64) if isinstance(arg, np.ndarray) else arg


def _stack(values: list[Ref], shape: tuple[int, int]) -> Any:
    if values[0].columns is not None:
        data = np.concatenate([v.array.ravel() for v in values])
        columns = np.concatenate([v.columns for v in values])
        starts = np.cumsum([0, *(len(v.columns) for v in values)])
        return sp.csr_array((data, columns, starts), shape=shape)
    return np.vstack([np.atleast_2d(v.array) for v in values])
