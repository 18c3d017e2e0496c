"""The kinds of data that a configuration can name, one line each.

To add a kind:

1. Write a class with `kind: Literal["name"]` and the keys as fields, beside the code that reads
   the data. If all rows fit in memory, it is a `MemoryKind` with `load`; otherwise it is a
   `DataKind` with `open_source`. If it reads files, add `files`, and `elsewhere` for
   `learn predict`.
2. Add a line to `Kind` below. YAML files, `learn schema` and the messages about mistakes then
   know it.
3. Write a test that trains on it through the command line.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from .blocks import BlocksData
from .examples.kinds import PythonCalls, PythonImports, TimeZones
from .formats.libsvm_kind import LibffmData, LibsvmData
from .formats.sentences_kind import SentencesData
from .formats.text_kind import FileData, PythonDocs
from .holdout.split import HoldBy
from .hugectr import HugeCTRNorm, HugeCTRRaw
from .parquet.kind import ParquetData
from .ratings.kind import RatingsData
from .ratings.links_kind import LinksData
from .tables.kind import TableData


class Holdout(BaseModel, extra="forbid"):
    """A part of the training data that is set aside: `{kind: holdout, share: 0.05}`.

    A hash of each row's number chooses the rows (`split_rows`). With `by: contents` it is a hash of
    the row's contents, which no reordering changes (`split_by_contents`). Ratings are chosen by
    `split_ratings`.
    """

    kind: Literal["holdout"] = "holdout"
    share: float = Field(0.05, gt=0, lt=1, description="share of the rows to hold out")
    by: HoldBy | None = Field(
        None,
        description="rows: by a hash of their number; contents: rows, by a hash of their contents; "
        "for ratings only, entries: at random, or time: the newest; null: entries of ratings, rows "
        "of other data",
    )


Kind = (
    PythonDocs  #
    | FileData
    | SentencesData
    | BlocksData
    | TableData
    | LibsvmData
    | LibffmData
    | ParquetData
    | HugeCTRNorm
    | HugeCTRRaw
    | RatingsData
    | LinksData
    | TimeZones
    | PythonCalls
    | PythonImports
)

TrainData = Annotated[Kind, Field(discriminator="kind")]
"""Configured training data, by kind."""
EvalData = Annotated[Kind | Holdout, Field(discriminator="kind")]
"""Configured data to evaluate on: of any kind, or held out of the training data."""
