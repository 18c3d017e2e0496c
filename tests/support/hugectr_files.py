"""Write data sets in HugeCTR's binary formats."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from blocklearn.datasources import DataError
from blocklearn.datasources.hugectr.parts import HEADER

Keys = Sequence[Sequence[Any]]


def write_norm(
    path: Path,
    labels: npt.NDArray[Any],
    dense: npt.NDArray[Any],
    slots: Sequence[Keys],
    *,
    files: int = 1,
    checked: bool = True,
    key_type: str = "I32",
) -> None:
    """Write a Norm data set: the file list `path` (x.txt), x0.data, x1.data, ...

    labels: [n, L], become float32.
    dense: [n, D], become float32.
    slots: for each slot, for each of the n rows, its keys (integers).
    files: number of files; each gets consecutive rows.
    checked: whether to write check sums.
    key_type: I32 or I64.

    Raises `DataError` for values that do not fit.
    """
    rows = check_rows(labels, dense, [len(slot) for slot in slots])
    kind: np.dtype[Any] = np.dtype({"I32": "<u4", "I64": "<i8"}[key_type])
    numbers = np.hstack([labels, dense]).astype("<f4")
    names = [path.with_name(f"{path.stem}{i}.data") for i in range(files)]
    cuts = np.linspace(0, rows, files + 1).astype(int)
    for name, start, stop in zip(names, cuts[:-1], cuts[1:], strict=True):
        with whole_file(name) as file:
            sizes = labels.shape[1], dense.shape[1], len(slots)
            file.write(record(HEADER.pack(int(checked), stop - start, *sizes, 0, 0, 0), checked))
            for row in range(start, stop):
                parts = [numbers[row].tobytes()]
                for slot in slots:
                    keys = as_keys(slot[row], kind, row)
                    parts += [len(keys).to_bytes(4, "little"), keys.tobytes()]
                file.write(record(b"".join(parts), checked))
    with whole_file(path) as file:
        file.write("\n".join([str(files), *(name.name for name in names), ""]).encode())


def write_raw(
    path: Path,
    labels: npt.NDArray[Any],
    dense: npt.NDArray[Any],
    keys: npt.NDArray[Any],
    *,
    float_label_dense: bool = True,
) -> None:
    """Write a Raw file.

    labels, dense: [n, L] and [n, D], become float32, or int32 without `float_label_dense`.
    keys: [n, S], become uint32.
    """
    rows = check_rows(labels, dense, [len(keys)])
    number = np.dtype("<f4" if float_label_dense else "<i4")
    parts = [
        np.hstack([labels, dense]).astype(number).view(np.uint8).reshape(rows, -1),
        as_keys(keys, np.dtype("<u4"), 0).view(np.uint8).reshape(rows, -1),
    ]
    with whole_file(path) as file:
        file.write(np.hstack(parts).tobytes())


def record(data: bytes, checked: bool) -> bytes:
    """Return a record; if `checked`, between its length and its check sum."""
    if not checked:
        return data
    return len(data).to_bytes(4, "little") + data + bytes([sum(data) % 256])


def check_rows(labels: Any, dense: Any, others: Sequence[int]) -> int:
    """Return the number of rows. Raises `DataError` if it differs between arrays."""
    if labels.ndim != 2 or dense.ndim != 2:
        raise DataError(
            f"labels have the shape {labels.shape} and dense features {dense.shape}; both must "
            "be tables [rows, columns]. reshape(n, 0) makes one without columns."
        )
    found = {len(labels), len(dense), *others}
    if len(found) != 1:
        raise DataError(f"labels, dense features and slots have {sorted(found)} rows.")
    return len(labels)


def as_keys(keys: Any, kind: np.dtype[Any], row: int) -> npt.NDArray[Any]:
    """Convert keys to a type.

    Raises `DataError` if they do not fit. row: for the message.
    """
    array = np.asarray(keys, np.int64)
    limits = np.iinfo(kind)
    if array.size and not (array.min() >= 0 and array.max() <= limits.max):
        raise DataError(f"row {row}: keys {array.min()} to {array.max()} do not fit {kind.name}.")
    return array.astype(kind)


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file that appears at `path` only when it is completely written."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            yield file
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
