"""Options and checks that several commands on trained models share."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ..storage.table_file import TABLES
from ..terminal import show_lines
from .options import file_argument
from .parts import ending
from .sharing import Engine, Part, shared

if TYPE_CHECKING:
    from ..engines.crew import Crew

RESULTS = (*TABLES, ".npy")
"""Endings of files of results."""

RunArgument = Annotated[Path, file_argument("RUN", "Folder of a run or model.")]
TopOption = Annotated[int, typer.Option("--top", min=1, help="Length of the lists.")]
ListsOption = Annotated[
    str | None,
    typer.Option(
        "--out",
        metavar="FILE",
        help="Write lists to a .parquet, .csv or .tsv file, here or in a store (s3://...).",
    ),
]
OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Replace old files.")]
DeviceOption = Annotated[
    str, typer.Option("--device", help="Where to compute: cpu, cuda, cuda:N, auto.")
]
SkipOption = Annotated[
    bool,
    typer.Option("--skip-unknown", help="Leave out users and items that the model does not know."),
]
ReplicasOption = Annotated[
    str,
    typer.Option(
        "--replicas",
        metavar="N",
        help="Copies of the model, which share the blocks; auto, with --device cuda: one for each "
        "GPU.",
    ),
]
SeparatorOption = Annotated[
    str | None,
    typer.Option(
        "--separator", metavar="CHAR", help="Separator of tables [as in the training data]."
    ),
]
FieldOption = Annotated[
    str | None,
    typer.Option(
        "--text",
        metavar="FIELD",
        help="JSON lines, tables: field with the text [as in the training data].",
    ),
]
DATA = typer.Option(
    "--data",
    metavar="PATH",
    help="Data of the kind that the run was trained on (table, ratings, ...); else files of "
    "any format that `learn convert` reads, or a block dataset.",
)
DataOption = Annotated[str, DATA]


def count_of(replicas: str) -> int | Literal["auto"]:
    """Return the number that `--replicas` tells. Raises BadParameter if it tells none."""
    if replicas == "auto":
        return "auto"
    if not replicas.isdecimal() or int(replicas) < 1:
        raise typer.BadParameter("must be a number above 0, or auto", param_hint="--replicas")
    return int(replicas)


def check_table(out: str | None) -> None:
    """Raise BadParameter unless results go to a table, or to the terminal."""
    if out is not None and ending(out) not in TABLES:
        raise typer.BadParameter(f"must end in {listed(TABLES)}", param_hint="--out")


def listed(endings: Sequence[str]) -> str:
    """Return the endings as a message lists them."""
    return f"{', '.join(endings[:-1])} or {endings[-1]}"


def show_shared(
    work: "Callable[[Crew], list[str]]",
    part: Part | None,
    engine: Engine | None,
    workers: int | None,
) -> None:
    """Write the part of `--part`, or let all workers write theirs; print a line on each file."""
    from ..engines.crew import Crew

    if part is not None:
        show_lines(work(Crew()))
        return
    lines, crew = shared(work, engine, workers)
    if crew.leads:
        show_lines(lines)


def check_apart(out: Path | str | None, *read: Path | str | None) -> None:
    """Raise BadParameter if the results would replace a file that the command reads."""
    for each in read:
        there = out is not None and each is not None and Path(out).exists() and Path(each).exists()
        if there and os.path.samefile(str(out), str(each)):
            raise typer.BadParameter(f"{out}: would replace what is read", param_hint="--out")


def check_new(out: Path | None, *, overwrite: bool) -> None:
    """Refuse a file that exists, before any work is done for it. "-" is standard output."""
    from ..files.existing import check_new as check_free

    if out is not None and str(out) != "-" and not overwrite:
        check_free([out])
