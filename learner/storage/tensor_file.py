"""NumPy arrays in a safetensors file, with a digest each: written and read without a copy of them.

The format: 8 bytes, the length of the header; the header, JSON, with the dtype and the shape of
each name, and where its bytes begin and end after the header; these bytes, C-contiguous and
little-endian. It has no checksums, so what comes back is compared with digests of what went in.

The `safetensors` package (0.8.0) cannot take its place: it orders arrays of one dtype otherwise, so
that digests of files would change, and stores transposed and strided arrays with wrong contents. It
also reads by copying, where we map, and hides the cause of an `OSError`.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from ..errors import ModelFolderError

DTYPES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "int64": "I64", "int32": "I32",
    "int16": "I16", "int8": "I8", "uint64": "U64", "uint32": "U32", "uint16": "U16",
    "uint8": "U8", "bool": "BOOL",
}  # fmt: skip
"""What the format calls a dtype."""


def write_tensors(path: Path, tensors: Mapping[str, NDArray[Any]]) -> dict[str, dict[str, Any]]:
    """Writes `tensors` of any shape; returns shape, dtype and XXH3 digest by name.

    Raises:
        TypeError: a dtype that the file cannot hold.
        OSError: it cannot be written.
    """
    names = sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name))  # all aligned
    header: dict[str, dict[str, Any]] = {}
    begin = 0
    for name in names:
        array, end = tensors[name], begin + tensors[name].nbytes
        header[name] = {
            "dtype": _code(name, array),
            "shape": list(array.shape),
            "data_offsets": [begin, end],
        }
        begin = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    digests = {}
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in names:
            plain = _plain(tensors[name])
            digests[name] = _digest(plain)
            file.write(plain.reshape(-1).view(np.uint8).data)
    return {
        name: {"shape": list(array.shape), "dtype": array.dtype.name, "xxh3_128": digests[name]}
        for name, array in tensors.items()
    }


def read_tensors(
    path: Path, entries: Mapping[str, Mapping[str, Any]], *, mapped: bool = False
) -> dict[str, NDArray[Any]]:
    """The arrays named in `entries`; they own their memory and are writable. mapped: they are the
    file itself, mapped into memory, and read-only: for arrays that will be copied elsewhere.

    Raises:
        ModelFolderError: an array is missing, or differs in shape, dtype or digest.
    """
    try:
        data: NDArray[Any] = np.memmap(path, np.uint8, "r").view(np.ndarray)
        start = 8 + int.from_bytes(data[:8].tobytes(), "little")
        header = json.loads(data[8:start].tobytes())
        places = {name: tuple(header[name]["data_offsets"]) for name in entries}
    except (ValueError, KeyError, TypeError) as error:
        raise ModelFolderError(f"{path}: damaged: {error!r}") from error
    tensors = {}
    for name, entry in entries.items():
        begin, end = places[name]
        found = data[start:][begin:end]
        _compare(path, name, found, entry)
        array = found.view(np.dtype(entry["dtype"]).newbyteorder("<")).reshape(entry["shape"])
        tensors[name] = array if mapped else np.array(array, np.dtype(entry["dtype"]))
    return tensors


def _compare(path: Path, name: str, found: NDArray[Any], entry: Mapping[str, Any]) -> None:
    shape, dtype = tuple(entry["shape"]), entry["dtype"]
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    if found.size != size or _digest(found) != entry["xxh3_128"]:
        raise ModelFolderError(
            f"{path}: array {name!r}, {found.size} bytes, is not what was written: {dtype} {shape} "
            f"with digest {entry['xxh3_128']}"
        )


def _code(name: str, array: NDArray[Any]) -> str:
    if array.dtype.name not in DTYPES:
        raise TypeError(f"array {name!r} is {array.dtype}; a model can hold {sorted(DTYPES)}")
    return DTYPES[array.dtype.name]


def _plain(array: NDArray[Any]) -> NDArray[Any]:
    """`array` C-contiguous and little-endian; itself where it is both."""
    return np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")


def _digest(array: NDArray[Any]) -> str:
    return str(xxhash.xxh3_128_hexdigest(array.data))
