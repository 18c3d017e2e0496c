"""The command `learn`.

Nothing heavy is imported before a command runs, so `--help` is instant.

Longer than 300 lines: options of commands are declared one by one.
"""

import logging
import os
import re
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from ..terminal import MessageFormatter, message_text, say, show_lines, show_text
from . import data_commands, model_commands, watch_commands
from .options import QuietOption, VerboseOption

if TYPE_CHECKING:
    from ..configuration.config import RunConfig

USAGE, KILLED = 2, 130  # as in `ExitCode`, whose module is imported only for errors

app = typer.Typer(
    help="Train models on data larger than memory, and use them. `learn --config FILE` is short "
    "for `learn train --config FILE`.",
    epilog="Exit codes: 0 done, 2 usage, 65 bad data, 66 no input, 69 unavailable, 70 internal, "
    "71 out of memory or threads, 74 input/output, 75 interrupted (run again), 76 diverged, "
    "77 permission, 78 bad configuration.",
    add_completion=False,
    rich_markup_mode=None,  # rich would double the time of --help
    pretty_exceptions_enable=False,
)


class Resume(StrEnum):
    """The values of `--resume`."""

    auto = "auto"


class LogFormat(StrEnum):
    """The values of `--log-format`."""

    text = "text"
    json = "json"


ConfigOption = Annotated[
    list[Path],
    typer.Option("--config", metavar="FILE", help="YAML file; of several, later ones win."),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="One value, e.g. model.topics=200. Wins over LEARN__MODEL__TOPICS and the files.",
    ),
]
OutOption = Annotated[
    Path | None, typer.Option("--out", metavar="DIR", help="Run folder [runs/CONFIG].")
]
SeedOption = Annotated[int | None, typer.Option("--seed", help="Short for learner.seed.")]
ThreadsOption = Annotated[int | None, typer.Option("--threads", help="Short for learner.threads.")]
DeviceOption = Annotated[
    str | None, typer.Option("--device", help="Short for learner.device: cpu, cuda, cuda:N, auto.")
]


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


def train(
    config: ConfigOption,
    set_: SetOption = None,
    out: OutOption = None,
    seed: SeedOption = None,
    threads: ThreadsOption = None,
    device: DeviceOption = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an old run.")] = False,
    resume: Annotated[
        Resume | None, typer.Option("--resume", help="Resume from the newest checkpoint, if any.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything, print memory and time, stop.")
    ] = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
    log_format: Annotated[
        LogFormat, typer.Option("--log-format", help="Progress as lines or as JSON events.")
    ] = LogFormat.text,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="FILE", help="Plot of a regularisation path."),
    ] = None,
) -> None:
    """Train a model as the configuration says."""
    if overwrite and resume:
        raise typer.BadParameter("choose one of --overwrite and --resume")
    run = _resolve(config, set_, out, seed, threads, device)
    if plot is not None:
        from ..reports.targets import check_plot

        check_plot(run.model)
    if dry_run:
        from ..runs.dry_run import dry_run_lines

        show_lines(dry_run_lines(run, overwrite=overwrite, resume=resume is not None), flush=True)
        return
    from ..runs.run_folder import RunFolder
    from ..runs.training import RunOptions
    from ..runs.training import train as train_run

    json = log_format is LogFormat.json
    options = RunOptions(overwrite, resume is not None, quiet, json)
    folder = RunFolder(run.out)
    trained = train_run(run, options)
    if run.learner.report and (trained is not None or not folder.report.exists()):
        from ..page import write_report

        write_report(folder.path, folder.report)
        options.say(f"the report is in {folder.report}")
    if plot is not None:
        from ..reports.targets import plot_path
        from ..storage.persistence import load

        plot_path(load(run.out), plot)
    if trained is not None and not quiet and not json:
        from ..reports.lines import summary_lines
        from ..watch.events import evaluations

        held_out = evaluations(folder.metrics)
        show_lines([*summary_lines(trained, held_out), *trained.report()])


def config(
    config: ConfigOption,
    set_: SetOption = None,
    out: OutOption = None,
    seed: SeedOption = None,
    threads: ThreadsOption = None,
    device: DeviceOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Print the configuration that `train` would use, with all defaults, as YAML."""
    run = _resolve(config, set_, out, seed, threads, device)
    from ..configuration.yaml_config import to_yaml

    show_text(to_yaml(run).removesuffix("\n"))


def schema() -> None:
    """Print the JSON Schema of configuration files, for editors."""
    import json

    from ..configuration.config import RunConfig

    print(json.dumps(RunConfig.model_json_schema(), indent=2))


for command in (
    train,
    model_commands.topics,
    model_commands.predict,
    model_commands.factors,
    model_commands.export,
    model_commands.evaluate,
    model_commands.recommend,
    model_commands.similar,
    config,
    schema,
    data_commands.convert,
    data_commands.inspect,
    watch_commands.report,
    watch_commands.compare,
    watch_commands.doctor,
):
    app.command()(command)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run `learn`, and exit with a code of `exit_codes.ExitCode`.

    arguments: without the name of the program; None: those of the process.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    if logging.lastResort is not None:  # it prints warnings if no handler is set up
        logging.lastResort.setFormatter(MessageFormatter())
    try:
        try:
            app(args=_with_command(given), prog_name="learn")
            code = 0
        except SystemExit as stop:  # how typer ends: after help, and after wrong usage with 2
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
    from ..exit_codes import ExitCode, exit_code, message

    code = exit_code(error)
    lines = []
    if verbose or code == ExitCode.INTERNAL:
        lines += traceback.format_exception(error)
    if code == ExitCode.INTERNAL:
        lines.append("learn: a bug in blocklearn; please report it with the text above")
    elif code == ExitCode.CONFIG and re.match(r"\S+: |--", str(error)):
        lines.append(message(error))  # lines that begin with file:line:column, for editors
    else:
        lines.append(f"learn: {message(error)}")
    with suppress(OSError):  # stderr is full or closed too: the exit code must suffice
        for line in lines:
            say(line.removesuffix("\n"))
    return int(code)


def _let_go_of_full_streams() -> None:
    """Drop what a full or closed stream cannot take.

    The interpreter would otherwise try again at its end, and exit with its own code 120.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _resolve(
    files: list[Path],
    settings: list[str] | None,
    out: Path | None,
    seed: int | None,
    threads: int | None,
    device: str | None,
) -> "RunConfig":
    """Return the configuration from files, environment and options."""
    from ..configuration.config import RunConfig
    from ..configuration.yaml_config import Setting, resolve

    try:
        given = [Setting.parse(text) for text in settings or ()]
    except ValueError as error:
        raise typer.BadParameter(message_text(str(error)), param_hint="--set") from error
    if seed is not None:
        given.append(Setting("learner.seed", str(seed), "--seed"))
    if threads is not None:
        given.append(Setting("learner.threads", str(threads), "--threads"))
    if device is not None:
        given.append(Setting("learner.device", device, "--device", literal=True))
    if out is not None:
        given.append(Setting("out", str(out), "--out", literal=True))
    name = "-".join(path.stem for path in files)
    default = Setting("out", f"runs/{name}", "default of out", literal=True)
    return resolve(RunConfig, files, os.environ, given, [default])


if __name__ == "__main__":
    main()
