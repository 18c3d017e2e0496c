"""`learn report`, `learn compare` and `learn doctor`.

Nothing heavy is imported before one runs.
"""

from pathlib import Path
from typing import Annotated

import typer

from ..terminal import show_lines, show_text
from .options import (
    JsonOption,
    ModelClassOption,
    file_argument,
    file_option,
    model_class,
)


def report(
    run: Annotated[Path, file_argument("RUN", "Folder of a run.")],
    out: Annotated[Path | None, file_option("--out", "File of the page [RUN/report.html].")] = None,
    against: Annotated[
        Path | None, file_option("--against", "Compare with this earlier run.", "RUN")
    ] = None,
    rows: Annotated[
        int,
        typer.Option(
            "--rows",
            metavar="N",
            min=0,
            help="Rows of training and held-out data to read again, for typical documents, "
            "curves and errors; 0: none.",
        ),
    ] = 20_000,
    model: ModelClassOption = None,
) -> None:
    """Write a page of HTML on a run and its model.

    It has curves, speed, memory, settings, and what the model has learned.
    """
    from ..page import write_report
    from ..runs.run_folder import RunFolder

    file = RunFolder(run).report if out is None else out
    write_report(run, file, against=against, rows=rows, model=model_class(model))
    show_lines([str(file)])


def compare(
    runs: Annotated[list[Path], file_argument("RUN...", "Folders of runs.")],
    json: JsonOption = False,
) -> None:
    """Show runs side by side: settings, scores, time, memory.

    Only settings that differ are shown.
    """
    from ..inspection.compare import compare_lines

    if json:
        show_text("\n".join(compare_lines(runs, json)))
    else:
        show_lines(compare_lines(runs, json))


def doctor(
    places: Annotated[
        list[str] | None,
        typer.Option(
            "--fs", metavar="URL", help="Also check that this file or folder can be read."
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Check the installation, and run a self test.

    It looks at libraries, threads, memory, GPUs and file systems.

    Exit code 69 if something is wrong.
    """
    from ..installation.doctor import print_report

    raise typer.Exit(print_report(places or (), json))
