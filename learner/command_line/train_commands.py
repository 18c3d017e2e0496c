"""`learn train`, `config`, `schema` and `kinds`: runs from configuration files.

Nothing heavy is imported before a command runs.
"""

import os
from collections.abc import Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..terminal import message_text, show_lines, show_text
from .launching import launch
from .options import QuietOption, VerboseOption, file_option

if TYPE_CHECKING:
    from ..configuration.config import RunConfig
    from ..configuration.yaml_config import Setting
    from ..engines.crew import Crew
    from ..learner import Learner
    from ..runs.training import RunOptions


class Resume(StrEnum):
    """The values of `--resume`."""

    auto = "auto"


class LogFormat(StrEnum):
    """The values of `--log-format`."""

    text = "text"
    json = "json"


ConfigOption = Annotated[
    list[Path], file_option("--config", "YAML file; may be repeated, later files win.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Set one value, such as model.topics=200. Overrides files and LEARN__MODEL__TOPICS.",
    ),
]
OutOption = Annotated[Path | None, file_option("--out", "Run folder [runs/CONFIG].", "DIR")]
SeedOption = Annotated[int | None, typer.Option("--seed", help="Short for learner.seed.")]
ThreadsOption = Annotated[int | None, typer.Option("--threads", help="Short for learner.threads.")]
EngineOption = Annotated[
    str | None,
    typer.Option("--engine", help="Short for distributed.engine: local, mpi, ray, or auto [auto]."),
]
WorkersOption = Annotated[
    int | None,
    typer.Option("--workers", help="Short for distributed.workers."),
]
DeviceOption = Annotated[
    str | None, typer.Option("--device", help="Short for learner.device: cpu, cuda, cuda:N, auto.")
]

OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Replace an old run.")]
ResumeOption = Annotated[
    Resume | None, typer.Option("--resume", help="Resume from the newest checkpoint, if any.")
]
DryRunOption = Annotated[
    bool,
    typer.Option(
        "--dry-run", help="Check everything, print the memory and time that a run needs, stop."
    ),
]
LogFormatOption = Annotated[
    LogFormat, typer.Option("--log-format", help="Progress as lines or as JSON events.")
]


def train(
    config: ConfigOption,
    set_: SetOption = None,
    out: OutOption = None,
    seed: SeedOption = None,
    threads: ThreadsOption = None,
    device: DeviceOption = None,
    engine: EngineOption = None,
    workers: WorkersOption = None,
    overwrite: OverwriteOption = False,
    resume: ResumeOption = None,
    dry_run: DryRunOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
    log_format: LogFormatOption = LogFormat.text,
    plot: Annotated[
        Path | None, file_option("--plot", "Draw the scores of a regularisation path to this file.")
    ] = None,
) -> None:
    """Train a model as the configuration says."""
    run = resolved(config, set_, out, seed, threads, device, engine=engine, workers=workers)
    execute(run, overwrite, resume, dry_run, quiet, log_format, plot)


def execute(
    run: "RunConfig",
    overwrite: bool,
    resume: Resume | None,
    dry_run: bool,
    quiet: bool,
    log_format: LogFormat,
    plot: Path | None = None,
) -> None:
    """Train as `run` says, or only check it. Of several workers, the first one reports."""
    if overwrite and resume:
        raise typer.BadParameter("choose one of --overwrite and --resume")
    if plot is not None:
        from ..reports.targets import check_plot

        check_plot(run.model)
    from ..runs.workers import crew_of

    launch(run.distributed.engine, None if dry_run else run.distributed.workers)
    crew = crew_of(run, alone=dry_run)
    if dry_run:
        if crew.leads:
            from ..runs.dry_run import dry_run_lines

            resumes, size = resume is not None, crew.size
            lines = dry_run_lines(run, overwrite=overwrite, resume=resumes, workers=size)
            show_lines(lines, flush=True)
        return
    from ..runs.training import RunOptions

    json = log_format is LogFormat.json
    show = partial(_show, run.out)
    options = RunOptions(overwrite, resume is not None, quiet or not crew.leads, json, show)
    trained = _trained(run, options, crew)
    if not crew.leads:
        return
    if run.learner.report:
        _report(run, options, trained)
    if plot is not None:
        from ..reports.targets import plot_path
        from ..results.persistence import load

        plot_path(load(run.out), plot)


