"""The manifest of a folder: format version, size and digest of every file.

It is a JSON file that models and checkpoints have. It has a digest of its own contents too, so a
flipped bit in the configuration is found.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import xxhash

from ..errors import ModelFolderError, ModelMissingError
from .schemas import REMEDY, Manifest, check_content, parsed


class Format(NamedTuple):
    """The name and version of a folder's format.

    The version is raised when an older blocklearn cannot read a newer folder. Folders of all
    versions from 1 on are read.
    """

    name: str
    version: int


def write_manifest(
    folder: Path,
    name: str,
    *,
    format: Format,
    content: Mapping[str, Any],
    files: Iterable[str],
    known: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Write the manifest `folder/name`.

    Args:
        folder: the folder.
        name: the file name of the manifest.
        format: the name and version of the format.
        content: all other entries of the manifest.
        files: the names of the other files in `folder`, already complete.
        known: bytes and digest of some of these files, from the manifest of another folder.

    Returns bytes and digest of each file.
    """
    entries = dict(known or {})
    for file in (file for file in files if file not in entries):
        entries[file] = file_entry(folder / file)
    manifest = {"format": format.name, "version": format.version, **content, "files": entries}
    text = json.dumps({**manifest, "digest": _digest(manifest)}, indent=2, ensure_ascii=False)
    (folder / name).write_text(text + "\n", encoding="utf-8")
    return entries


def file_entry(path: Path) -> dict[str, Any]:
    """Return bytes and digest of a complete file, as manifests have them."""
    return {"bytes": path.stat().st_size, "xxh3_128": _file_digest(path)}


def read_manifest(
    folder: Path, name: str, *, format: Format, schema: type[Manifest], missing: str
) -> dict[str, Any]:
    """Read and check the manifest `folder/name`.

    Args:
        folder: the folder.
        name: the file name of the manifest.
        format: the expected format, and the newest version that can be read.
        schema: the schema of the contents.
        missing: the message if the file does not exist.

    Raises:
        ModelMissingError: there is no such file.
        ModelFolderError: it is damaged, of another format or a newer version, or `schema` refuses
            a field.
    """
    path = folder / name
    try:
        text = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise ModelMissingError(f"{folder}: {missing}") from None
    manifest = parsed(text, path)
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
    """Check size and digest of a file that `manifest` lists, and return its path.

    Raises:
        ModelFolderError: the file is missing, or has another size or digest.
    """
    path, entry = folder / name, _entry(folder, name, manifest)
    try:
        size, digest = path.stat().st_size, _file_digest(path)
    except FileNotFoundError:
        raise ModelFolderError(f"{path}: missing, though the manifest lists it") from None
    _compare(path, size, digest, entry)
    return path


def read_verified(folder: Path, name: str, manifest: Mapping[str, Any]) -> bytes:
    """Read and check a small file that `manifest` lists, and return its contents.

    The returned bytes are the checked ones, even if the file is replaced meanwhile. Raises as
    `verified` does.
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
            f"{folder}: the manifest's files.{name}: is missing. {REMEDY}"
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
    """Return `value` for JSON: None in place of a number that is not finite."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


PIECE = 2**15  # bytes of a file in memory at once: checkpoints are written while training


def _file_digest(path: Path) -> str:
    digest = xxhash.xxh3_128()
    with path.open("rb") as file:
        while chunk := file.read(PIECE):
            digest.update(chunk)
    return str(digest.hexdigest())


def _digest(manifest: Mapping[str, Any]) -> str:
    canonical = json.dumps(manifest, sort_keys=True, separators=(",", ":"))
    return str(xxhash.xxh3_128_hexdigest(canonical.encode()))
