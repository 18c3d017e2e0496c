"""The command `learn`. Nothing heavy is imported before a command runs, so `--help` is instant."""

import os
import sys
import traceback
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from . import data_commands, watch_commands

if TYPE_CHECKING:
    from ..configuration.config import RunConfig
    from ..lists.lists import Lists

app = typer.Typer(
    help="Train models on data larger than memory, and use them. `learn --config FILE` is short "
    "for `learn train --config FILE`.",
    epilog="Exit codes: 0 done, 2 usage, 65 bad data, 66 no input, 69 unavailable, 70 internal, "
    "71 out of memory, 74 input/output, 75 interrupted (run again), 76 diverged, 77 permission, "
    "78 bad configuration.",
    add_completion=False,
    rich_markup_mode=None,  # rich would double the time of --help
    pretty_exceptions_enable=False,
)


class Resume(StrEnum):
    """What `--resume` takes."""

    auto = "auto"


class LogFormat(StrEnum):
    """What `--log-format` takes."""

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
VerboseOption = Annotated[bool, typer.Option("--verbose", "-v", help="Tracebacks of all errors.")]
RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run or model.")]
TopOption = Annotated[int, typer.Option("--top", min=1, help="Length of the lists.")]
ListsOption = Annotated[
    Path | None, typer.Option("--out", metavar="FILE", help=".parquet file to write lists to.")
]
DataOption = Annotated[
    str,
    typer.Option(
        "--data",
        metavar="PATH",
        help="Files of any format that `learn convert` reads, or a block dataset; for a run on "
        "other data (tables, ratings, ...): such data.",
    ),
]


