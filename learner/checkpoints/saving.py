"""Save checkpoints during training, and choose the model among them at its end."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blocklearn.matcache.finite import is_finite

from ..configuration.sections import CheckpointConfig
from ..engines.rows import SharedRows
from ..errors import ModelFolderError, ModelMissingError, WorkerError
from ..hooks import Hook, Progress
from ..training.divergence import check_finite
from ..training.settings.evaluation import Evaluation
from ..training.settings.schedule import Cadence
from . import checkpoint
from .checkpoint import Checkpoint, where
from .stored_checkpoints import stored

if TYPE_CHECKING:
    from ..learner import Learner

log = logging.getLogger(__name__)


@dataclass(eq=False)
class SaveCheckpoints(Hook):
    """Saves when due, after an evaluation that is the best so far, and at the end.

    It must come after hooks that write events, and before hooks that stop the run.

    folder: of checkpoints.
    settings: when to save, and how many checkpoints to keep.
    config, fingerprint, eval_fingerprint: the configuration of the run, and what tells the data of
        training and of evaluations apart, saved with each checkpoint.
    saved: called with progress, path and seconds once a checkpoint is on disk.
    keep_best: whether to save after each evaluation that is the best so far.
    again: what resumes from a checkpoint, for messages.
    """

    folder: Path
    settings: CheckpointConfig
    _: KW_ONLY
    config: dict[str, Any]
    fingerprint: str
    saved: Callable[[Progress, Path, float], None]
    eval_fingerprint: str | None = None
    keep_best: bool = False
    again: str = "--resume auto"

    def __post_init__(self) -> None:
        """Know the copies in a store; nothing is saved yet."""
        self.copies = stored(self.settings.store)
        self._improved = False

    def start(self, learner: Learner, progress: Progress) -> None:
        """Start the clocks, and remove what a killed process left half removed.

        The position that training starts from counts as saved.
        """
        self._at = progress.position
        minutes = self.settings.every_minutes
        self._cadence = Cadence(
            progress,
            passes=self.settings.every_passes,
            blocks=self.settings.every_blocks,
            seconds=None if minutes is None else 60.0 * minutes,
        )
        checkpoint.prune(self.folder, progress.position, self.settings.keep)

    def improved(self, learner: Learner, progress: Progress) -> None:
        """Remember to save at the next call: other hooks have not seen this block yet."""
        self._improved = self.keep_best

    def block(self, learner: Learner, progress: Progress) -> None:
        """Save if it is due, or if training ends here."""
        last = progress.stop and progress.block < progress.blocks
        if self._cadence.due(progress) or self._improved or last:
            self.save(learner, progress)

    def pass_end(self, learner: Learner, progress: Progress) -> None:
        """Save if it is due, or if this was the last pass."""
        last = progress.stop or progress.pass_ + 1 == progress.passes
        if self._cadence.due(progress) or self._improved or last:
            self.save(learner, progress)

    def save(self, learner: Learner, progress: Progress) -> None:
        """Save the present state, unless it is saved already.

        Raises:
            DivergedError: the model is not finite; earlier checkpoints stay.
            OSError: the checkpoint cannot be written; earlier checkpoints stay.
            WorkerError: another worker cannot write its part; earlier checkpoints stay.
        """
        self._improved = False
        if progress.position == self._at:
            return
        began = time.monotonic()
        state = learner.state(copy=False)
        tables = learner.placed_tables
        if tables is not None and not tables.tables:  # they fit in memory
            tables = None
        placed = () if tables is None else tables.tables
        learnt = (*learner.model.parameters, *learner.model.row_states)
        for name in learnt:
            if tables is not None and name in placed:
                check_finite([(name, tables.finite(name))], progress)
                continue
            check, tensor = partial(check_array, progress, name), state.tensors[name]
            if isinstance(tensor, SharedRows):  # it comes while it is written
                state.tensors[name] = tensor.checked(check)
            else:
                check(tensor)
        prints = self.fingerprint, self.eval_fingerprint
        found = Checkpoint(state, dict(progress.scores), self.config, *prints)
        try:
            path = checkpoint.write(self.folder, found, tables, learner.part_writer.write)
        except (OSError, WorkerError) as error:
            if any(checkpoint.existing(self.folder)):
                error.add_note(f"earlier checkpoints are intact; {self.again} resumes from them")
            raise
        self._at = progress.position
        self._cadence.restart()
        self.saved(progress, path, time.monotonic() - began)
        checkpoint.prune(self.folder, progress.position, self.settings.keep)
        if self.copies is not None:
            self.copies.put(path)


def check_array(progress: Progress, name: str, array: Any) -> None:
    """Raise DivergedError unless an array is finite: see `check_finite`."""
    check_finite([(name, is_finite(array))], progress)


def choose_model(learner: Learner, settings: Evaluation, folder: Path) -> Iterator[str]:
    """Give `learner` its final model after training: the best or the last one.

    The best one is read from the checkpoints in `folder`. Yields lines that say which model it is,
    and whether training stopped early. If the best one cannot be read, a warning is logged, and
    `learner.progress.lost` says why.
    """
    best = learner.progress.best
    if best is None:
        return
    found = f"{best.metric} {best.score:.6g}, after {where(best.position)}"
    if settings.patience is not None and best.waited >= settings.patience:
        yield f"stopped early: no better {best.metric} in {best.waited} evaluations"
    if not settings.keep_best:
        yield f"the model is the last one; the best one had {found}"
        return
    if best.position != learner.progress.position:
        try:
            kept = checkpoint.read(folder / checkpoint.name_of(best.position), learner.crew)
        except (ModelFolderError, ModelMissingError) as error:
            learner.progress.lost = f"{found}: {error}"
            log.warning("the best model cannot be read, so the last one is kept: %s", error)
            yield f"the model is the last one; the best one had {found}, but is lost"
            return
        learner.restore(kept.state)
        learner.progress.scores = kept.scores
    yield f"the model is the best one: {found}"
