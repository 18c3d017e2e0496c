"""Configured data in block datasets."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, PositiveFloat, PositiveInt, field_validator

from ..data_kind import DataKind
from ..holdout.samples import Reading
from ..remote import Patience, place_of
from ..source import DataSource
from .manifest import FILE, read_manifest
from .source import BlockSource


class BlocksData(DataKind):
    """A block dataset: `{kind: blocks, paths: [/disk0/acl, /disk1/acl]}`.

    Blocks keep the rows that they were written with, whatever `data.block_rows` says. Unless
    `data.shuffle` is false, each pass reads the blocks in a new order.
    """

    kind: Literal["blocks"] = "blocks"
    paths: list[str] = Field(
        min_length=1,
        description="folders of the dataset, one per stripe, in any order; local, or URLs (hdfs, "
        "webhdfs, s3, gs, az, http, https, memory, ...)",
    )
    verify: bool | Literal["always"] = Field(
        True,
        description="compare the digest of a block; true: once, and when its file changes; always: "
        "at each read, which stores always do; false: never",
    )
    timeout: PositiveFloat = Field(30.0, description="seconds that a server may be silent")
    attempts: PositiveInt = Field(10, description="requests to a server before giving up")

    @property
    def dense(self) -> bool:
        """Whether the manifest, if it still exists, says so."""
        folder = place_of(self.paths[0], self._patience)
        if not (folder / FILE).exists():
            return False
        part = read_manifest(folder).part("rows")
        return part is not None and part.dense

    def files(self) -> Iterator[Path]:
        """Yield the local folders."""
        yield from (Path(path) for path in self.paths if "://" not in path)

    def open_source(self, reading: Reading, like: DataSource | None = None) -> BlockSource:
        """Open the dataset; data to evaluate on get blocks of the size of `like`."""
        return BlockSource(
            self.paths,
            shuffle="blocks" if reading.shuffle else False,
            seed=reading.seed,
            verify=self.verify,
            block_rows=None if like is None else like.shape.rows,
            patience=self._patience,
        )

    @field_validator("paths", mode="before")
    @classmethod
    def _as_text(cls, paths: Any) -> Any:
        if not isinstance(paths, list | tuple):
            return paths
        return [str(path) if isinstance(path, Path) else path for path in paths]

    @property
    def _patience(self) -> Patience:
        return Patience(self.timeout, self.attempts)
