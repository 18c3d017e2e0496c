"""Share the rows of a command among workers, or among the tasks of a job array."""

import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import typer

from ..terminal import show_lines
from .launching import launch

if TYPE_CHECKING:
    from ..engines.crew import Crew
    from ..engines.exchange import Exchange

Result = TypeVar("Result")
PATIENCE = 86400.0
"""Seconds to wait for the slowest worker: parts may take long, and differ."""

STOPPED = "stopped by a signal; start the command again"

Part = tuple[int, int]
"""The number of a part, from 0, and of all parts."""

PartOption = Annotated[
    str | None,
    typer.Option(
        "--part",
        metavar="I/N",
        help="Only part I, from 0, of N parts of the rows; --out FILE becomes FILE-I-of-N.",
    ),
]
Engine = Literal["auto", "local", "mpi", "ray"]
EngineOption = Annotated[
    Engine | None,
    typer.Option(
        "--engine",
        help="How workers are connected: mpi, ray; auto [default] follows the environment.",
    ),
]
WorkersOption = Annotated[
    int | None,
    typer.Option("--workers", min=1, metavar="N", help="Workers that share the rows."),
]


def part_of(given: str | None, engine: Engine | None, workers: int | None) -> Part | None:
    """Return the part that `--part` names; None: it is not given.

    engine, workers: the other options, which must then be left out.
    """
    if given is None:
        return None
    if engine is not None or workers is not None:
        raise typer.BadParameter("choose one of --part and --engine")
    number, _, parts = given.partition("/")
    if not (number.isdecimal() and parts.isdecimal() and int(number) < int(parts)):
        raise typer.BadParameter(
            f"must be I/N, I from 0 to N - 1, not {given}", param_hint="--part"
        )
    return int(number), int(parts)


def check_alone(part: Part | None, workers: int | None, wanted: str) -> None:
    """Raise BadParameter if rows are to be shared that cannot be.

    part: of `--part`. workers: the option. wanted: what must be given for several workers.
    """
    from ..engines.open import started_together

    if part is not None or (workers or 1) > 1 or started_together(os.environ):
        raise typer.BadParameter(f"several workers, or --part, need {wanted}")


def shared(
    work: Callable[["Crew"], Result], engine: Engine | None, workers: int | None
) -> tuple[Result, "Crew"]:
    """Call `work` on all workers; return what it returned here, and the workers.

    work: a function that can be pickled.
    engine: the name of an engine; None: as the environment says.
    workers: how many there are; with MPI, the command starts again as so many workers.
    """
    from ..engines.crew import Crew
    from ..engines.open import opened
    from ..errors import WorkerError
    from ..exit_codes import exit_code

    launch(engine or "auto", workers)
    from ..runs.signals import interruptible

    crew = Crew(opened(engine or "auto", workers, PATIENCE, task=lambda: partial(_along, work)))
    try:
        with crew.guard(exit_code):
            with interruptible(STOPPED, crew.exchange):
                found = _joined(work, crew.exchange)
            crew.gather(None)  # until here, all hear of an error of any
            return found, crew
    except WorkerError as error:
        if crew.leads:
            raise
        raise typer.Exit(error.code) from None  # the worker that failed, and worker 0, say why
    finally:
        crew.exchange.dismiss()


def show_shared(
    work: "Callable[[Crew], list[str]]",
    part: Part | None,
    engine: Engine | None,
    workers: int | None,
) -> None:
    """Write the part of `--part`, or let all workers write theirs; print a line on each file."""
    if part is not None:
        from ..engines.crew import Crew
        from ..runs.signals import interruptible

        with interruptible(STOPPED):
            show_lines(work(Crew()))
        return
    lines, crew = shared(work, engine, workers)
    if crew.leads:
        show_lines(lines)


def _joined(work: Callable[["Crew"], Result], exchange: "Exchange") -> Result:
    """Work as one of the workers. The first exchange is where Ray starts the others."""
    from ..engines.crew import Crew

    crew = Crew(exchange)
    crew.gather(None)
    return work(crew)


def _along(work: Callable[["Crew"], Result], exchange: "Exchange") -> None:
    """Work as one of the workers that an engine has started."""
    from ..engines.crew import Crew

    _joined(work, exchange)
    Crew(exchange).gather(None)
