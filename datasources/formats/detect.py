"""List the formats by name, and find the format of a path."""

import errno
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from glob import glob
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

from ..blocks import BlockSource
from ..blocks.manifest import FILE as MANIFEST
from ..blocks.unfinished import FILE as JOURNAL
from ..errors import DataError
from ..listing import PARQUET, files_among, require_data, require_target
from ..packed.streams import kind_of
from ..parsing.layout import Known, RowFile
from ..parsing.scratch import Scratch
from ..remote import PATIENCE, StoredPath, find, resolve
from ..remote import Place as AnyPath
from .bag_of_words import bag_of_words
from .bidmat import BidmatFile
from .lda_c import LdaCFile
from .libffm import LibffmFile
from .libsvm import LibsvmFile
from .matrix_market import matrix_market
from .npy import NpyFile
from .npz import scipy_npz
from .parquet_rows import parquet_rows
from .ratings_rows import ratings_rows
from .source_rows import SourceRows
from .table_rows import TableRows
from .text_rows import json_rows, table_text_rows, text_rows
from .vowpal_wabbit import VowpalWabbitRows
from .word_counts import LDA_C


def block_rows(
    paths: Sequence[AnyPath], scratch: Scratch, known: Known | None = None
) -> SourceRows:
    """Read the rows of a block dataset."""
    return SourceRows(BlockSource(paths))


@dataclass(frozen=True)
class Format:
    """A format of files.

    suffixes: ends of file names (before .gz and the like).
    words: describes the format to users.
    open: makes rows from paths, scratch, known columns and options.
    passes: how often `open` and reading go through the files.
    """

    suffixes: tuple[str, ...]
    words: str
    open: Callable[..., RowFile]
    passes: int = 1

    @property
    def options(self) -> list[str]:
        """The names of the options of `open`."""
        found = signature(self.open).parameters.values()
        return [option.name for option in found if option.kind is Parameter.KEYWORD_ONLY]


FORMATS = {
    "csv": Format((".csv", ".tsv"), "table of numbers in text", TableRows),
    "ratings": Format((), "ratings in text (user, item, rating)", ratings_rows, passes=2),
    "libsvm": Format((".libsvm", ".svm", ".svmlight"), "LIBSVM text", LibsvmFile, passes=2),
    "libffm": Format((".libffm", ".ffm"), "LIBFFM text", LibffmFile, passes=2),
    "vw": Format((".vw",), "Vowpal Wabbit text", VowpalWabbitRows, passes=2),
    "matrix-market": Format((".mtx",), "Matrix Market", matrix_market),
    "lda-c": Format(LDA_C, "LDA-C text (counts of words)", LdaCFile, passes=2),
    "bag-of-words": Format((), "UCI bag of words", bag_of_words),
    "text": Format((".txt",), "plain text", text_rows, passes=2),
    "json-lines": Format((".jsonl", ".ndjson"), "JSON lines", json_rows, passes=2),
    "table-text": Format((), "texts in a column of a table", table_text_rows, passes=2),
    "npz": Format((".npz",), "SciPy sparse matrix", scipy_npz),
    "npy": Format((".npy",), "NumPy array", NpyFile),
    "bidmat": Format(
        (".smat", ".sbmat", ".sdmat", ".fmat", ".dmat", ".imat", ".lmat", ".bmat"),
        "BIDMat matrix",
        BidmatFile,
    ),
    "parquet": Format(PARQUET, "Parquet", parquet_rows),
    "blocks": Format((), "block dataset", block_rows),
}
"""Formats by name. `learn convert` and `learn inspect` read these."""

OF_RATINGS = ("user", "item", "rating", "duplicates")  # options that make a table ratings
OF_TEXTS = ("text", "min_df", "max_df", "hash_bits")  # options that make a table texts
TABLES = ("csv", "parquet")


def open_rows(
    names: Sequence[str],
    scratch: Scratch,
    *,
    format: str | None = None,
    known: Known | None = None,
    options: Mapping[str, Any],
) -> RowFile:
    """Open the rows of the data at `names`, see `find_files`.

    options: of `Format.options`.
    """
    found, files = find_files(names, format, options)
    return FORMATS[found].open(files, scratch, known, **options)


