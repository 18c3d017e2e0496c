"""The JSON file that makes a folder a whole: format version, and size and digest of every file.

Models and checkpoints have one each. Its own contents are digested too, so a flipped bit in a
number of the configuration does not pass for a configuration.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import xxhash

from ..errors import ModelFolderError, ModelMissingError
from .schemas import REMEDY, Manifest, check_content


class Format(NamedTuple):
    """What a folder is. version: raised when an older blocklearn could not read a newer folder;
    folders of all versions from 1 on are read.
    """

    name: str
    version: int


def write_manifest(
    folder: Path, name: str, *, format: Format, content: Mapping[str, Any], files: Iterable[str]
) -> None:
    """Writes `folder/name`; `files` are the other files in `folder`, already complete."""
    entries = {}
    for file in files:
        path = folder / file
        entries[file] = {"bytes": path.stat().st_size, "xxh3_128": _file_digest(path)}
    manifest = {"format": format.name, "version": format.version, **content, "files": entries}
    text = json.dumps({**manifest, "digest": _digest(manifest)}, indent=2, ensure_ascii=False)
    (folder / name).write_text(text + "\n", encoding="utf-8")


def read_manifest(
    folder: Path, name: str, *, format: Format, schema: type[Manifest], missing: str
) -> dict[str, Any]:
    """The contents of `folder/name`. schema: what they may be.

    Raises:
        ModelMissingError: there is no such file; `missing` says what that means.
        ModelFolderError: it is damaged, of another format, or of a newer version, or a field of it
            is not what it may be.
    """
    path = folder / name
    try:
        text = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise ModelMissingError(f"{folder}: {missing}") from None
    try:
        manifest = json.loads(text)
    except (ValueError, RecursionError):
        raise ModelFolderError(f"{path}: damaged, it is not JSON") from None
    if not isinstance(manifest, dict) or manifest.get("format") != format.name:
        raise ModelFolderError(f"{path}: not a {format.name}, or damaged")
    version = manifest.get("version")
    if type(version) is int and version > format.version:
        raise ModelFolderError(
            f"{path}: written by a newer blocklearn (format {version}; this one reads up to "
            f"{format.version}). Upgrade blocklearn."
        )
    digest = manifest.pop("digest", None)
    if type(version) is not int or version < 1:
        raise ModelFolderError(
            f"{path}: damaged: version={version!r}: must be a number from 1 to {format.version}"
        )
    if digest != _digest(manifest):
        raise ModelFolderError(f"{path}: damaged or edited, its digest does not match")
    check_content(schema, manifest, path)
    return manifest


def verified(folder: Path, name: str, manifest: Mapping[str, Any]) -> Path:
    """The path of a file that `manifest` lists, once its size and digest were found right.

    Raises:
        ModelFolderError: it is missing, has another size, or another digest.
    """
    path, entry = folder / name, _entry(folder, name, manifest)
    try:
        size, digest = path.stat().st_size, _file_digest(path)
    except FileNotFoundError:
        raise ModelFolderError(f"{path}: missing, though the manifest lists it") from None
    _compare(path, size, digest, entry)
    return path


def read_verified(folder: Path, name: str, manifest: Mapping[str, Any]) -> bytes:
    """The contents of a small file that `manifest` lists; what is returned is what was compared,
    also if the file is replaced meanwhile. Raises as `verified` does.
    """
    path, entry = folder / name, _entry(folder, name, manifest)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise ModelFolderError(f"{path}: missing, though the manifest lists it") from None
    digest = xxhash.xxh3_128_hexdigest(data)
    _compare(path, len(data), digest, entry)
    return data


def _entry(folder: Path, name: str, manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        entry: Mapping[str, Any] = manifest["files"][name]
    except KeyError:
        raise ModelFolderError(
            f"{folder}: the manifest's files.{name}: must be there. {REMEDY}"
        ) from None
    return entry


def _compare(path: Path, size: int, digest: str, entry: Mapping[str, Any]) -> None:
    if size != entry["bytes"]:
        raise ModelFolderError(
            f"{path}: {size} bytes, but {entry['bytes']} were written: cut off or replaced"
        )
    if digest != entry["xxh3_128"]:
        raise ModelFolderError(f"{path}: damaged, its digest does not match the manifest")


def finite(value: Any) -> Any:
    """`value` as JSON can have it: a number that is not finite becomes null."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _file_digest(path: Path) -> str:
    digest = xxhash.xxh3_128()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return str(digest.hexdigest())


def _digest(manifest: Mapping[str, Any]) -> str:
    canonical = json.dumps(manifest, sort_keys=True, separators=(",", ":"))
    return str(xxhash.xxh3_128_hexdigest(canonical.encode()))