def _version(asked: bool) -> None:
    if asked:
        from ... import __version__

        typer.echo(f"blocklearn {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """What every command has."""


@app.command()
def train(
    config: ConfigOption,
    set_: SetOption = None,
    out: OutOption = None,
    seed: SeedOption = None,
    threads: ThreadsOption = None,
    device: DeviceOption = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an old run.")] = False,
    resume: Annotated[
        Resume | None, typer.Option("--resume", help="Go on from the newest checkpoint, if any.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything, print memory and time, stop.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")] = False,
    verbose: VerboseOption = False,
    log_format: Annotated[
        LogFormat, typer.Option("--log-format", help="Progress as lines or as JSON events.")
    ] = LogFormat.text,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="FILE", help="Picture of a regularisation path."),
    ] = None,
) -> None:
    """Train a model as the configuration says."""
    if overwrite and resume:
        raise typer.BadParameter("choose one of --overwrite and --resume")
    run = _resolve(config, set_, out, seed, threads, device)
    if plot is not None:
        from .target_reports import check_plot

        check_plot(run.model)
    if dry_run:
        from ..runs.dry_run import dry_run_lines

        for line in dry_run_lines(run, overwrite=overwrite, resume=resume is not None):
            print(line, flush=True)
        return
    from ..runs.training import Manners
    from ..runs.training import train as train_run

    json = log_format is LogFormat.json
    trained = train_run(run, Manners(overwrite, resume is not None, quiet, json))
    if plot is not None:
        from ..storage.persistence import load
        from .target_reports import plot_path

        plot_path(load(run.out), plot)
    if trained is not None and not quiet and not json:
        from ..runs.metrics import evaluations
        from ..runs.run_folder import RunFolder
        from .reports import summary_lines

        held_out = evaluations(RunFolder(run.out).metrics)
        for line in [*summary_lines(trained, held_out), *trained.report()]:
            print(line)


@app.command()
def topics(
    run: RunArgument,
    top: Annotated[int, typer.Option("--top", min=1, help="Words per topic.")] = 10,
    json: Annotated[bool, typer.Option("--json", help="With probabilities, as JSON.")] = False,
    verbose: VerboseOption = False,
) -> None:
    """Print the most probable words of each topic."""
    from ..storage.persistence import load
    from .reports import topic_lines, topics_json

    learner = load(run)
    for line in [topics_json(learner, top)] if json else topic_lines(learner, top):
        print(line)


@app.command()
def predict(
    run: RunArgument,
    data: DataOption,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help=".parquet or .npy file, or - for JSON lines."),
    ] = None,
    verbose: VerboseOption = False,
) -> None:
    """Apply a model to each row of a file; without --out, print a readable line per row."""
    if out is not None and str(out) != "-" and out.suffix not in (".parquet", ".npy"):
        raise typer.BadParameter("must end in .parquet or .npy, or be -", param_hint="--out")
    from ..predictions import json_lines, predict_blocks, write_predictions
    from ..runs.inputs import open_for
    from ..storage.persistence import load
    from .reports import prediction_lines

    learner = load(run)
    source = open_for(learner, run, data)
    blocks = predict_blocks(learner, source)
    if out is None:
        for block in blocks:
            for line in prediction_lines(learner, block.names, block.values):
                print(line)
    elif str(out) == "-":
        for line in json_lines(blocks):
            print(line)
    else:
        write_predictions(out, blocks, source.shape.total_rows)
        print(f"{out}: {source.shape.total_rows:,} rows")


@app.command()
def factors(
    run: RunArgument,
    state: Annotated[str, typer.Argument(metavar="STATE", help="Such as users or items, of ALS.")],
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", help=".parquet or .npy file to write to.")
    ],
    verbose: VerboseOption = False,
) -> None:
    """Write what a model has learned of each row of its training data: factors of users, items."""
    if out.suffix not in (".parquet", ".npy"):
        raise typer.BadParameter("must end in .parquet or .npy", param_hint="--out")
    from ..predictions import write_predictions
    from ..state_blocks import count, state_blocks
    from ..storage.persistence import load

    learner = load(run)
    rows = count(learner, state)
    write_predictions(out, state_blocks(learner, state), rows)
    print(f"{out}: {rows:,} rows")


@app.command()
def export(
    run: RunArgument,
    to: Annotated[
        Path,
        typer.Option(
            "--to",
            metavar="FILE",
            help=".npz: everything; .parquet: a row per word, item or user; .npy: an array; no "
            "ending: a folder of .parquet files.",
        ),
    ],
    tensor: Annotated[
        str | None, typer.Option("--tensor", metavar="NAME", help="One tensor of the model [all].")
    ] = None,
    verbose: VerboseOption = False,
) -> None:
    """Write a model's numbers and names for other programs."""
    from ..storage.export import check
    from ..storage.export import export as write
    from ..storage.model_folder import load

    saved = load(run, mapped=True)
    try:
        check(saved, to, tensor)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    for line in write(saved, to, tensor):
        print(line)


@app.command()
def evaluate(
    run: RunArgument,
    data: DataOption,
    targets: Annotated[
        Path | None,
        typer.Option("--targets", metavar="FILE", help=".npy, .npz or .mtx: what rows should be."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False,
    verbose: VerboseOption = False,
) -> None:
    """Score a model on data that it was not trained on."""
    import math

    from ...datasources import DataError
    from ..lists.rating_inputs import ranking_scores_of
    from ..runs.inputs import open_for
    from ..storage.persistence import load
    from .reports import score_lines

    learner = load(run)
    held_out = open_for(learner, run, data, targets, labelled=True)
    scores = learner.evaluate(held_out) | ranking_scores_of(learner, run, held_out)
    known = {name: value for name, value in scores.items() if not math.isnan(value)}
    missing = ", ".join(name for name in scores if name not in known)
    if not known:
        raise DataError(f"{data}: nothing to score: {missing} is of no token or row.")
    if missing:
        print(f"{data}: these rows say nothing of {missing}", file=sys.stderr)
    for line in score_lines(scores if json else known, json):
        print(line)


@app.command()
def recommend(
    run: RunArgument,
    users: Annotated[
        Path | None, typer.Option("--users", metavar="FILE", help="Ids, one a line [all users].")
    ] = None,
    top: TopOption = 10,
    items: Annotated[
        Path | None,
        typer.Option("--items", metavar="FILE", help="Ids of items that may be listed [all]."),
    ] = None,
    seen: Annotated[
        Path | None,
        typer.Option("--seen", metavar="FILE", help="Ratings to leave out [training data]."),
    ] = None,
    include_seen: Annotated[
        bool, typer.Option("--include-seen", help="List what users have seen, too.")
    ] = False,
    out: ListsOption = None,
    json: Annotated[bool, typer.Option("--json", help="A JSON object per user.")] = False,
    verbose: VerboseOption = False,
) -> None:
    """List the best items for each user; without --out, print a line per user."""
    if seen is not None and include_seen:
        raise typer.BadParameter("choose one of --seen and --include-seen")
    _check_lists_file(out)
    from ..lists import recommend as recommending
    from ..lists.rating_inputs import read_ids, seen_by_users
    from ..storage.persistence import load

    learner = load(run)
    lists = recommending.recommend(
        learner,
        None if users is None else read_ids(users),
        top,
        exclude_seen=not include_seen,
        seen=None if include_seen else seen_by_users(learner, run, seen),
        items=None if items is None else read_ids(items),
    )
    _show_lists(lists, out, json)


@app.command()
def similar(
    run: RunArgument,
    items: Annotated[
        Path | None, typer.Option("--items", metavar="FILE", help="Ids of items, one a line.")
    ] = None,
    users: Annotated[
        Path | None, typer.Option("--users", metavar="FILE", help="Ids of users, one a line.")
    ] = None,
    top: TopOption = 10,
    out: ListsOption = None,
    json: Annotated[bool, typer.Option("--json", help="A JSON object per line.")] = False,
    verbose: VerboseOption = False,
) -> None:
    """List the items most like each item, or the users most like each user."""
    if (items is None) == (users is None):
        raise typer.BadParameter("choose one of --items and --users")
    _check_lists_file(out)
    from ..lists import recommend as recommending
    from ..lists.rating_inputs import read_ids
    from ..storage.persistence import load

    learner = load(run)
    if items is not None:
        lists = recommending.similar_items(learner, read_ids(items), top)
    else:
        assert users is not None
        lists = recommending.similar_users(learner, read_ids(users), top)
    _show_lists(lists, out, json)


def _check_lists_file(out: Path | None) -> None:
    if out is not None and out.suffix != ".parquet":
        raise typer.BadParameter("must end in .parquet", param_hint="--out")


def _show_lists(lists: "Lists", out: Path | None, json: bool) -> None:
    from ..lists.lists import write_lists

    if out is not None:
        print(f"{out}: {write_lists(out, lists):,} rows")
        return
    for line in lists.json_lines() if json else lists.lines():
        print(line)


@app.command()
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

    print(to_yaml(run), end="")


@app.command()
def schema() -> None:
    """Print the JSON Schema of configuration files, for editors."""
    import json

    from ..configuration.config import RunConfig

    print(json.dumps(RunConfig.model_json_schema(), indent=2))


app.command()(data_commands.convert)
app.command()(data_commands.inspect)
app.command()(watch_commands.report)
app.command()(watch_commands.compare)
app.command()(watch_commands.doctor)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs `learn` and exits with a code of `exitcodes.ExitCode`."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        app(args=_with_command(given), prog_name="learn")
        code = 0
    except SystemExit as stop:  # how typer ends: after help, and after wrong usage with 2
        code = stop.code if isinstance(stop.code, int) else 0
    except BrokenPipeError:  # `learn topics ... | head`: the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except BaseException as error:
        code = _report(error, verbose=not {"-v", "--verbose"}.isdisjoint(given))
    sys.exit(code)


def _with_command(arguments: list[str]) -> list[str]:
    """Puts `train` before options that have no command, so that `learn --config X` trains."""
    if not arguments:
        return ["--help"]
    if arguments[0] == "-h":
        return ["--help", *arguments[1:]]
    if arguments[0].startswith("-") and arguments[0] not in ("--help", "--version"):
        return ["train", *arguments]
    return data_commands.spread(arguments)


def _report(error: BaseException, verbose: bool) -> int:
    """Says on stderr what went wrong; with a traceback where that is the only explanation."""
    from .exitcodes import ExitCode, exit_code, message

    code = exit_code(error)
    if verbose or code == ExitCode.INTERNAL:
        traceback.print_exception(error)
    if code == ExitCode.INTERNAL:
        print("learn: a mistake in blocklearn, please report it with the above", file=sys.stderr)
    elif code == ExitCode.CONFIG:
        print(error, file=sys.stderr)  # lines that begin with file:line:column, for editors
    else:
        print(f"learn: {message(error)}", file=sys.stderr)
    return int(code)


def _resolve(
    files: list[Path],
    settings: list[str] | None,
    out: Path | None,
    seed: int | None,
    threads: int | None,
    device: str | None,
) -> "RunConfig":
    """The configuration from files, environment and options."""
    from ..configuration.config import RunConfig
    from ..configuration.yaml_config import Setting, resolve

    try:
        given = [Setting.parse(text) for text in settings or ()]
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--set") from error
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
