"""Write and read NumPy arrays in a safetensors file, without copies.

The file has three parts:

1. 8 bytes, the length of the header.
2. The header, in JSON. For each name: dtype, shape, and where its bytes begin and end.
3. The bytes of the arrays, C-contiguous and little-endian.

The format has no checksums, so arrays are compared with digests in the manifest.

The `safetensors` package (0.8.0) is no replacement. It orders arrays of one dtype otherwise, so
digests of files would change. It stores transposed and strided arrays with wrong contents. It also
copies where this module maps, and hides the cause of an `OSError`.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import xxhash
from numpy.typing import NDArray

from ..engines.row_pieces import RowPieces
from ..errors import ModelFolderError

DTYPES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "int64": "I64", "int32": "I32",
    "int16": "I16", "int8": "I8", "uint64": "U64", "uint32": "U32", "uint16": "U16",
    "uint8": "U8", "bool": "BOOL",
}  # fmt: skip
"""The names of dtypes in the format."""

Mapped = bool | Literal["private"]

PART = 1 << 20
"""The count of numbers that are checked at a time."""


def write_tensors(
    path: Path, tensors: Mapping[str, NDArray[Any] | RowPieces]
) -> dict[str, dict[str, Any]]:
    """Write `tensors` of any shape; return shape, dtype and XXH3 digest by name.

    States of rows of several workers are written piece by piece, as they come.

    Raises:
        TypeError: the format has no name for a dtype.
        OSError: the file cannot be written.
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
            digest, tensor = xxhash.xxh3_128(), tensors[name]
            for piece in tensor.pieces() if isinstance(tensor, RowPieces) else (tensor,):
                plain = _plain(piece)
                digest.update(plain.data)
                file.write(plain.reshape(-1).view(np.uint8).data)
            digests[name] = digest.hexdigest()
    return {
        name: {"shape": list(array.shape), "dtype": array.dtype.name, "xxh3_128": digests[name]}
        for name, array in tensors.items()
    }


def read_tensors(
    path: Path,
    entries: Mapping[str, Mapping[str, Any]],
    *,
    mapped: Mapped = False,
    compare: bool = True,
) -> dict[str, NDArray[Any]]:
    """Read the arrays named in `entries`, and check them.

    Args:
        path: the file.
        entries: shape, dtype and digest by name, as `write_tensors` returned them.
        mapped: True: arrays are memory-mapped and read-only, for callers that copy them. "private":
            mapped, too, and writable; what is written stays in this process. Either way processes
            share the memory of the file. False: arrays own their memory.
        compare: whether to compare digests: False for a file whose digest was compared.

    Raises:
        ModelFolderError: an array is missing, or differs in shape, dtype or digest.
    """
    try:
        mode: Literal["c", "r"] = "c" if mapped == "private" else "r"
        data: NDArray[Any] = np.memmap(path, np.uint8, mode).view(np.ndarray)
        start = 8 + int.from_bytes(data[:8].tobytes(), "little")
        header = json.loads(data[8:start].tobytes())
        places = {name: _place(name, header[name], entries[name]) for name in entries}
    except KeyError as error:
        raise ModelFolderError(f"{path}: array {error} is missing") from None
    except (ValueError, TypeError, RecursionError) as error:
        raise ModelFolderError(f"{path}: damaged: {error}") from error
    tensors = {}
    for name, entry in entries.items():
        begin, end = places[name]
        found = data[start:][begin:end]
        _compare(path, name, found, entry, digest=compare)
        array = found.view(np.dtype(entry["dtype"]).newbyteorder("<")).reshape(entry["shape"])
        tensors[name] = array if mapped else np.array(array, np.dtype(entry["dtype"]))
    return tensors


def _place(name: str, header: Mapping[str, Any], entry: Mapping[str, Any]) -> tuple[int, int]:
    """Return where the bytes of an array begin and end.

    Raises `ValueError` if the header of the file contradicts the manifest, `entry`.
    """
    begin, end = header["data_offsets"]
    if type(begin) is not int or type(end) is not int or not 0 <= begin <= end:
        raise ValueError(f"array {name!r}: data_offsets={[begin, end]}: must be ascending integers")
    for what, told, found in [
        ("dtype", DTYPES[entry["dtype"]], header["dtype"]),
        ("shape", entry["shape"], header["shape"]),
    ]:
        if told != found:
            raise ValueError(f"array {name!r} has {what}={found}, but the manifest says {told}")
    return begin, end


def check_finite(path: Path, tensors: Mapping[str, NDArray[Any]]) -> None:
    """Raise `ModelFolderError` if a number in the file `path` is not finite.

    Arrays are checked part by part, so a mapped file may be larger than memory.
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


def _compare(
    path: Path, name: str, found: NDArray[Any], entry: Mapping[str, Any], *, digest: bool
) -> None:
    shape, dtype = tuple(entry["shape"]), entry["dtype"]
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    if found.size != size or (digest and _digest(found) != entry["xxh3_128"]):
        raise ModelFolderError(
            f"{path}: array {name!r}, {found.size} bytes, is not what was written: {dtype} {shape} "
            f"with digest {entry['xxh3_128']}"
        )


def _code(name: str, array: NDArray[Any] | RowPieces) -> str:
    if array.dtype.name not in DTYPES:
        raise TypeError(f"array {name!r} is {array.dtype}; a model can hold {sorted(DTYPES)}")
    return DTYPES[array.dtype.name]


def _plain(array: NDArray[Any]) -> NDArray[Any]:
    """Return `array` as C-contiguous and little-endian, without a copy if it is both."""
    return np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")


def _digest(array: NDArray[Any]) -> str:
    return str(xxhash.xxh3_128_hexdigest(array.data))
