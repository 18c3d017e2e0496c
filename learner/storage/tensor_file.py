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

PART = 1 << 20
"""Numbers that are looked through at a time."""


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
        places = {name: _place(name, header[name], entries[name]) for name in entries}
    except KeyError as error:
        raise ModelFolderError(f"{path}: array {error}: must be there, but is not") from None
    except (ValueError, TypeError, RecursionError) as error:
        raise ModelFolderError(f"{path}: damaged: {error}") from error
    tensors = {}
    for name, entry in entries.items():
        begin, end = places[name]
        found = data[start:][begin:end]
        _compare(path, name, found, entry)
        array = found.view(np.dtype(entry["dtype"]).newbyteorder("<")).reshape(entry["shape"])
        tensors[name] = array if mapped else np.array(array, np.dtype(entry["dtype"]))
    return tensors


def _place(name: str, header: Mapping[str, Any], entry: Mapping[str, Any]) -> tuple[int, int]:
    """Where the bytes of an array begin and end. Raises ValueError if the file says other things of
    it than the manifest, `entry`.
    """
    begin, end = header["data_offsets"]
    if type(begin) is not int or type(end) is not int or not 0 <= begin <= end:
        raise ValueError(f"array {name!r} is in no place: data_offsets={[begin, end]}")
    for what, told, found in [
        ("dtype", DTYPES[entry["dtype"]], header["dtype"]),
        ("shape", entry["shape"], header["shape"]),
    ]:
        if told != found:
            raise ValueError(f"array {name!r} has {what}={found}, but the manifest says {told}")
    return begin, end


def check_finite(path: Path, tensors: Mapping[str, NDArray[Any]]) -> None:
    """Raises `ModelFolderError` for the first number of `tensors`, of the file `path`, that is not
    finite. Arrays are looked through part by part, which a mapped file need not fit in memory for.
    """
    for name, array in tensors.items():
        if array.dtype.kind != "f":
            continue
        flat = array.reshape(-1)
        for start in range(0, flat.size, PART):
            part = flat[start : start + PART]
            wrong = np.flatnonzero(~np.isfinite(part))
            if wrong.size:
                place = np.unravel_index(start + int(wrong[0]), array.shape)
                where = ", ".join(map(str, place))
                raise ModelFolderError(
                    f"{path}: {name}[{where}]={part[wrong[0]]}: must be finite. Train the model "
                    "again, or take the file from a copy of the folder."
                )


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
