"""Write a model's tensors for other programs: `learn export` as a function.

| ending | contents |
|---|---|
| `.npz` | all tensors, and the known ones of `column_names`, `row_names`, `target_names` |
| `.parquet` | one tensor: number, name and vector of each word, item or user |
| `.csv`, `.tsv` | the same as text, with a column for each number of the vector |
| `.npy` | one tensor, float32, C-contiguous: for faiss and others that take an array |
| `.vec`, `.bin` | one tensor whose rows have names, in word2vec's formats of text and of bytes |
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
from blocklearn.datasources.arrays.arrow import number_array, text_array
from blocklearn.durable import new_file, write_folder
from blocklearn.models import LDA, MODELS

from ..files.allocated import new_npy
from ..files.existing import check_new
from .model_folder import MANIFEST, Saved
from .schemas import check_content
from .table_file import TABLES, table_writer, unique

WORD2VEC = (".vec", ".bin")
SINGLE = (*TABLES, ".npy", *WORD2VEC)  # endings of files with one tensor
ENDINGS = (".npz", *SINGLE)
PART = 1 << 24  # bytes of a tensor that are written at a time

Tensor = NDArray[Any]


def check(saved: Saved, to: Path, tensor: str | None) -> None:
    """Raise `ValueError` if `export` cannot write `tensor`, or all tensors, to `to`.

    The ending may be unknown, the model may not have the tensor, a file for one tensor may need a
    choice among several, or the folder may be that of a model.
    """
    listed = ", ".join(f"{name} {sizes(array)}" for name, array in saved.tensors.items())
    if to.suffix and to.suffix not in ENDINGS:
        known = ", ".join(ENDINGS)
        raise ValueError(f"{to}: must end in {known}, or be a folder (no ending)")
    if not to.suffix and (to / MANIFEST).exists():
        raise ValueError(f"{to}: has a model in it; choose another folder")
    if tensor is not None and tensor not in saved.tensors:
        raise ValueError(f"unknown tensor {tensor!r}; the model has {listed}")
    if to.suffix in SINGLE and tensor is None and len(saved.tensors) > 1:
        raise ValueError(f"{to.suffix} holds one tensor: choose one with --tensor from {listed}")
    if to.suffix in WORD2VEC:
        check_words(saved, tensor or next(iter(saved.tensors)), to.suffix)


def check_words(saved: Saved, tensor: str, ending: str) -> None:
    """Raise `ValueError` if rows of a tensor cannot be the words of a file for word2vec."""
    names = names_of_rows(saved, tensor)
    if names is None:
        raise ValueError(f"{ending} needs a name for each row, but rows of {tensor} have none")
    for row, name in enumerate(names):
        if name.split() != [name]:
            raise ValueError(
                f"{ending} takes names without spaces, but row {row} of {tensor} is called "
                f"{name!r}; choose .parquet or .npz"
            )


def check_free(saved: Saved, to: Path, tensor: str | None) -> None:
    """Raise `RunFolderError` if `export` would replace a file."""
    files = [to]
    if not to.suffix:
        files = [to / f"{name}.parquet" for name in ([tensor] if tensor else saved.tensors)]
    check_new(files)


def export(saved: Saved, to: Path, tensor: str | None = None) -> list[str]:
    """Write tensors in the format that the ending of `to` names.

    An existing file is replaced in one step.

    Args:
        saved: the model.
        to: the file or folder.
        tensor: the name of the only tensor to write; None: all.

    Returns:
        A line for each tensor that says what was written.

    Raises:
        ValueError: `check` refuses the arguments.
        OSError: a file cannot be written.
    """
    check(saved, to, tensor)
    chosen = {name: saved.tensors[name] for name in ([tensor] if tensor else saved.tensors)}
    if to.suffix == ".npz":
        with new_file(to) as file:
            write_npz(file, saved, chosen)
    elif to.suffix == ".npy":
        with new_file(to) as file:
            write_npy(file, next(iter(chosen.values())))
    elif to.suffix in WORD2VEC:
        with new_file(to) as file:
            write_word2vec(file, saved, next(iter(chosen)), binary=to.suffix == ".bin")
    elif to.suffix in TABLES:
        with new_file(to) as file:
            write_table(file, saved, next(iter(chosen)), to.suffix)
    else:

        def fill(folder: Path) -> None:
            for name in chosen:
                write_table(folder / f"{name}.parquet", saved, name, ".parquet")

        write_folder(to, fill)
    return [f"{to}: {name}, {sizes(array)}" for name, array in chosen.items()]


def write_npz(file: Path, saved: Saved, tensors: dict[str, Tensor]) -> None:
    """Write tensors and names as arrays.

    Names are text of a fixed length (`<U12`), not pickled.
    """
    hashed = isinstance(saved.names, HashedWords)  # the words of hashed columns are unknown
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
    """Write a tensor as float32."""
    into = new_npy(file, np.float32, tensor.shape)
    for start, part in parts(tensor):
        into[start : start + len(part)] = part


def write_word2vec(file: Path, saved: Saved, tensor: str, *, binary: bool) -> None:
    """Write names and vectors of rows as the program word2vec does, and as gensim reads them.

    The first line has the number of words and the length of a vector. Then follow a word, a space
    and its vector for each row: as text with a space between numbers, or as float32, little-endian.
    """
    array, names = saved.tensors[tensor], names_of_rows(saved, tensor)
    assert names is not None  # `check` has seen them
    with file.open("wb") as stream:
        stream.write(f"{array.shape[0]} {array.shape[1]}\n".encode())
        for start, part in parts(array):
            named = zip(names[start : start + len(part)], part.astype("<f4"), strict=True)
            for name, vector in named:
                numbers = vector.tobytes() if binary else " ".join(map(str, vector)).encode()
                stream.write(name.encode() + b" " + numbers + b"\n")


def write_table(file: Path, saved: Saved, tensor: str, ending: str) -> None:
    """Write a tensor as a table of its rows; ending: one of `TABLES`.

    The table has the columns `number`, int64, and, if names are known, `name`, text. For a GLM, a
    column `TENSOR.OUTPUT` follows for each output; for topics with names, a column `TENSOR.TOPIC`.
    For other models, a fixed-size list `vector` follows, or in text `vector 0` and so on.
    """
    import pyarrow as pa

    array = saved.tensors[tensor]
    names, columns = names_of_rows(saved, tensor), names_of_columns(saved, tensor)
    called = None if columns is None else [f"{tensor}.{column}" for column in columns]
    if called is None and ending != ".parquet":
        called = [f"vector {number}" for number in range(array.shape[1])]
    numbers = pa.from_numpy_dtype(array.dtype)
    fields = [pa.field("number", pa.int64())]
    fields += [] if names is None else [pa.field("name", pa.string())]
    if called is None:
        fields.append(pa.field("vector", pa.list_(numbers, array.shape[1])))
    else:
        fields += [pa.field(name, numbers) for name in called]
    schema = pa.schema(fields)
    with table_writer(file, ending, schema) as write:
        for start, part in parts(array):
            found = [number_array(np.arange(start, start + len(part)))]
            if names is not None:
                found.append(text_array(names[start : start + len(part)]).cast(pa.string()))
            if called is None:
                flat = number_array(part.reshape(-1))
                found.append(pa.FixedSizeListArray.from_arrays(flat, array.shape[1]))
            else:
                found += [number_array(column) for column in part.T]
            write(pa.table(found, schema=schema))


def names_of_rows(saved: Saved, tensor: str) -> Sequence[str] | None:
    """Return the names of a tensor's rows; None: unknown, or not as many as rows.

    A state of rows or columns has their names. Any other tensor has those of the columns.
    """
    model = MODELS.get(saved.kind)
    side = None if model is None else model.row_states.get(tensor)
    names = saved.row_names if side == 0 else saved.names
    return names if names is not None and len(names) == len(saved.tensors[tensor]) else None


def names_of_columns(saved: Saved, tensor: str) -> list[str] | None:
    """Return the names of a tensor's columns: outputs of a GLM, topics with names; or None.

    Raises ModelFolderError if the settings of the model were edited or damaged.
    """
    names = [output["name"] for output in saved.outputs or ()]
    if saved.kind == "lda":
        check_content(LDA, saved.config, "model.json: config")
        model = LDA(**saved.config)
        names = unique(model.topic_names) if model.given_names else []
    return names if len(names) == saved.tensors[tensor].shape[1] else None


def parts(tensor: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Yield first number and rows of parts of up to `PART` bytes each."""
    rows = max(1, PART // max(1, tensor[:1].nbytes))
    for start in range(0, len(tensor), rows):
        yield start, tensor[start : start + rows]


def sizes(tensor: Tensor) -> str:
    """Return the shape of a tensor as text: `3,003 x 40`."""
    return " x ".join(f"{length:,}" for length in tensor.shape)
