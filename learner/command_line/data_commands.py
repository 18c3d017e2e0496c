"""`learn convert` and `learn inspect`.

Nothing heavy is imported before a command runs.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..conversion.settings import FormatOptions, Settings
from ..terminal import message_text, show_lines, show_text
from .options import (
    FormatOption,
    JsonOption,
    QuietOption,
    SeparatorOption,
    TextOption,
    file_option,
    options_of,
    spelled,
    taken,
    with_options,
)

if TYPE_CHECKING:
    from ..conversion.convert import Conversion
    from ..conversion.display import Watch

MANY = (
    "--stripes",
    *(
        spelled(option.name)
        for option in options_of(Settings, FormatOptions)
        if option.annotation.__origin__ == list[str] | None
    ),
)
"""The options that take several values at once: `--stripes /disk1/acl /disk2/acl`."""


@with_options(Settings, FormatOptions, after="stripes")
def convert(
    sources: Annotated[
        list[str], typer.Argument(metavar="SRC...", help="Files, a folder, a pattern, a URL.")
    ],
    dst: Annotated[
        str,
        typer.Argument(metavar="DST", help="Folder of the dataset, here or in a store (s3://...)."),
    ],
    stripes: Annotated[
        list[Path] | None,
        file_option(
            "--stripes", "More folders, on other disks; blocks go to DST and these in turn.", "DIR"
        ),
    ] = None,
    staging: Annotated[
        Path | None,
        file_option(
            "--staging",
            "For a DST in a store: folder that holds the dataset until it is sent "
            "[a temporary folder].",
            "DIR",
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Resume an interrupted conversion, if any.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an old dataset once the new one is whole.")
    ] = False,
    quiet: QuietOption = False,
    **settings: Any,
) -> None:
    """Convert files to a block dataset.

    Formats: CSV, ratings, LIBSVM, LIBFFM, Vowpal Wabbit, Matrix Market, LDA-C, UCI bag of words,
    text, JSON lines, SciPy npz, NumPy npy, BIDMat, Parquet, or another block dataset.
    """
    if resume and overwrite:
        raise typer.BadParameter("choose one of --resume and --overwrite")
    options = taken(FormatOptions, settings)
    options = {name: value for name, value in options.items() if value is not None}
    check_options(sources, settings["format"], options)
    from blocklearn.datasources.remote import PATIENCE, place_of

    from ..conversion.convert import Conversion
    from ..conversion.staging import made, staged

    given = {name: value for name, value in settings.items() if value is not None}
    place = place_of(dst, PATIENCE)
    if isinstance(place, Path):
        if staging is not None:
            raise typer.BadParameter("for a DST in a store only", param_hint="--staging")
        job = Conversion(sources, [place, *(stripes or ())], options=options, **given)
        run(job, resume=resume, overwrite=overwrite, quiet=quiet)
        return
    if stripes:
        raise typer.BadParameter("not with a DST in a store", param_hint="--stripes")
    if resume and staging is None:
        raise typer.BadParameter("--resume needs --staging, where the conversion began")
    with staged(place, staging, overwrite=overwrite) as folder:
        job = Conversion(sources, [folder], options=options, **given)
        if not (resume and made(folder, job)):
            run(job, resume=resume, overwrite=overwrite, quiet=quiet, name=str(place))


def inspect(
    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATH...", help="Data of any format, a dataset, a model, a run."),
    ],
    format: FormatOption = None,
    separator: SeparatorOption = None,
    text_: TextOption = None,
    json: JsonOption = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Describe data, a model or a run.

    For data, print rows, columns, skew, blocks, and what would be slow. This reads all rows.
    """
    import json as writing

    given = {"separator": separator, "text": text_}
    options = {name: value for name, value in given.items() if value is not None}
    if options:
        check_options(paths, format, options)
    from ..inspection.inspect import inspect
    from ..inspection.lines import lines

    with watching(quiet=quiet) as watch:
        report = inspect(paths, watch, format=format, options=options)
    if json:
        show_text(writing.dumps(report, indent=2))
    else:
        show_lines(map(message_text, lines(report, ", ".join(paths))))


def run(
    job: "Conversion", *, resume: bool, overwrite: bool, quiet: bool, name: str | None = None
) -> None:
    """Convert, and print a summary unless `quiet` is set.

    name: of the dataset in the summary; None: that of its first folder.
    """
    from ..conversion.convert import convert
    from ..figures import size
    from ..runs.signals import interruptible

    dst = job.folders[0]
    stopped = f"{dst}: stopped; --resume resumes the conversion"
    with interruptible(stopped), watching(quiet=quiet) as watch:
        done = convert(job, watch, resume=resume, overwrite=overwrite)
    if quiet:
        return
    stored = sum(file.stat().st_size for folder in job.folders for file in folder.iterdir())
    name = str(dst) if name is None else name
    show_lines([f"{name}: {done.rows:,} rows, {done.layout.columns:,} columns, {size(stored)}"])
    show_lines(message_text(f"{name}: {note}") for note in done.notes)


def watching(*, quiet: bool) -> "Watch":
    """Return what shows the progress, unless `quiet` is set."""
    from ..conversion.display import ConversionDisplay, Watch

    return Watch() if quiet else ConversionDisplay(sys.stderr)


def check_options(sources: Sequence[str], format: str | None, options: dict[str, Any]) -> None:
    """Raise `BadParameter` for an unknown format or another format's option."""
    from blocklearn.datasources.formats import FORMATS, find_files

    if format is not None and format not in FORMATS:
        raise typer.BadParameter(f"must be one of {', '.join(FORMATS)}", param_hint="--format")
    kind, _ = find_files(sources, format, options)
    for name in options:
        if name not in FORMATS[kind].options:
            known = ", ".join(spelled(option) for option in FORMATS[kind].options) or "none"
            raise typer.BadParameter(
                f"not for {kind}; its options: {known}", param_hint=spelled(name)
            )


def spread(arguments: Sequence[str]) -> list[str]:
    """Repeat options of `MANY` before each of their values.

    >>> spread(["convert", "a.csv", "acl", "--stripes", "/b/acl", "/c/acl", "-q"])
    ['convert', 'a.csv', 'acl', '--stripes', '/b/acl', '--stripes', '/c/acl', '-q']
    """
    found: list[str] = []
    option, waiting = "", False  # option of the next values; whether it has no value yet
    for argument in arguments:
        if argument.startswith("-"):
            found += [option] if waiting else []  # typer says that a value is missing
            option, waiting = (argument, True) if argument in MANY else ("", False)
            found += [] if waiting else [argument]
        else:
            found += [option, argument] if option else [argument]
            waiting = False
    return found + ([option] if waiting else [])
