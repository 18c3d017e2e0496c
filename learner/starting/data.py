"""Choose the data section, and settings of the model, for a file that a user has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from blocklearn.datasources.blocks.manifest import FILE as MANIFEST
from blocklearn.datasources.listing import require_data

from ..errors import ConfigError
from .pairs import links, rankings, ratings
from .start import Start, wrong
from .tables import rows, targets
from .texts import documents, sentences

DIRECTIONS = 20  # where the data have so many columns


def start_for(model: str, path: Path, target: str | None = None) -> Start:
    """Return the parts of a configuration for `model` on the data at `path`.

    target: the column to predict; None: it is found.

    Raises:
        ConfigError: the model cannot learn from such a file; the message says from which. Or it
            predicts no column, or the file has no such column.
        DataError: the file cannot be read.
        FileNotFoundError: it does not exist.
    """
    if not path.exists():
        raise FileNotFoundError(2, "no such file or folder", str(path))
    require_data(path)
    if (path / MANIFEST).is_file():
        train = f"--set 'data.train={{kind: blocks, paths: [{path}]}}'"
        if STARTS[model] in (ratings, rankings):
            train += " --set data.eval=null"  # entries of blocks are not held out
        raise ConfigError(
            [
                f"{path}: is a block dataset, for which a configuration says what it has: begin "
                f"one by `learn init {model} FILE` on the data that it was made from, and train by "
                f"`learn --config {model}.yaml {train}`"
            ]
        )
    if target is None:
        return STARTS[model](path)
    if STARTS[model] is not targets:
        raise ConfigError([f"--target={target!r}: {model} predicts no column; glm and fm do"])
    return targets(path, target)


def groups(path: Path) -> Start:
    """Return the start for rows that form groups: of a table, or texts by their direction."""
    if (start := rows(path)) is None:
        start = documents(path)
        start.model["spherical"] = True
        start.told["spherical"] = "a long text is like a short one; false: compare positions"
    return start


def directions(path: Path) -> Start:
    """Return the start for rows that differ in few directions, or texts."""
    if (start := rows(path)) is None:
        return documents(path)
    keys = start.train
    count = 0 if keys["kind"] != "table" or keys["categorical"] else len(keys["numeric"])
    if 0 < count < DIRECTIONS:
        start.model["components"] = count  # there are no more directions
    return start


def densities(path: Path) -> Start:
    """Return the start for rows of numbers and categories that have densities."""
    if (start := rows(path)) is None:
        raise wrong(path, "a table of numbers and categories, or LIBSVM text")
    return start


STARTS: dict[str, Callable[[Path], Start]] = {
    "lda": documents,
    "nmf": documents,
    "als": ratings,
    "ranking": rankings,
    "glm": targets,
    "fm": targets,
    "kmeans": groups,
    "svd": directions,
    "gaussian-mixture": densities,
    "word-vectors": sentences,
    "pagerank": links,
    "components": links,
    "triangles": links,
}
