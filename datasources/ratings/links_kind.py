"""Configure a table of links between pages as data."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pyarrow as pa
from pydantic import Field

from ..data_kind import MemoryKind, Separator
from ..holdout.samples import Samples
from ..ids import Ids
from ..source import DataSource
from .files import read_table
from .matrix import assemble, numbered
from .table import Columns, Table, coded

log = logging.getLogger(__name__)


class LinksData(MemoryKind):
    """Links from a table: `{kind: links, path: edges.csv}`. Rows and columns are the pages.

    A record is a link from one page to another. Pages are all that occur, sorted: as numbers if all
    are whole numbers, else as text. Links of the same two pages in the same direction are added up.
    Of text files, lines that begin with `#` before the first record are comments.
    """

    kind: Literal["links"] = "links"
    path: Path = Field(description=".csv, .tsv or .txt (perhaps .gz), or .parquet file")
    source: str = Field("source", description="name of the column of pages that have the links")
    target: str = Field("target", description="name of the column of pages that they lead to")
    weight: str | None = Field(
        "weight", description="name of the column of weights; null: each link counts as 1"
    )
    columns: list[str] | None = Field(
        None, description="names of all columns, if the first line does not have them"
    )
    separator: Separator = None

    def files(self) -> Iterator[Path]:
        """Yield the file."""
        yield self.path

    def elsewhere(self, path: str, *, labelled: bool) -> LinksData:
        """Return the same kind of table at another path."""
        return self.model_copy(update={"path": Path(path)})

    def load(self, like: DataSource | None = None) -> Samples:
        """Load all links, without those of pages that `like` does not have."""
        names = Columns(
            self.source, self.target, self.weight, keys=("source", "target", "weight", "timestamp")
        )
        table = read_table(self.path, names, self.separator, self.columns, commented=True)
        pages = pages_of(table) if like is None else like.names
        found = assemble(table, "sum", pages, pages)
        if found.dropped:
            log.warning(
                "%s: %s links are of pages that the model does not know, and are left out",
                self.path,
                f"{found.dropped:,}",
            )
        return found.samples()


def pages_of(table: Table) -> Ids:
    """Return the pages that a table of links has on either side, sorted."""
    sides = table.users, table.items
    n = table.users.codes.size
    both = [pa.DictionaryArray.from_arrays(side.codes, Ids(side.ids).arrow) for side in sides]
    records = replace(table, places=lambda found: table.places([record % n for record in found]))
    return numbered(records, coded(pa.chunked_array(both)), "page", None)[1]
