"""The command `learn`.

Nothing heavy is imported before a command runs, so `--help` is instant.
"""

import gc
import io
import logging
import os
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from ..terminal import MessageFormatter, say
from . import (
    address_space,
    data_commands,
    list_commands,
    model_commands,
    predict_command,
    serve_commands,
    start_commands,
    train_commands,
    watch_commands,
)
from .options import with_verbose

# as in `ExitCode`, whose module is imported only for errors
USAGE, OUT_OF_MEMORY, KILLED = 2, 71, 130


class Commands(TyperGroup):
    """The commands, whose help names the models of installed packages, too."""

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write which models other packages bring; their code is not imported."""
        from importlib.metadata import entry_points

        if found := sorted({entry.name for entry in entry_points(group="blocklearn.models")}):
            formatter.write_paragraph()
            formatter.write_text(
                f"Models of installed packages, for model.kind: {', '.join(found)}. `learn kinds` "
                "says whose they are."
            )
        super().format_epilog(ctx, formatter)


app = typer.Typer(
    cls=Commands,
    help="Train models on data larger than memory, and use them. `learn --config FILE` is short "
    "for `learn train --config FILE`.",
    epilog="Exit codes: 0 done, 2 usage, 65 bad data, 66 no input, 69 unavailable, 70 internal, "
    "71 out of memory or threads, 74 input/output, 75 interrupted (run again), 76 diverged, "
    "77 permission, 78 bad configuration.",
    add_completion=False,
    rich_markup_mode=None,  # rich would double the time of --help
    pretty_exceptions_enable=False,
)


def _version(asked: bool) -> None:
    if asked:
        from blocklearn import __version__

        typer.echo(f"blocklearn {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Declare the options of all commands."""


COMMANDS: tuple[Callable[..., None], ...] = (
    train_commands.train,
    start_commands.init,
    *start_commands.SHORT,
    model_commands.topics,
    predict_command.predict,
    model_commands.factors,
    model_commands.export,
    model_commands.evaluate,
    list_commands.recommend,
    list_commands.similar,
    serve_commands.serve,
    train_commands.config,
    train_commands.schema,
    train_commands.kinds,
    data_commands.convert,
    data_commands.inspect,
    watch_commands.report,
    watch_commands.compare,
    watch_commands.doctor,
)

for command in COMMANDS:
    app.command()(with_verbose(command))


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run `learn`, and exit with a code of `exit_codes.ExitCode`.

    arguments: without the name of the program; None: those of the process.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    if arguments is None:  # modules and compiled kernels are a million objects, which all live on
        gc.set_threshold(50_000, 20, 50)
        _make_streams_take_text()
    if logging.lastResort is not None:  # it prints warnings if no handler is set up
        logging.lastResort.setFormatter(MessageFormatter())
    if {"--help", "-h", "--version"}.isdisjoint(given) and address_space.too_small():
        print(f"learn: {address_space.advice()}", file=sys.stderr)
        sys.exit(OUT_OF_MEMORY)
    try:
        try:
            app(args=_with_command(given), prog_name="learn")
            code = 0
        except SystemExit as stop:  # how typer ends: after help, and after wrong usage with 2
            if isinstance(stop.__context__, BrokenPipeError):  # typer takes it for a failure
                raise stop.__context__ from None
            code = stop.code if isinstance(stop.code, int) else 0
            if code == USAGE:
                _say_what_is_meant(_with_command(given))
        sys.stdout.flush()  # now, so that an error is reported
    except BrokenPipeError:  # `learn topics ... | head`: the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except BaseException as error:
        code = _report(error, verbose=not {"-v", "--verbose"}.isdisjoint(given))
        _let_go_of_full_streams()
    if code == KILLED and arguments is None:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # the interpreter would wait for replicas that work on a block
    if arguments is None:  # the interpreter would search all objects for garbage before it ends
        gc.freeze()
    sys.exit(code)


def _with_command(arguments: list[str]) -> list[str]:
    """Put `train` before options without a command: `learn --config X` trains."""
    if not arguments:
        return ["--help"]
    if arguments[0] == "-h":
        return ["--help", *arguments[1:]]
    if arguments[0].startswith("-") and arguments[0] not in ("--help", "--version"):
        return ["train", *arguments]
    return data_commands.spread(arguments)


def _say_what_is_meant(arguments: list[str]) -> None:
    """Print the names here of wrong words that other programs use."""
    from .guesses import hints

    for line in hints(typer.main.get_command(app), arguments):
        say(line)


def _report(error: BaseException, verbose: bool) -> int:
    """Print an error on stderr, with a traceback if internal or `verbose`."""
    try:
        from ..configuration.class_names import LOADED
        from ..exit_codes import ExitCode, exit_code, message

        code = exit_code(error)
    except (MemoryError, ImportError, OSError):  # libraries do not load
        if not (text := address_space.advice()):
            raise
        print(f"learn: {text}", file=sys.stderr)
        return OUT_OF_MEMORY
    lines = []
    if type(error) is MemoryError and (advice := address_space.advice()):
        error.add_note(advice)
    if verbose or code == ExitCode.INTERNAL:
        lines += traceback.format_exception(error)
    if code == ExitCode.INTERNAL and LOADED:
        own = ", ".join(LOADED)
        lines.append(f"learn: an error in {own}, or else a bug in blocklearn: see the text above")
    elif code == ExitCode.INTERNAL:
        lines.append("learn: a bug in blocklearn; please report it with the text above")
    elif code == ExitCode.CONFIG and re.match(r"\S+: |.+:\d+:\d+: |--", str(error)):
        lines.append(message(error))  # lines that begin with file:line:column, for editors
    else:
        lines.append(f"learn: {message(error)}")
    with suppress(OSError):  # stderr is full or closed too: the exit code must suffice
        for line in lines:
            say(line.removesuffix("\n"))
    return int(code)


def _make_streams_take_text() -> None:
    """Open streams that the caller has closed, and escape what a stream's encoding lacks."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            with suppress(OSError):  # a file has become a pipe since the start
                stream.reconfigure(errors="backslashreplace")


def _let_go_of_full_streams() -> None:
    """Drop what a full or closed stream cannot take.

    The interpreter would otherwise try again at its end, and exit with its own code 120.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


if __name__ == "__main__":
    main()
