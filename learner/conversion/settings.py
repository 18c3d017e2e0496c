"""Settings of a conversion, which become options of `learn convert`.

These are plain dataclasses without imports of other modules, so the help of the command line does
not wait for Pydantic.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal


def setting(default: Any, about: str, metavar: str | None = None, **option: Any) -> Any:
    """Declare a field with its description.

    option: `flag`, the option and its short form as written, or arguments of `typer.Option`.
    """
    return field(default=default, metadata={"help": about, "metavar": metavar} | option)


def column(about: str) -> Any:
    """Declare a field that names columns; None: the default of the format."""
    return setting(None, about, "COLUMN")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of the dataset; for blocks see `BlockWriter`."""

    block_rows: int = setting(1024, "Rows per block.", min=1)
    codec: Literal["raw", "lz4"] = setting("lz4", "How blocks are compressed.")
    both_orientations: bool = setting(False, "Store columns as rows too, for ALS.")
    format: str | None = setting(None, "Format of the files, if their names do not tell.", "NAME")
    sparse: bool = setting(False, "Do not store the zeros of dense data.")
    classes: bool = setting(False, "Replace the target by one target of 0 and 1 for each class.")
    target_files: list[str] | None = setting(
        None, "Files of any format with the targets of the rows.", "FILE"
    )


@dataclass(frozen=True, kw_only=True)
class FormatOptions:
    """Options of formats; each format has some (`Format.options`). None: not given."""

    targets: list[str] | None = column("Columns to predict.")
    weights: str | None = column("Column with weights of rows.")
    ids: str | None = column("Column with names of rows.")
    leave_out: list[str] | None = column("Columns not to read.")
    nulls: Literal["error", "zero", "drop_row"] | None = setting(
        None, "What to do with missing features."
    )
    separator: str | None = setting(None, "Separator of fields [comma; tab in .tsv].", "CHAR")
    header: bool | None = setting(
        None, "Does the first line name the columns?", flag="--header/--no-header"
    )
    columns: list[str] | None = setting(None, "Names of all columns.", "NAME")
    user: str | None = column("Ratings: column of users [user].")
    item: str | None = column("Ratings: column of items [item].")
    rating: str | None = column("Ratings: column of values [rating]; '' counts each line as 1.")
    duplicates: Literal["error", "last", "sum", "mean"] | None = setting(
        None, "Ratings: what to do with repeated pairs."
    )
    indices: str | None = column("Parquet: column with lists of indices.")
    values: str | None = column("Parquet: column with lists of values.")
    where: list[str] | None = setting(
        None, "Parquet: conditions on rows, such as 'day >= 2024-01-01'.", "CONDITION"
    )
    zero_based: bool | None = setting(None, "LIBSVM: indices count from 0.")
    text: str | None = setting(None, "JSON lines, tables: field with the text [text].", "FIELD")
    min_df: int | None = setting(None, "Keep words that occur in at least N rows.", min=1)
    max_df: float | None = setting(None, "Keep words that occur in at most this share of rows.")
    hash_bits: int | None = setting(None, "2**N hashed columns in place of words.")
    vocabulary: Path | None = setting(
        None, "Bag of words and LDA-C: file of its words.", "FILE", readable=False
    )