def _show(out: Path, trained: "Learner") -> None:
    """Print what a model has learned."""
    from ..reports.lines import summary_lines
    from ..runs.run_folder import RunFolder
    from ..watch.events import evaluations

    held_out = evaluations(RunFolder(out).metrics)
    show_lines([*summary_lines(trained, held_out), *trained.report()])


def _trained(run: "RunConfig", options: "RunOptions", crew: "Crew") -> "Learner | None":
    """Train; of several workers, those that do not lead end with the exit code of an error."""
    from ..errors import WorkerError
    from ..exit_codes import exit_code
    from ..runs.workers import train_again

    try:
        return train_again(run, options, crew)
    except WorkerError as error:
        if crew.leads:
            raise
        raise typer.Exit(error.code) from None  # the worker that failed, and worker 0, say why
    except Exception as error:
        if crew.repeats:
            raise typer.Exit(exit_code(error)) from None
        raise


def _report(run: "RunConfig", options: "RunOptions", trained: "Learner | None") -> None:
    """Write the page of a run, unless it was finished already and has one."""
    from ..runs.run_folder import RunFolder

    folder = RunFolder(run.out)
    if trained is None and folder.report.exists():
        return
    from ..page import write_report

    sources = None
    if trained is not None and trained.data.given[0] is not None:
        sources = trained.data.given[0], trained.data.given[1]
    write_report(folder.path, folder.report, sources=sources, model=type(run.model))
    options.say(f"the report is in {folder.report}")


def config(
    config: ConfigOption,
    set_: SetOption = None,
    out: OutOption = None,
    seed: SeedOption = None,
    threads: ThreadsOption = None,
    device: DeviceOption = None,
    engine: EngineOption = None,
    workers: WorkersOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Print the configuration that `train` would use, as YAML.

    Defaults are written out.
    """
    run = resolved(config, set_, out, seed, threads, device, engine=engine, workers=workers)
    from ..configuration.yaml_config import to_yaml
    from ..runs.inputs import of_length

    show_text(to_yaml(of_length(run)).removesuffix("\n"))


def schema() -> None:
    """Print the JSON Schema of configurations, for editors."""
    import json

    from ..configuration.config import RunConfig

    print(json.dumps(RunConfig.model_json_schema(), indent=2))


def kinds() -> None:
    """List the kinds of models, optimizers, mixins and data.

    Those of installed packages come after the built-in ones. Their code is not imported.
    """
    from ..configuration.kinds import kind_lines

    show_lines(kind_lines())


def resolved(
    files: list[Path],
    settings: list[str] | None,
    out: Path | None,
    seed: int | None,
    threads: int | None,
    device: str | None,
    defaults: Sequence["Setting"] = (),
    name: str = "",
    engine: str | None = None,
    workers: int | None = None,
) -> "RunConfig":
    """Return the configuration from files, environment and options.

    defaults: settings that all others override. name: of the run folder; empty: that of the files.
    """
    from ..configuration.config import RunConfig
    from ..configuration.kinds import own_classes
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
    if engine is not None:
        given.append(Setting("distributed.engine", engine, "--engine", literal=True))
    if workers is not None:
        given.append(Setting("distributed.workers", str(workers), "--workers"))
    if out is not None:
        given.append(Setting("out", str(out), "--out", literal=True))
    name = name or "-".join(path.stem for path in files)
    default = Setting("out", f"runs/{name}", "default of out", literal=True)
    given_first = [default, *defaults]
    return resolve(RunConfig, files, os.environ, given, given_first, extend=own_classes)
