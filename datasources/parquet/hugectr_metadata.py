"""Read the `_metadata.json` that NVTabular and HugeCTR keep beside Parquet files.

https://nvidia-merlin.github.io/HugeCTR, "Parquet": `labels`, `conts` and `cats` name the columns,
`file_stats` the files and their rows. `slot_size_array` has the size of each category (slot). It is
an entry of the metadata or a file of this name, and may be missing.
"""

import json
import posixpath
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import DataError
from ..remote import HdfsDriver, Patience, resolve
from .columns import Dense, Feature, Sparse

METADATA, SIZES = "_metadata.json", "slot_size_array"


@dataclass(frozen=True)
class Described:
    """The contents of the metadata. paths: of the Parquet files; rows: of each file."""

    features: Sequence[Feature]
    targets: Sequence[Dense]
    paths: Sequence[str]
    rows: Sequence[int]


def read_metadata(folder: str, patience: Patience, hdfs: HdfsDriver | None = None) -> Described:
    """Read the metadata of a folder (a path or URL).

    Raises `FileNotFoundError` if there are none, and `DataError` if they are invalid.
    """
    place = join(folder, METADATA)
    found = read_json(place, patience, hdfs)
    try:
        names = {
            role: [str(column["col_name"]) for column in found.get(role, [])]
            for role in ("labels", "conts", "cats")
        }
        files = [(str(file["file_name"]), int(file["num_rows"])) for file in found["file_stats"]]
        sizes = found.get(SIZES)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(
            f"{place}: not HugeCTR's metadata: {type(error).__name__} {error}; it must have "
            "file_stats, labels, conts and cats."
        ) from error
    if sizes is None and names["cats"]:
        try:
            sizes = read_json(join(folder, SIZES + ".json"), patience, hdfs)[SIZES]
        except FileNotFoundError:
            sizes = None
        except (KeyError, TypeError) as error:
            raise DataError(f"{join(folder, SIZES)}.json: must have {SIZES!r}.") from error
    if not are_sizes(sizes, len(names["cats"])):
        raise DataError(
            f"{place}: {SIZES} is {sizes}, but must be one size, 1 or more, for each of the "
            f"{len(names['cats'])} cats."
        )
    if not files or not (names["cats"] or names["conts"]):
        raise DataError(
            f"{place}: {len(files)} files, {len(names['cats'])} cats, {len(names['conts'])} conts: "
            "must be at least one file, and one of cats or conts."
        )
    counted = sizes or [None] * len(names["cats"])  # None: counted when the files are opened
    cats = [Sparse(name, None, size) for name, size in zip(names["cats"], counted, strict=True)]
    return Described(
        [*map(Dense, names["conts"]), *cats],
        [*map(Dense, names["labels"])],
        [join(folder, name) for name, _ in files],
        [rows for _, rows in files],
    )


def are_sizes(sizes: Any, count: int) -> bool:
    """Return whether `sizes` is a list of `count` sizes, or None."""
    if sizes is None:
        return True
    return (
        isinstance(sizes, list)
        and len(sizes) == count
        and all(isinstance(size, int) and size > 0 for size in sizes)
    )


def read_json(place: str, patience: Patience, hdfs: HdfsDriver | None) -> Any:
    """Read a JSON file from a path or URL."""
    files, path, _ = resolve(place, patience, hdfs)
    with files.open(files.status(path)) as file:
        text = file.read()
    try:
        return json.loads(text)
    except ValueError as error:
        raise DataError(f"{files.name(path)}: not valid JSON: {error}") from error


def join(folder: str, name: str) -> str:
    """Return the path or URL of a file in a folder; URL options stay at the end.

    >>> join("s3://bucket/day?region=eu-west-1", "a.parquet")
    's3://bucket/day/a.parquet?region=eu-west-1'
    """
    path, mark, options = folder.partition("?") if "://" in folder else (folder, "", "")
    return posixpath.join(path, name) + mark + options


def check_rows(found: Sequence[tuple[str, int]], expected: Sequence[int]) -> None:
    """Raise `DataError` unless each file has the rows that the metadata say."""
    for (name, rows), promised in zip(found, expected, strict=True):
        if rows != promised:
            raise DataError(
                f"{name}: it has {rows:,} rows, but {METADATA} says {promised:,}; one of the two "
                "belongs to another version of the data."
            )
