"""A model's tensors as files of other programs: `learn export` without the command line.

| ends in | holds |
|---|---|
| `.npz` | tensors, and the names that are known: `column_names`, `row_names`, `target_names` |
| `.parquet` | one tensor: a row for each word, item or user: its number, its name, its vector |
| `.npy` | one tensor, float32, C-contiguous: for faiss and whatever else takes an array |
| no ending | a folder with a `.parquet` for each tensor |

Tensors are mapped into memory and written part by part, so a model may be larger than memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklearn.datasources import HashedWords
from blocklearn.durable import new_file, write_folder
from blocklearn.models import MODELS

from ..errors import RunFolderError
from ..files.allocated import new_npy
from .model_folder import Saved

ENDINGS = (".npz", ".parquet", ".npy")
SINGLE = (".parquet", ".npy")  # that hold one tensor
PART = 1 << 24  # bytes of a tensor that are written at a time

Tensor = NDArray[Any]


def check(saved: Saved, to: Path, tensor: str | None) -> None:
    """Raises `ValueError` if the model has no such tensor, or `to` takes one and it has several."""
    listed = ", ".join(f"{name} {sizes(array)}" for name, array in saved.tensors.items())
    if to.suffix and to.suffix not in ENDINGS:
        known = ", ".join(ENDINGS)
        raise ValueError(f"{to}: must end in {known}, or in nothing: a folder of .parquet files")
    if tensor is not None and tensor not in saved.tensors:
        raise ValueError(f"there is no tensor {tensor!r}; the model has {listed}")
    if to.suffix in SINGLE and tensor is None and len(saved.tensors) > 1:
        raise ValueError(f"{to.suffix} holds one tensor: choose one with --tensor from {listed}")


def check_free(saved: Saved, to: Path, tensor: str | None) -> None:
    """Raises `RunFolderError` if `export` would replace a file."""
    files = [to]
    if not to.suffix:
        files = [to / f"{name}.parquet" for name in ([tensor] if tensor else saved.tensors)]
    there = next((file for file in files if file.exists()), None)
    if there is not None:
        raise RunFolderError(f"{there}: a file is there already. --overwrite replaces it.")


def export(saved: Saved, to: Path, tensor: str | None = None) -> list[str]:
    """Writes the tensor called `tensor`, or all, to `to`, as its ending says; what is there is
    replaced in one step. Returns a line for each tensor that says what was written.

    Raises:
        ValueError: see `check`.
        OSError: it cannot be written.
    """
    check(saved, to, tensor)
    chosen = {name: saved.tensors[name] for name in ([tensor] if tensor else saved.tensors)}
    if to.suffix == ".npz":
        with new_file(to) as file:
            write_npz(file, saved, chosen)
    elif to.suffix == ".npy":
        with new_file(to) as file:
            write_npy(file, next(iter(chosen.values())))
    elif to.suffix == ".parquet":
        with new_file(to) as file:
            write_parquet(file, saved, next(iter(chosen)))
    else:

        def fill(folder: Path) -> None:
            for name in chosen:
                write_parquet(folder / f"{name}.parquet", saved, name)

        write_folder(to, fill)
    return [f"{to}: {name}, {sizes(array)}" for name, array in chosen.items()]


def write_npz(file: Path, saved: Saved, tensors: dict[str, Tensor]) -> None:
    """Tensors and names as arrays; names are text of a fixed length (`<U12`), not pickled."""
    hashed = isinstance(saved.names, HashedWords)  # nobody knows the words of these
    named = {
        "column_names": None if hashed else saved.names,
        "row_names": saved.row_names,
        "target_names": saved.target_names,
    }
    arrays: dict[str, Any] = {
        name: np.array(list(found), np.str_) for name, found in named.items() if found is not None
    }
    with file.open("wb") as stream:
        np.savez(stream, allow_pickle=False, **arrays, **tensors)


def write_npy(file: Path, tensor: Tensor) -> None:
    """A tensor as float32."""
    into = new_npy(file, np.float32, tensor.shape)
    for start, part in parts(tensor):
        into[start : start + len(part)] = part


def write_parquet(file: Path, saved: Saved, tensor: str) -> None:
    """A tensor as a table of its rows.

    Columns: `number`, int64; `name`, text, if it is known; and the numbers of the row: float32
    `TENSOR.OUTPUT` for each of the columns of a GLM, else a list of fixed length, `vector`.
    """
    import pyarrow as pa
    from pyarrow import parquet

    array = saved.tensors[tensor]
    names, columns = names_of_rows(saved, tensor), names_of_columns(saved, tensor)
    numbers = pa.from_numpy_dtype(array.dtype)
    fields = [pa.field("number", pa.int64())]
    fields += [] if names is None else [pa.field("name", pa.string())]
    if columns is None:
        fields.append(pa.field("vector", pa.list_(numbers, array.shape[1])))
    else:
        fields += [pa.field(f"{tensor}.{column}", numbers) for column in columns]
    schema = pa.schema(fields)
    with parquet.ParquetWriter(str(file), schema) as writer:
        for start, part in parts(array):
            found = [pa.array(np.arange(start, start + len(part)))]
            if names is not None:
                found.append(pa.array(names[start : start + len(part)], pa.string()))
            if columns is None:
                flat = pa.array(part.reshape(-1))
                found.append(pa.FixedSizeListArray.from_arrays(flat, array.shape[1]))
            else:
                found += [pa.array(np.ascontiguousarray(column)) for column in part.T]
            writer.write_table(pa.table(found, schema=schema))


def names_of_rows(saved: Saved, tensor: str) -> Sequence[str] | None:
    """What the rows of a tensor are called: the state of rows (or columns) of a model like these;
    any other tensor with as many rows as the data have columns like those.
    """
    model = MODELS.get(saved.kind)
    side = None if model is None else model.row_states.get(tensor)
    names = saved.row_names if side == 0 else saved.names
    return names if names is not None and len(names) == len(saved.tensors[tensor]) else None


def names_of_columns(saved: Saved, tensor: str) -> list[str] | None:
    """What the columns of a tensor are called, if they are the outputs of a GLM."""
    if saved.outputs is None or len(saved.outputs) != saved.tensors[tensor].shape[1]:
        return None
    return [output["name"] for output in saved.outputs]


def parts(tensor: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Consecutive rows of a tensor, `PART` bytes or less at a time, and the number of the first."""
    rows = max(1, PART // max(1, tensor[:1].nbytes))
    for start in range(0, len(tensor), rows):
        yield start, tensor[start : start + rows]


def sizes(tensor: Tensor) -> str:
    """`3,003 x 40`."""
    return " x ".join(f"{length:,}" for length in tensor.shape)
