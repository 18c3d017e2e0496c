"""One run from its configuration to its model on disk: `learn train` without the command line."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ..datasources import DataSource, notes_of
from . import checkpoint, metrics, model_folder
from .config import RunConfig
from .display import LiveTable, display, size
from .durable import write_file
from .errors import ModelFolderError, ModelMissingError, RunInterrupted
from .hooks import Hook, Progress
from .inputs import open_data
from .learner import Learner
from .persistence import save
from .ranking_evaluation import RankingEvaluation, ranking_of
from .run_folder import RunFolder
from .signals import StopOnSignal
from .yaml_config import to_yaml


@dataclass(frozen=True)
class Manners:
    """How a run behaves towards its user: `resume` and `overwrite` an existing run folder, `quiet`
    says nothing, `json` prints events instead of lines.
    """

    overwrite: bool = False
    resume: bool = False
    quiet: bool = False
    json: bool = False

    def say(self, text: str) -> None:
        """One line on stderr."""
        if not (self.quiet or self.json):
            print(text, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class SayNotes(Hook):
    """Says at the start what data and model chose or left out by themselves."""

    manners: Manners

    def start(self, learner: Learner, progress: Progress) -> None:
        """Before the first block."""
        notes = [note for data in (learner.train, learner.eval) for note in notes_of(data)]
        for note in dict.fromkeys([*notes, *learner.model.notes]):
            self.manners.say(note)


def train(config: RunConfig, manners: Manners) -> Learner | None:
    """Trains, leaves the model in `config.out`, and returns its learner. None: the model was there
    already, all passes done.

    Raises:
        RunFolderError: there is a run already, or another process writes there.
        RunInterrupted: a signal came; the message says how to go on.
    """
    folder = RunFolder(config.out)
    folder.check(overwrite=manners.overwrite, resume=manners.resume)
    train_data, eval_data = open_data(config)
    build(config, train_data, eval_data, []).plan()  # what cannot work fails before files are made
    with folder.opened(overwrite=manners.overwrite, resume=manners.resume):
        last = checkpoint.newest(folder.checkpoints)
        settings = config.model_dump(mode="json")
        if last:
            checkpoint.check_same(last, settings, train_data.fingerprint)
        done = _passes_of_model(folder)
        if done >= config.learner.passes:
            manners.say(
                f"{config.out}: finished, {done} passes are done. A higher learner.passes trains "
                "on, --overwrite starts afresh."
            )
            return None
        write_file(folder.config, to_yaml(config).encode())
        metrics.rewind(folder.metrics, last.rows if last else 0)

        events = metrics.Metrics(
            folder.metrics,
            run=folder.path.resolve().name,
            every=config.learner.log_every_seconds,
            echo=sys.stderr if manners.json else None,
        )
        saver = checkpoint.SaveCheckpoints(
            folder.checkpoints,
            config=settings,
            fingerprint=train_data.fingerprint,
            saved=events.saved,
        )
        stop = StopOnSignal()
        with _shown(config, manners) as shown:
            hooks = [SayNotes(manners), *shown, events, saver, stop]
            learner = build(config, train_data, eval_data, hooks)
            manners.say(_summary(config, learner, train_data, eval_data))
            if last:
                learner.restore(last.state)
                learner.progress.scores = last.scores
                manners.say(f"going on after pass {last.passes}")
            with stop.catching():
                _fit(learner, config)
        save(learner, config.out)
        manners.say(f"the model is in {config.out}")
    return learner


def build(
    config: RunConfig, train: DataSource, eval: DataSource | None, hooks: list[Hook]
) -> Learner:
    """The learner that `config` describes, over data that are open."""
    ranking = ranking_of(config)
    if ranking is not None and eval is not None:
        hooks = [RankingEvaluation(**ranking.model_dump()), *hooks]
    return Learner(
        config.model,
        train,
        eval,
        passes=config.learner.passes,
        block_rows=config.data.block_rows,
        seed=config.learner.seed,
        threads=config.learner.threads,
        optimizer=config.optimizer,
        mixins=config.mixins,
        hooks=hooks,
        eval_every=config.learner.eval_every,
        row_folder=config.learner.row_folder,
        replicas=config.learner.replicas,
        sync_every=config.learner.sync_every,
        sync_weight=config.learner.sync_weight,
    )


def plan_lines(config: RunConfig) -> Iterator[str]:
    """The memory that training would take, array by array; nothing is written."""
    train_data, eval_data = open_data(config)
    learner = build(config, train_data, eval_data, [])
    yield _summary(config, learner, train_data, eval_data)
    plan = learner.plan()
    for name, shape, dtype, count in plan.rows:
        dimensions = " x ".join(f"{length:,}" for length in shape) or "1"
        yield f"{count:>16,} bytes  {name}: {dtype} {dimensions}"
    yield f"{plan.total:>16,} bytes  in all"


def _fit(learner: Learner, config: RunConfig) -> None:
    """`learner.fit()`, with a message for whoever interrupts it."""
    try:
        learner.fit()
    except RunInterrupted as error:
        newest = checkpoint.newest(RunFolder(config.out).checkpoints)
        kept = newest.passes if newest else 0
        raise RunInterrupted(
            f"{config.out}: stopped by {error}; saved are {kept} passes. "
            "The same command with --resume auto goes on."
        ) from error


@contextmanager
def _shown(config: RunConfig, manners: Manners) -> Iterator[list[Hook]]:
    """The display as a hook, or none; gives the terminal back whatever happens."""
    if manners.quiet or manners.json:
        yield []
        return
    shown = display(sys.stderr, config.learner.log_every_seconds)
    try:
        yield [shown]
    finally:
        if isinstance(shown, LiveTable):
            shown.close()


def _summary(
    config: RunConfig, learner: Learner, train: DataSource, eval: DataSource | None
) -> str:
    shape, model = train.shape, type(config.model).__name__
    held_out = f" ({eval.shape.total_rows:,} held out)" if eval else ""
    return (
        f"{model} on {shape.total_rows:,} rows{held_out} x {shape.columns:,} columns, "
        f"{train.blocks:,} blocks, {config.learner.passes} passes; "
        f"arrays {size(learner.plan().total)}; to {config.out}"
    )


def _passes_of_model(folder: RunFolder) -> int:
    """Passes that the finished model in `folder` has seen, 0 without one that can be read."""
    try:
        saved: dict[str, Any] = model_folder.load(folder.path).metrics
    except (ModelMissingError, ModelFolderError):
        return 0
    return int(saved["passes"])
