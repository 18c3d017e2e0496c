"""Settings of a conversion: fields of `Conversion`, and options of `learn convert` made from them.

Plain dataclasses and no import of other modules: the help of the command line does not wait for
Pydantic.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal


def setting(default: Any, about: str, metavar: str | None = None, **option: Any) -> Any:
    """A field with its description; option: `flag`, and more arguments of `typer.Option`."""
    return field(default=default, metadata={"help": about, "metavar": metavar} | option)


def column(about: str) -> Any:
    """A field that names a column or several; None: the default of the format."""
    return setting(None, about, "COLUMN")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How the dataset is to be. See `BlockWriter` for blocks; format: None: the names tell it."""

    block_rows: int = setting(1024, "Rows of a block.", min=1)
    codec: Literal["raw", "lz4"] = setting("lz4", "Of the blocks.")
    both_orientations: bool = setting(False, "Also with columns as rows, for ALS.")
    format: str | None = setting(None, "What SRC is, where its name does not say it.", "NAME")
    sparse: bool = setting(False, "Do not store the zeros of dense data.")
    classes: bool = setting(False, "The target is a number for each class.")
    target_files: list[str] | None = setting(None, "Targets of the rows, of any format.", "FILE")


@dataclass(frozen=True, kw_only=True)
class FormatOptions:
    """Options of formats, each of some of them (`Format.options`); None: not given."""

    targets: list[str] | None = column("Columns to predict.")
    weights: str | None = column("Column with weights of rows.")
    ids: str | None = column("Column with names of rows.")
    leave_out: list[str] | None = column("Columns not to read.")
    nulls: Literal["error", "zero", "drop_row"] | None = setting(
        None, "What is missing in features."
    )
    separator: str | None = setting(None, "Between fields [comma; tab in .tsv].", "CHAR")
    header: bool | None = setting(
        None, "Does the first line name the columns?", flag="--header/--no-header"
    )
    columns: list[str] | None = setting(None, "Names of all columns.", "NAME")
    user: str | None = column("Of ratings: their users [user].")
    item: str | None = column("Of ratings: their items [item].")
    rating: str | None = column("Of ratings: their numbers [rating]; '': each is 1.")
    duplicates: Literal["error", "last", "sum", "mean"] | None = setting(
        None, "Of ratings: several of one pair."
    )
    indices: str | None = column("Of Parquet: lists of indices.")
    values: str | None = column("Of Parquet: lists of their values.")
    zero_based: bool | None = setting(None, "Of LIBSVM: indices count from 0.")
    text: str | None = setting(None, "Of JSON lines and tables: where the text is [text].", "FIELD")
    min_df: int | None = setting(None, "Words in so many rows at least.", min=1)
    max_df: float | None = setting(None, "Words in such a share of rows at most.")
    hash_bits: int | None = setting(None, "2**N hashed columns in place of words.")
    vocabulary: Path | None = setting(None, "Of a bag of words: its words.", "FILE")
