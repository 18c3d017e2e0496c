"""The `_metadata.json` that NVTabular and HugeCTR keep beside their Parquet files.

https://nvidia-merlin.github.io/HugeCTR, "Parquet": `labels`, `conts` and `cats` name the columns,
`file_stats` the files and their rows. How large each category (slot) is stands in
`slot_size_array`, there or in a file of this name, or nowhere.
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
    """What the file says. paths: of the Parquet files; rows: of each."""

    features: Sequence[Feature]
    targets: Sequence[Dense]
    paths: Sequence[str]
    rows: Sequence[int]


def read_metadata(folder: str, patience: Patience, hdfs: HdfsDriver | None = None) -> Described:
    """The metadata of a folder (a path or URL).

    Raises `FileNotFoundError` where there are none, and `DataError` for what they cannot say.
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
            f"{place}: this is not the metadata of HugeCTR: {type(error).__name__} {error}; it has "
            "file_stats, labels, conts and cats."
        ) from error
    if sizes is None and names["cats"]:
        try:
            sizes = read_json(join(folder, SIZES + ".json"), patience, hdfs)[SIZES]
        except FileNotFoundError:
            sizes = None
        except (KeyError, TypeError) as error:
            raise DataError(f"{join(folder, SIZES)}.json: it has no {SIZES!r}.") from error
    if not are_sizes(sizes, len(names["cats"])):
        raise DataError(
            f"{place}: {SIZES} is {sizes}, but must be one size, 1 or more, for each of the "
            f"{len(names['cats'])} cats."
        )
    if not files or not (names["cats"] or names["conts"]):
        raise DataError(f"{place}: {len(files)} files, no cats and no conts: nothing to read.")
    counted = sizes or [None] * len(names["cats"])  # None: when the files are opened
    cats = [Sparse(name, None, size) for name, size in zip(names["cats"], counted, strict=True)]
    return Described(
        [*map(Dense, names["conts"]), *cats],
        [*map(Dense, names["labels"])],
        [join(folder, name) for name, _ in files],
        [rows for _, rows in files],
    )


def are_sizes(sizes: Any, count: int) -> bool:
    """Whether this is a list of `count` sizes, or nothing."""
    if sizes is None:
        return True
    return (
        isinstance(sizes, list)
        and len(sizes) == count
        and all(isinstance(size, int) and size > 0 for size in sizes)
    )


def read_json(place: str, patience: Patience, hdfs: HdfsDriver | None) -> Any:
    """A file of JSON, wherever it lies."""
    files, path, _ = resolve(place, patience, hdfs)
    with files.open(files.status(path)) as file:
        text = file.read()
    try:
        return json.loads(text)
    except ValueError as error:
        raise DataError(f"{files.name(path)}: this is no JSON: {error}") from error


def join(folder: str, name: str) -> str:
    """The path or URL of a file in a folder; options of the URL stay behind it.

    >>> join("s3://bucket/day?region=eu-west-1", "a.parquet")
    's3://bucket/day/a.parquet?region=eu-west-1'
    """
    path, mark, options = folder.partition("?") if "://" in folder else (folder, "", "")
    return posixpath.join(path, name) + mark + options


def check_rows(found: Sequence[tuple[str, int]], expected: Sequence[int]) -> None:
    """Each file, by name, has as many rows as the metadata say. Raises `DataError`."""
    for (name, rows), promised in zip(found, expected, strict=True):
        if rows != promised:
            raise DataError(
                f"{name}: it has {rows:,} rows, but {METADATA} says {promised:,}; one of the two "
                "is of another version of the data."
            )
