"""`learn convert` and `learn inspect`. Nothing heavy is imported before a command runs."""

import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import QuietOption, SeparatorOption, TextOption, VerboseOption

if TYPE_CHECKING:
    from ..conversion.convert import Conversion

MANY = ("--stripes", "--targets", "--target-files", "--leave-out", "--columns")
"""Options that take several values at once: `--stripes /disk1/acl /disk2/acl`."""


class Codec(StrEnum):
    """What `--codec` takes."""

    raw = "raw"
    lz4 = "lz4"


class Duplicates(StrEnum):
    """What `--duplicates` takes."""

    error = "error"
    last = "last"
    sum = "sum"
    mean = "mean"


class Nulls(StrEnum):
    """What `--nulls` takes."""

    error = "error"
    zero = "zero"
    drop_row = "drop_row"


def text(name: str, words: str, metavar: str = "COLUMN") -> Any:
    """An option with a text."""
    return typer.Option(f"--{name}", metavar=metavar, help=words)


SourcesArgument = Annotated[
    list[str], typer.Argument(metavar="SRC...", help="Files, a folder, a pattern, a URL.")
]
FormatOption = Annotated[
    str | None, text("format", "What SRC is, where its name does not say it.", "NAME")
]


def convert(
    sources: SourcesArgument,
    dst: Annotated[Path, typer.Argument(metavar="DST", help="Folder of the dataset.")],
    block_rows: Annotated[int, typer.Option("--block-rows", min=1, help="Rows of a block.")] = 1024,
    stripes: Annotated[
        list[Path] | None,
        text("stripes", "More folders, on other disks; blocks go to DST and these in turn.", "DIR"),
    ] = None,
    codec: Annotated[Codec, typer.Option("--codec", help="Of the blocks.")] = Codec.lz4,
    both_orientations: Annotated[
        bool, typer.Option("--both-orientations", help="Also with columns as rows, for ALS.")
    ] = False,
    format: FormatOption = None,
    sparse: Annotated[
        bool, typer.Option("--sparse", help="Do not store the zeros of dense data.")
    ] = False,
    classes: Annotated[
        bool, typer.Option("--classes", help="The target is a number for each class.")
    ] = False,
    target_files: Annotated[
        list[str] | None, text("target-files", "Targets of the rows, of any format.", "FILE")
    ] = None,
    targets: Annotated[list[str] | None, text("targets", "Columns to predict.")] = None,
    weights: Annotated[str | None, text("weights", "Column with weights of rows.")] = None,
    ids: Annotated[str | None, text("ids", "Column with names of rows.")] = None,
    leave_out: Annotated[list[str] | None, text("leave-out", "Columns not to read.")] = None,
    nulls: Annotated[
        Nulls | None, typer.Option("--nulls", help="What is missing in features.")
    ] = None,
    separator: SeparatorOption = None,
    header: Annotated[
        bool | None,
        typer.Option("--header/--no-header", help="Does the first line name the columns?"),
    ] = None,
    columns: Annotated[list[str] | None, text("columns", "Names of all columns.", "NAME")] = None,
    user: Annotated[str | None, text("user", "Of ratings: their users [user].")] = None,
    item: Annotated[str | None, text("item", "Of ratings: their items [item].")] = None,
    rating: Annotated[
        str | None, text("rating", "Of ratings: their numbers [rating]; '': each is 1.")
    ] = None,
    duplicates: Annotated[
        Duplicates | None, typer.Option("--duplicates", help="Of ratings: several of one pair.")
    ] = None,
    indices: Annotated[str | None, text("indices", "Of Parquet: lists of indices.")] = None,
    values: Annotated[str | None, text("values", "Of Parquet: lists of their values.")] = None,
    zero_based: Annotated[
        bool, typer.Option("--zero-based", help="Of LIBSVM: indices count from 0.")
    ] = False,
    text_: TextOption = None,
    min_df: Annotated[
        int | None, typer.Option("--min-df", min=1, help="Words in so many rows at least.")
    ] = None,
    max_df: Annotated[
        float | None, typer.Option("--max-df", help="Words in such a share of rows at most.")
    ] = None,
    hash_bits: Annotated[
        int | None, typer.Option("--hash-bits", help="2**N hashed columns in place of words.")
    ] = None,
    vocabulary: Annotated[
        Path | None, text("vocabulary", "Of a bag of words: its words.", "FILE")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with what was interrupted, if anything.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a dataset.")] = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Make a block dataset of files: CSV, ratings, LIBSVM, Vowpal Wabbit, Matrix Market, UCI bag of
    words, text, JSON lines, SciPy npz, NumPy npy, BIDMat, Parquet, or another block dataset.
    """
    if resume and overwrite:
        raise typer.BadParameter("choose one of --resume and --overwrite")
    given = {
        "targets": targets, "weights": weights, "ids": ids, "leave_out": leave_out,
        "nulls": nulls and nulls.value, "separator": separator, "header": header,
        "columns": columns, "user": user, "item": item, "rating": rating,
        "duplicates": duplicates and duplicates.value, "indices": indices, "values": values,
        "zero_based": zero_based or None, "text": text_, "min_df": min_df, "max_df": max_df,
        "hash_bits": hash_bits, "vocabulary": vocabulary,
    }  # fmt: skip
    options = {name: value for name, value in given.items() if value is not None}
    check_options(sources, format, options)
    from ..conversion.convert import Conversion

    job = Conversion(
        sources=sources,
        folders=[dst, *(stripes or ())],
        block_rows=block_rows,
        codec=codec.value,
        both_orientations=both_orientations,
        format=format,
        options=options,
        sparse=sparse,
        classes=classes,
        target_files=target_files or (),
    )
    run(job, resume=resume, overwrite=overwrite, quiet=quiet)


def inspect(
    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATH...", help="Data of any format, a dataset, a model, a run."),
    ],
    format: FormatOption = None,
    separator: SeparatorOption = None,
    text_: TextOption = None,
    json: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    verbose: VerboseOption = False,
) -> None:
    """Say what something is: rows, columns, skew, blocks, and what would be slow about it. All
    rows are read.
    """
    import json as writing

    given = {"separator": separator, "text": text_}
    options = {name: value for name, value in given.items() if value is not None}
    if options:
        check_options(paths, format, options)
    from ..conversion.display import ConversionDisplay, Silent
    from ..inspection.inspect import inspect
    from ..inspection.lines import lines

    if quiet:
        report = inspect(paths, Silent(), format=format, options=options)
    else:
        with ConversionDisplay(sys.stderr) as watch:
            report = inspect(paths, watch, format=format, options=options)
    for line in [writing.dumps(report, indent=2)] if json else lines(report, ", ".join(paths)):
        print(line)


def run(job: "Conversion", *, resume: bool, overwrite: bool, quiet: bool) -> None:
    """Convert, and say what was done."""
    from ..conversion.convert import convert
    from ..conversion.display import ConversionDisplay, Silent
    from ..figures import size
    from ..runs.signals import interruptible

    dst = job.folders[0]
    with interruptible(dst):
        if quiet:
            convert(job, Silent(), resume=resume, overwrite=overwrite)
            return
        with ConversionDisplay(sys.stderr) as watch:
            done = convert(job, watch, resume=resume, overwrite=overwrite)
    stored = sum(file.stat().st_size for folder in job.folders for file in folder.iterdir())
    print(f"{dst}: {done.rows:,} rows, {done.layout.columns:,} columns, {size(stored)}")
    for note in done.notes:
        print(f"{dst}: {note}")


def check_options(sources: Sequence[str], format: str | None, options: dict[str, Any]) -> None:
    """Every option is one of the format's."""
    from blocklearn.datasources.formats import FORMATS, find_files

    if format is not None and format not in FORMATS:
        raise typer.BadParameter(f"it is one of {', '.join(FORMATS)}", param_hint="--format")
    kind, _ = find_files(sources, format, options)
    for name in options:
        if name not in FORMATS[kind].options:
            known = ", ".join(spelled(option) for option in FORMATS[kind].options) or "none"
            raise typer.BadParameter(
                f"not for {kind}; its options: {known}", param_hint=spelled(name)
            )


def spelled(name: str) -> str:
    """An option as it is written."""
    return "--" + name.replace("_", "-")


def spread(arguments: Sequence[str]) -> list[str]:
    """Options of `MANY` with each of their values on its own.

    >>> spread(["convert", "a.csv", "acl", "--stripes", "/b/acl", "/c/acl", "-q"])
    ['convert', 'a.csv', 'acl', '--stripes', '/b/acl', '--stripes', '/c/acl', '-q']
    """
    found: list[str] = []
    option, waiting = "", False  # of the values that follow; whether none has come yet
    for argument in arguments:
        if argument.startswith("-"):
            found += [option] if waiting else []  # for a message that a value is missing
            option, waiting = (argument, True) if argument in MANY else ("", False)
            found += [] if waiting else [argument]
        else:
            found += [option, argument] if option else [argument]
            waiting = False
    return found + ([option] if waiting else [])
