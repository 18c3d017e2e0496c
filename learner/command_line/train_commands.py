"""`learn train`, `config`, `schema` and `kinds`: runs from configuration files.

Nothing heavy is imported before a command runs.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..conversion.settings import setting
from ..terminal import message_text, say, show_lines, show_text
from .launching import launch
from .options import file_option, spelled, taken, with_options

if TYPE_CHECKING:
    from ..configuration.config import RunConfig
    from ..configuration.yaml_config import Setting
    from ..engines.crew import Crew
    from ..learner import Learner
    from ..runs.training import RunOptions


ConfigOption = Annotated[
    list[Path], file_option("--config", "YAML file; may be repeated, later files win.")
]


@dataclass(frozen=True, kw_only=True)
class Overrides:
    """Settings of the configuration that options give."""

    set_: list[str] | None = setting(
        None,
        "Set one value, such as model.topics=200. Overrides files and LEARN__MODEL__TOPICS.",
        "KEY=VALUE",
        flag="--set",
    )
    out: Path | None = setting(
        None, "Run folder [runs/ and the names of files].", "DIR", readable=False
    )
    seed: int | None = setting(None, "Short for learner.seed.")
    threads: int | None = setting(None, "Short for learner.threads.")
    device: str | None = setting(None, "Short for learner.device: cpu, cuda, cuda:N, auto.")


@dataclass(frozen=True, kw_only=True)
class Workers:
    """The same for several workers."""

    engine: str | None = setting(
        None, "Short for distributed.engine: local, mpi, ray, or auto [auto]."
    )
    workers: int | None = setting(None, "Short for distributed.workers.")


SHORT_FOR = {
    "seed": "learner.seed",
    "threads": "learner.threads",
    "device": "learner.device",
    "engine": "distributed.engine",
    "workers": "distributed.workers",
    "out": "out",
}
"""Keys of the configuration by the names of options."""


@dataclass(frozen=True, kw_only=True)
class Manner:
    """How a run treats an existing folder, and what it prints."""

    overwrite: bool = setting(False, "Replace an old run.")
    resume: Literal["auto"] | None = setting(None, "Resume from the newest checkpoint, if any.")
    dry_run: bool = setting(
        False, "Check everything, print the memory and time that a run needs, stop."
    )
    quiet: bool = setting(False, "Print errors only.", flag="--quiet -q")
    log_format: Literal["text", "json"] = setting("text", "Progress as lines or as JSON events.")


@with_options(Overrides, Workers, Manner, after="config")
def train(
    config: ConfigOption,
    plot: Annotated[
        Path | None, file_option("--plot", "Draw the scores of a regularisation path to this file.")
    ] = None,
    **options: Any,
) -> None:
    """Train a model as the configuration says."""
    manner = Manner(**taken(Manner, options))
    execute(resolved(config, options), manner, plot)


def execute(run: "RunConfig", manner: Manner, plot: Path | None = None, note: str = "") -> None:
    """Train as `run` says, or only check it. Of several workers, the first one reports.

    note: a line to print before; empty: none.
    """
    overwrite, resume = manner.overwrite, manner.resume is not None
    if overwrite and resume:
        raise typer.BadParameter("choose one of --overwrite and --resume")
    if plot is not None:
        from ..reports.targets import check_plot

        check_plot(run.model)
    from ..runs.workers import crew_of

    launch(run.distributed.engine, None if manner.dry_run else run.distributed.workers)
    crew = crew_of(run, alone=manner.dry_run)
    if note and crew.leads and not manner.quiet and manner.log_format == "text":
        say(note)
    if manner.dry_run:
        if crew.leads:
            from ..runs.dry_run import dry_run_lines

            lines = dry_run_lines(run, overwrite=overwrite, resume=resume, workers=crew.size)
            show_lines(lines, flush=True)
        return
    from ..runs.training import RunOptions

    quiet, json = manner.quiet or not crew.leads, manner.log_format == "json"
    options = RunOptions(overwrite, resume, quiet, json, partial(_show, run.out))
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


@with_options(Overrides, Workers, after="config")
def config(config: ConfigOption, **options: Any) -> None:
    """Print the configuration that `train` would use, as YAML.

    Defaults are written out.
    """
    from ..configuration.yaml_config import to_yaml
    from ..runs.inputs import of_length

    show_text(to_yaml(of_length(resolved(config, options))).removesuffix("\n"))


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
    options: Mapping[str, Any],
    defaults: Sequence["Setting"] = (),
    name: str = "",
) -> "RunConfig":
    """Return the configuration from files, environment and options.

    options: fields of `Overrides`, and maybe of `Workers`.
    defaults: settings that all others override. name: of the run folder; empty: that of the files.
    """
    from ..configuration.config import RunConfig
    from ..configuration.kinds import own_classes
    from ..configuration.yaml_config import Setting, resolve

    try:
        given = [Setting.parse(text) for text in options["set_"] or ()]
    except ValueError as error:
        raise typer.BadParameter(message_text(str(error)), param_hint="--set") from error
    for option, key in SHORT_FOR.items():
        if (value := options.get(option)) is not None:
            literal = not isinstance(value, int)
            given.append(Setting(key, str(value), spelled(option), literal=literal))
    name = name or "-".join(path.stem for path in files)
    default = Setting("out", f"runs/{name}", "default of out", literal=True)
    given_first = [default, *defaults]
    return resolve(RunConfig, files, os.environ, given, given_first, extend=own_classes)
