"""Train one run, from configuration to model on disk: `learn train`."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pydantic import ValidationError

from blocklearn.datasources import notes_of
from blocklearn.durable import write_file

from ..checkpoints import checkpoint
from ..checkpoints.checkpoint import Checkpoint
from ..checkpoints.same_run import check_same
from ..checkpoints.saving import SaveCheckpoints, choose_model
from ..checkpoints.stored_checkpoints import stored
from ..configuration.config import RunConfig, renamed
from ..configuration.yaml_config import to_yaml
from ..engines.alike import check_same_data
from ..engines.crew import Crew
from ..errors import ModelFolderError, ModelMissingError
from ..exit_codes import exit_code
from ..figures import counted, size
from ..files.row_folder import RowFolder
from ..hooks import Hook, Progress
from ..learner import Learner
from ..results.persistence import save
from ..storage import model_folder
from ..terminal import say
from ..training.plans.plan import Plan
from ..watch import events as metrics
from ..watch.display import LiveTable, display
from ..watch.prometheus import Prometheus
from ..watch.tensorboard import TensorBoard
from ..watch.trackers import MLflow, WeightsAndBiases
from ..watch.watchdog import watching
from .advice import advised, warn_of_other_passes, warn_of_secrets
from .assisting import assist
from .build import build
from .decided import as_one_process, decided, planned
from .handing import room_for_rows
from .inputs import fingerprints, sized
from .opening import open_together
from .placing import checked
from .run_folder import HANDED, RunFolder
from .signals import Requests, StopOnSignal
from .state_files import state_files_of

OTHER_FOLDER = "Choose another folder for the run (--out), or convert the data: `learn convert`."


@dataclass(frozen=True)
class RunOptions:
    """How a run treats an existing folder, and what it prints.

    Attributes:
        overwrite: whether to replace an existing run.
        resume: whether to resume an existing run.
        quiet: whether to print nothing.
        json: whether to print events as JSON instead of lines.
        show: prints about a trained learner, unless `quiet` or `json` is set. It is called while
            the other workers stand by: reading the model may take all of them.
    """

    overwrite: bool = False
    resume: bool = False
    quiet: bool = False
    json: bool = False
    show: Callable[[Learner], None] = lambda learner: None

    @property
    def talks(self) -> bool:
        """Whether lines are printed."""
        return not (self.quiet or self.json)

    def say(self, text: str) -> None:
        """Print one line on stderr, unless `quiet` or `json` is set."""
        if self.talks:
            say(text)


@dataclass(frozen=True)
class SayNotes(Hook):
    """Prints notes at the start."""

    options: RunOptions

    def start(self, learner: Learner, progress: Progress) -> None:
        """Print the notes before the first block."""
        for note in run_notes(learner):
            self.options.say(note)


def run_notes(learner: Learner) -> Iterable[str]:
    """Return what data and model chose or left out by themselves, each once."""
    notes = [note for data in (learner.train, learner.eval) for note in notes_of(data)]
    return dict.fromkeys([*notes, *learner.model.notes])


def train(config: RunConfig, options: RunOptions, crew: Crew | None = None) -> Learner | None:
    """Train a model, write it to `config.out`, and return its learner.

    Of several workers, the one that leads writes. Returns None on the others, and if the run was
    finished already.

    crew: the workers of the run; None: there is one.

    Raises:
        RunFolderError: the folder has a run already, or another process writes there.
        RunInterrupted: a signal came; the message says how to resume.
    """
    requests, crew = Requests(), crew or Crew()
    crew.wish = lambda: requests.name
    with requests.caught(crew.exchange), advised(config.out):
        if crew.leads:
            with room_for_rows(config.out, HANDED, OTHER_FOLDER) as rows, crew.guard(exit_code):
                return _train(config, options, requests, crew, rows)
        with crew.guard(exit_code):
            assist(config, requests, crew)
        return None


def _train(
    config: RunConfig, options: RunOptions, requests: Requests, crew: Crew, rows: RowFolder
) -> Learner | None:
    folder = RunFolder(config.out)
    folder.check(overwrite=options.overwrite, resume=options.resume)
    begun = folder.begun() if options.resume else None
    warn_of_secrets(config)
    config, (train_data, eval_data) = open_together(config, crew, rows, begun)
    config = sized(config, train_data, begun)
    prints = fingerprints(train_data, eval_data)
    check_same_data(crew, prints)
    # before any file is written
    make = partial(build, planned(config), train_data, eval_data, [], crew=crew)
    files, _, plan, note = checked(make, state_files_of(config, crew), config, crew)
    opened = folder.opened(overwrite=options.overwrite, resume=options.resume)
    with opened as replaced, files.held():
        last = _last(config, options, folder, crew)
        config = decided(
            config,
            last.config if last else None,
            partial(build, config, train_data, None, [], files),
            folder,
            options.say,
        )
        settings = as_one_process(config.written(), crew)
        if last:
            old = replace(last, config=_completed(last.config, type(config)))
            check_same(old, settings, train_data.fingerprint, prints["data.eval"])
        if _finished(config, options, folder, last):
            crew.told(None)
            return None
        write_file(folder.config, to_yaml(config).encode())
        write_file(folder.plan, plan.json().encode())
        events = _events(config, options, folder, last)
        saver = SaveCheckpoints(
            folder.checkpoints,
            config.checkpoint,
            config=settings,
            fingerprint=train_data.fingerprint,
            eval_fingerprint=prints["data.eval"],
            saved=events.saved,
            keep_best=config.evaluation.keep_best,
        )
        with _shown(config, options) as shown:
            stop = StopOnSignal(requests, saver.save, crew)
            hooks = [SayNotes(options), *shown, events, saver, stop, replaced]
            crew.told(config.model.model_dump(mode="json"))
            learner = build(config, train_data, eval_data, hooks, files, crew)
            options.say(f"{summary(config, learner, plan)}; to {config.out}")
            if note:
                options.say(note)
            if last:
                learner.restore(last.state)
                learner.progress.scores = last.scores
                options.say(f"resuming after {checkpoint.where(last.position)}")
                warn_of_other_passes(config, last)
            patience = config.learner.watchdog_seconds, config.learner.watchdog_exit_seconds
            with watching(learner.progress, *patience):
                learner.fit()
        with learner.alone():
            for line in choose_model(learner, config.evaluation, folder.checkpoints):
                options.say(line)
            save(learner, config.out)
            options.say(f"the model is in {config.out}")
            if options.talks:
                options.show(learner)
    return learner


def _last(
    config: RunConfig, options: RunOptions, folder: RunFolder, crew: Crew
) -> Checkpoint | None:
    """Return the newest checkpoint of the run, from the store if the folder has none."""
    copies = stored(config.checkpoint.store)
    if copies is not None and options.resume:
        copies.fetch(folder.checkpoints)
    elif copies is not None:
        copies.clear(overwrite=options.overwrite)
    with crew.leading():
        return checkpoint.newest(folder.checkpoints, crew=crew)


def _finished(
    config: RunConfig, options: RunOptions, folder: RunFolder, last: Checkpoint | None
) -> bool:
    """Return whether all passes are done, and say so."""
    done = _passes_done(folder, last)
    if done < config.learner.passes:
        return False
    options.say(
        f"{config.out}: finished, {done} passes are done. To train longer, raise "
        "learner.passes; --overwrite starts afresh."
    )
    return True


def _events(
    config: RunConfig, options: RunOptions, folder: RunFolder, last: Checkpoint | None
) -> metrics.Metrics:
    """Return what writes the events of the run, after those of the checkpoint."""
    after = checkpoint.name_of(last.position) if last else None
    metrics.rewind(folder.metrics, last.rows if last else 0, after)
    return metrics.Metrics(
        folder.metrics,
        run=folder.path.resolve().name,
        every=config.learner.log_every_seconds,
        echo=sys.stderr if options.json else None,
        sinks=sinks_of(config),
        after=after,
    )


def sinks_of(config: RunConfig) -> list[metrics.Sink]:
    """Return what else receives the events of `metrics.jsonl`."""
    board, prometheus = config.learner.tensorboard, config.learner.prometheus
    folder = RunFolder(config.out)
    found: list[metrics.Sink] = []
    if board is not False:
        found.append(TensorBoard(folder.tensorboard if board is True else board))
    if prometheus is not None:
        found.append(Prometheus(prometheus))
    if config.learner.mlflow is not None:
        found.append(MLflow(config.learner.mlflow, folder.mlflow, config.written()))
    if config.learner.wandb is not None:
        found.append(WeightsAndBiases(config.learner.wandb, folder.wandb, config.written()))
    return found


@contextmanager
def _shown(config: RunConfig, options: RunOptions) -> Iterator[list[Hook]]:
    """Yield the display as a hook, or none; always restore the terminal at the end."""
    if options.quiet or options.json:
        yield []
        return
    shown = display(sys.stderr, config.learner.log_every_seconds)
    try:
        yield [shown]
    finally:
        if isinstance(shown, LiveTable):
            shown.close()


def summary(config: RunConfig, learner: Learner, plan: Plan) -> str:
    """Return one line with the model, its data, the passes and the memory."""
    assert learner.train is not None
    shape, model = learner.train.shape, type(config.model).__name__
    held_out = f" ({learner.eval.shape.total_rows:,} held out)" if learner.eval else ""
    return (
        f"{model} on {shape.total_rows:,} rows{held_out} x {shape.columns:,} columns, "
        f"{counted(learner.train.blocks, 'block')}, "
        f"{counted(config.learner.passes, 'pass', 'passes')}; "
        f"arrays {size(plan.total)}"
    )


def _completed(config: dict[str, Any], schema: type[RunConfig]) -> dict[str, Any]:
    """Return a saved configuration with defaults for settings of later versions.

    schema: of the present run, with the classes that its configuration names.
    """
    try:
        return schema.model_validate(renamed(config)).model_dump(mode="json")
    except ValidationError:
        return config  # `check_same` will name the keys that differ


def _passes_done(folder: RunFolder, last: Checkpoint | None) -> int:
    """Return the passes of the finished run in `folder`; 0: its model cannot be read."""
    try:
        saved: dict[str, Any] = model_folder.load(folder.path).metrics
    except (ModelMissingError, ModelFolderError):
        return 0
    return last.position[0] if last else int(saved["passes"])
