"""Configured data in block datasets."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field

from ..data_kind import DataKind
from ..errors import DataError
from ..holdout.samples import Reading
from ..source import DataSource
from .manifest import FILE, read_manifest
from .source import BlockSource


class BlocksData(DataKind):
    """A block dataset: `{kind: blocks, paths: [/disk0/acl, /disk1/acl]}`.

    Blocks keep the rows that they were written with, whatever `data.block_rows` says. Unless
    `data.shuffle` is false, each pass reads the blocks in a new order.
    """

    kind: Literal["blocks"] = "blocks"
    paths: list[Path] = Field(
        min_length=1, description="folders of the dataset, one per stripe, in any order"
    )
    verify: bool | Literal["always"] = Field(
        True,
        description="compare the digest of a block; true: once, and when its file changes; always: "
        "at each read; false: never",
    )

    @property
    def dense(self) -> bool:
        """Whether the manifest, if it still exists, says so."""
        if not (self.paths[0] / FILE).is_file():
            return False
        part = read_manifest(self.paths[0]).part("rows")
        return part is not None and part.dense

    def files(self) -> Iterator[Path]:
        """Yield the folders."""
        yield from self.paths

    def open_source(self, reading: Reading, like: DataSource | None = None) -> BlockSource:
        """Open the dataset; data to evaluate on must have the columns of `like`."""
        source = BlockSource(
            self.paths,
            shuffle="blocks" if reading.shuffle else False,
            seed=reading.seed,
            verify=self.verify,
            block_rows=None if like is None else like.shape.rows,
        )
        if like is not None:
            check_names(self.paths[0], source.names, like.names)
        return source


def check_names(path: Path, names: Sequence[str] | None, known: Sequence[str] | None) -> None:
    """Raise `DataError` if a column has another name than in the data to train on."""
    if names is None or known is None or len(names) != len(known):
        return
    for column, (name, other) in enumerate(zip(names, known, strict=True)):
        if name != other:
            raise DataError(
                f"{path}: column {column} is {name!r}, but in the data to train on it is "
                f"{other!r}; convert both with the same vocabulary."
            )
