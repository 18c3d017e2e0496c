"""A corpus that took seconds to make, kept in a file of the user's cache folder."""

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
    """`$XDG_CACHE_HOME/blocklearn`, or `~/.cache/blocklearn`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "blocklearn"


def cached(name: str, key: str, make: Callable[[], Corpus], folder: Path | None) -> Corpus:
    """What `make()` returned earlier for this `key` on this Python, or what it returns now.

    The file is `<folder>/<name>-<Python version>-<digest>.npz` (default folder:
    `user_cache_dir()`); the digest covers `key` and the build of Python. It is written whole or
    not at all; one that cannot be read is made again, and where none can be written the run goes
    on without, with a warning in the log.
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
    """Write `corpus` (its targets an array, if it has any) to `path` (.npz), under another name
    first.
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
    """Read what `save` wrote; the archive's checksums are verified, nothing is unpickled."""
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
    """Lines (without line ends) as one array of UTF-8 bytes."""
    return np.frombuffer("\n".join(lines).encode(), np.uint8)


def _unpack(data: npt.NDArray[np.uint8]) -> list[str]:
    return data.tobytes().decode().split("\n")