def find_files(
    names: Sequence[str], format: str | None = None, options: Collection[str] = ()
) -> tuple[str, list[Any]]:
    """Return the format, and the files and folders of all names, in order.

    names: each is a file, a folder or a pattern, local or a URL. A folder has a block
        dataset, Parquet files, .txt files (a document each) or files of one other format.
    format: None: found by the ends of the names.
    options: names of options, which tell ratings and texts from other tables.

    Raises `FileNotFoundError`, and `DataError` if the format is unknown.
    """
    found: list[tuple[str, Any]] = [pair for name in names for pair in expand(name, format)]
    kinds = list(dict.fromkeys(kind for kind, _ in found))
    if len(kinds) > 1:
        raise DataError(
            f"{names[0]}: files of several formats: {', '.join(kinds)}; name files of one format."
        )
    if format is None and kinds == ["csv"] and not {*options}.isdisjoint(OF_RATINGS):
        kinds = ["ratings"]
    if format is None and kinds[0] in TABLES and not {*options}.isdisjoint(OF_TEXTS):
        kinds = ["table-text"]
    return kinds[0], [file for _, file in found]


def expand(name: str, format: str | None) -> list[tuple[str, Any]]:
    """Return format and path of all files that one name refers to."""
    if "://" in name:
        return expand_url(name, format)
    path = Path(name)
    if not path.exists():
        matches = sorted(glob(name))
        if not matches:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        for match in matches:
            require_target(Path(match))
        return [pair for match in matches for pair in expand(match, format)]
    require_data(path)
    if not path.is_dir():
        return [(format or format_of(path), path)]
    if format in (None, "blocks") and any((path / name).exists() for name in (MANIFEST, JOURNAL)):
        return [("blocks", path)]
    files = files_among(filter(is_data, path.iterdir()))
    if format is None and any(path.rglob("*.parquet")):
        return [("parquet", path)]
    if format == "parquet" or (format == "table-text" and any(path.rglob("*.parquet"))):
        return [(format, path)]
    if format in (None, "text") and all(kind_of(file) == ".txt" for file in files):
        if not any(path.rglob("*.txt")):
            raise DataError(f"{path}: the folder has no data.")
        return [("text", path)]
    if not files:
        raise DataError(f"{path}: the folder has no data.")
    return [(format or format_of(file), file) for file in files]


def expand_url(name: str, format: str | None) -> list[tuple[str, Any]]:
    """Return format and path of all files that a URL refers to.

    It is a file, a pattern, or a folder with a block dataset or Parquet files. Parquet files stay
    URLs: their reader opens these.
    """
    if format in ("parquet", "table-text"):
        return [(format, name)]
    files, path, wild = resolve(name, PATIENCE)
    place = StoredPath(files, path)
    if any(letter in path for letter in wild):
        places = [StoredPath(files, found.path) for found in find(files, path, (), wild)]
    elif not place.suffix and (format == "blocks" or (place / MANIFEST).exists()):
        return [("blocks", place)]
    else:
        places = [place]
    kinds = [format or ("parquet" if not place.suffix else format_of(place)) for place in places]
    if "parquet" in kinds:
        return [("parquet", name)]
    return list(zip(kinds, places, strict=True))


def is_data(file: Path) -> bool:
    """Return whether a file has rows: not hidden, and not a list of column names."""
    listed = file.name in ("vocab.txt", "labels.txt") or file.suffix in (".vocab", ".tokens")
    return not file.name.startswith((".", "_")) and not listed


def format_of(path: AnyPath) -> str:
    """Return the format of a file by its name. Raises `DataError` if it is unknown."""
    kind = kind_of(path)
    if kind == ".txt" and path.name.startswith("docword"):
        return "bag-of-words"
    for name, known in FORMATS.items():
        if kind in known.suffixes:
            return name
    endings = ", ".join(ending for known in FORMATS.values() for ending in known.suffixes)
    raise DataError(
        f"{path}: unknown format. Its name must end with {endings} (perhaps with .gz). "
        f"Otherwise name its format: `learn convert --format {'|'.join(FORMATS)}`."
    )
