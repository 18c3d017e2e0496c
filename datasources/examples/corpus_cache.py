"""Caches a corpus that took seconds to make in the user's cache folder."""

import logging
import os
import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash
from scipy import sparse

from ..text.corpus import Corpus

LOG = logging.getLogger(__name__)
LAYOUT = 1  # raise it when the arrays of the file change


def user_cache_dir() -> Path:
    """Return `$XDG_CACHE_HOME/blocklearn`, or `~/.cache/blocklearn`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "blocklearn"


def cached(name: str, key: str, make: Callable[[], Corpus], folder: Path | None) -> Corpus:
    """Return the cached result of `make()` for this `key`, or call `make()`.

    The file is `<folder>/<name>-<Python version>-<digest>.npz` (default folder:
    `user_cache_dir()`). The digest covers `key` and the build of Python. The file is written whole
    or not at all. If it cannot be read, it is made again; if it cannot be written, the run
    continues without it. Both log a warning.
    """
    folder = folder or user_cache_dir()
    digest = xxhash.xxh3_64_hexdigest(f"{LAYOUT} {sys.version} {key}".encode())
    version = ".".join(map(str, sys.version_info[:3]))
    path = folder / f"{name}-{version}-{digest}.npz"
    try:
        return load(path)
    except FileNotFoundError:
        pass
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        LOG.warning("%s cannot be read and is made again: %s", path, error)
    corpus = make()
    try:
        save(corpus, path)
    except OSError as error:
        LOG.warning("%s cannot be written, so the next run makes it again: %s", path, error)
    return corpus


def save(corpus: Corpus, path: Path) -> None:
    """Write `corpus` to `path` (.npz), under a temporary name first.

    Targets, if any, must be an array.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.stem, suffix=".tmp")
    try:
        labels: dict[str, Any] = {}
        if corpus.targets is not None:
            labels["targets"] = corpus.targets
            labels["target_names"] = _pack(corpus.target_names or [])
        with os.fdopen(handle, "wb") as file:
            np.savez(
                file,
                indptr=corpus.counts.indptr,
                indices=corpus.counts.indices,
                counts=corpus.counts.data,
                vocabulary=_pack(corpus.vocabulary),
                documents=_pack(corpus.documents),
                **labels,
            )
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def load(path: Path) -> Corpus:
    """Read a file of `save`; verify its checksums and unpickle nothing."""
    with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
        vocabulary, documents = _unpack(file["vocabulary"]), _unpack(file["documents"])
        counts = sparse.csr_array(
            (file["counts"], file["indices"], file["indptr"]),
            shape=(len(documents), len(vocabulary)),
        )
        corpus = Corpus(counts, vocabulary, documents)
        if "targets" in file:
            names = _unpack(file["target_names"])
            corpus = replace(corpus, targets=file["targets"], target_names=names)
    return corpus


def _pack(lines: Sequence[str]) -> npt.NDArray[np.uint8]:
    """Join lines (without line ends) to one array of UTF-8 bytes."""
    return np.frombuffer("\n".join(lines).encode(), np.uint8)


def _unpack(data: npt.NDArray[np.uint8]) -> list[str]:
    return data.tobytes().decode().split("\n")
