"""What a configuration may say about data: the kinds, one line each.

A kind is added in three steps. 1. A class with its keys as fields and `kind: Literal["name"]`, in a
module beside what it reads: a `MemoryKind` with `load` where all rows fit in memory, else a
`DataKind` with `open_source` (and, where it reads files, `files`, and `elsewhere` for `learn
predict`). 2. A line in `Kind` below: that puts it into the YAML files, `learn schema` and the
messages about mistakes. 3. A test that trains on it through the command line.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from .blocks import BlocksData
from .examples.kinds import PythonCalls, TimeZones
from .formats.libsvm_kind import LibsvmData
from .formats.text_kind import FileData, PythonDocs
from .holdout.split import HoldBy
from .hugectr import HugeCTRNorm, HugeCTRRaw
from .parquet.kind import ParquetData
from .ratings.kind import RatingsData
from .tables.kind import TableData


class Holdout(BaseModel, extra="forbid"):
    """A part of the training data, set aside: `{kind: holdout, share: 0.05}`.

    Which rows, a hash of each row's number decides (`split_rows`), or of what is in it
    (`split_by_contents`), which no reordering of the data changes; which ratings, `split_ratings`.
    """

    kind: Literal["holdout"] = "holdout"
    share: float = Field(0.05, gt=0, lt=1, description="share of the rows that are held out")
    by: HoldBy | None = Field(
        None,
        description="rows (by number) or contents (rows, by what is in them); of ratings, entries, "
        "at random, or the newest by time; null: entries of ratings, rows of other data",
    )


Kind = (
    PythonDocs  #
    | FileData
    | BlocksData
    | TableData
    | LibsvmData
    | ParquetData
    | HugeCTRNorm
    | HugeCTRRaw
    | RatingsData
    | TimeZones
    | PythonCalls
)

TrainData = Annotated[Kind, Field(discriminator="kind")]
EvalData = Annotated[Kind | Holdout, Field(discriminator="kind")]
