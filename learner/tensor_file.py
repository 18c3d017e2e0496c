"""NumPy arrays in a safetensors file, with a digest each.

safetensors 0.8 stores an array that is not C-contiguous wrongly and without a word
(huggingface/safetensors#825), and has no checksums. So arrays are made contiguous, and what comes
back is compared with a digest of what went in.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from .errors import ModelFolderError

DTYPES = frozenset(
    "float64 float32 float16 int64 int32 int16 int8 uint64 uint32 uint16 uint8 bool".split()
)


def write_tensors(path: Path, tensors: Mapping[str, NDArray[Any]]) -> dict[str, dict[str, Any]]:
    """Writes `tensors` of any shape; returns shape, dtype and XXH3 digest by name.

    Raises:
        TypeError: a dtype that the file cannot hold.
    """
    from safetensors.numpy import save

    plain = {name: _plain(name, array) for name, array in tensors.items()}
    entries = {
        name: {"shape": list(array.shape), "dtype": array.dtype.name, "xxh3_128": _digest(array)}
        for name, array in plain.items()
    }
    path.write_bytes(save(plain))  # save_file makes files that only their owner can read
    return entries


def read_tensors(path: Path, entries: Mapping[str, Mapping[str, Any]]) -> dict[str, NDArray[Any]]:
    """The arrays named in `entries`, read one by one; they own their memory and are writable.

    Raises:
        ModelFolderError: an array is missing, or differs in shape, dtype or digest.
    """
    from safetensors import SafetensorError, safe_open

    tensors = {}
    try:
        with safe_open(str(path), framework="numpy") as file:
            for name, entry in entries.items():
                array = np.array(file.get_tensor(name), order="C")
                _compare(path, name, array, entry)
                tensors[name] = array
    except SafetensorError as error:
        raise ModelFolderError(f"{path}: damaged: {error}") from error
    return tensors


def _compare(path: Path, name: str, array: NDArray[Any], entry: Mapping[str, Any]) -> None:
    shape, dtype = tuple(entry["shape"]), entry["dtype"]
    if array.shape != shape or array.dtype.name != dtype or _digest(array) != entry["xxh3_128"]:
        raise ModelFolderError(
            f"{path}: array {name!r} is {array.dtype} {array.shape}, not what was written: "
            f"{dtype} {shape} with digest {entry['xxh3_128']}"
        )


def _plain(name: str, array: NDArray[Any]) -> NDArray[Any]:
    """`array` C-contiguous and little-endian; itself where it is both."""
    if array.dtype.name not in DTYPES:
        raise TypeError(f"array {name!r} is {array.dtype}; a model can hold {sorted(DTYPES)}")
    return np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")


def _digest(array: NDArray[Any]) -> str:
    return str(xxhash.xxh3_128_hexdigest(array.data))
