"""Read the parts of a checkpoint: states of rows, of which each worker has written its own.

    part-0002.safetensors           of each such state, the rows of worker 2 in order

The first part also has `blocks.STATE`, int64 [blocks + 1]: where each block of the rows begins, and
the number of all. Block j is in part j mod parts. Tokens are rows of one number.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xxhash

from ..engines.row_pieces import PartedRows
from ..errors import ModelFolderError
from .manifest import verified
from .schemas import REMEDY
from .tensor_file import read_tensors

PARTS = "parts"
"""The key of a manifest with the arrays of each part, by file."""

BLOCKS = "blocks."
"""Precedes the name of a state in that of the array of its blocks."""

TAKE = (
    "It has the rows of one worker. Take it from a copy of the checkpoint, or remove the folder to "
    "resume from the one before."
)


def name_of(worker: int) -> str:
    """Return the name of the part that a worker writes.

    >>> name_of(2)
    'part-0002.safetensors'
    """
    return f"part-{worker:04d}.safetensors"


class Seal(NamedTuple):
    """The absolute path of a manifest, and the digest of the file: others see the same checkpoint.

    A worker where the path leads nowhere, or to another file, does not share the folder.
    """

    path: str
    digest: str

    def fits(self) -> bool:
        """Return whether this process sees the file."""
        try:
            return self == seal_of(Path(self.path))
        except OSError:
            return False


def seal_of(manifest: Path) -> Seal:
    """Return the seal of a checkpoint. Raises OSError if its manifest cannot be read."""
    path = manifest.absolute()
    return Seal(str(path), xxhash.xxh3_128_hexdigest(path.read_bytes()))


def check_part(folder: Path, file: str, manifest: Mapping[str, Any]) -> None:
    """Raise ModelFolderError if a part is missing, or is not what its worker has written."""
    try:
        verified(folder, file, manifest)
    except ModelFolderError as error:
        raise ModelFolderError(f"{error}. {TAKE}") from None


def open_parts(seal: Seal, manifest: Mapping[str, Any]) -> dict[str, PartedRows]:
    """Return the states in the parts of a checkpoint, if any, mapped and read-only, by name.

    Digests are not compared: see `check_part`.

    Raises ModelFolderError if a part is missing, or of other shapes than the manifest says.
    """
    path = Path(seal.path)
    listed = manifest.get(PARTS) or {}
    parts = [
        read_tensors(path.parent / file, listed[file], mapped=True, compare=False)
        for file in sorted(listed)
    ]
    found, first = {}, parts[0] if parts else {}
    for name in [name for name in first if f"{BLOCKS}{name}" in first]:
        blocks = first[f"{BLOCKS}{name}"]
        lengths = [len(part[name]) if name in part else None for part in parts]
        rows = np.diff(blocks)
        if lengths != [int(rows[worker :: len(parts)].sum()) for worker in range(len(parts))]:
            raise ModelFolderError(
                f"{path}: {PARTS}: {name} has {lengths} rows, which are not those of its blocks. "
                f"{REMEDY}"
            )
        found[name] = PartedRows(blocks, [part[name] for part in parts], seal)
    return found
