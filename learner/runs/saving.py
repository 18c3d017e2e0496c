"""Saving checkpoints while a model is trained, and choosing between them when it is done."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..configuration.config import CheckpointConfig
from ..errors import ModelFolderError, ModelMissingError
from ..hooks import Hook, Progress
from ..learner import Learner
from ..training.divergence import check_finite
from ..training.evaluation import Evaluation
from ..training.schedule import Cadence
from . import checkpoint
from .checkpoint import Checkpoint, where

log = logging.getLogger(__name__)


class SaveCheckpoints(Hook):
    """Saves when it is due, wherever an evaluation was the best one so far, and at the end.

    Hooks that write events come before it, those that stop the run after it.
    """

    def __init__(
        self,
        folder: Path,
        settings: CheckpointConfig,
        *,
        config: Mapping[str, Any],
        fingerprint: str,
        saved: Callable[[Progress, Path], None],
        keep_best: bool = False,
    ) -> None:
        """saved: is told of each checkpoint once it is on disk. keep_best: those of the best
        evaluations are saved, too.
        """
        self.folder, self.settings = folder, settings
        self.config, self.fingerprint = dict(config), fingerprint
        self.saved, self.keep_best = saved, keep_best
        self._improved = False

    def start(self, learner: Learner, progress: Progress) -> None:
        """What training goes on from is saved, if it is not its beginning; what a process that was
        killed has left half removed goes.
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
        """Remembers it: other hooks have not heard of the block yet."""
        self._improved = self.keep_best

    def block(self, learner: Learner, progress: Progress) -> None:
        """Saves if it is time to, or training ends here."""
        last = progress.stop and progress.block < progress.blocks
        if self._cadence.due(progress) or self._improved or last:
            self.save(learner, progress)

    def pass_end(self, learner: Learner, progress: Progress) -> None:
        """Saves if it is time to, or this was the last pass."""
        last = progress.stop or progress.pass_ + 1 == progress.passes
        if self._cadence.due(progress) or self._improved or last:
            self.save(learner, progress)

    def save(self, learner: Learner, progress: Progress) -> None:
        """Saves the state of now, unless it is saved already.

        Raises:
            DivergedError: the model is not finite; earlier checkpoints stay.
            OSError: it cannot be written; earlier checkpoints stay.
        """
        self._improved = False
        if progress.position == self._at:
            return
        state = learner.state(copy=False)
        names = (*learner.model.parameters, *learner.model.row_states)
        check_finite(((name, state.tensors[name]) for name in names), progress)
        found = Checkpoint(state, dict(progress.scores), self.config, self.fingerprint)
        try:
            path = checkpoint.write(self.folder, found)
        except OSError as error:
            error.add_note("earlier checkpoints are intact; --resume auto goes on from there")
            raise
        self._at = progress.position
        self._cadence.restart()
        self.saved(progress, path)
        checkpoint.prune(self.folder, progress.position, self.settings.keep)


def choose_model(learner: Learner, settings: Evaluation, folder: Path) -> Iterator[str]:
    """Give `learner` the model that is to stay, now that training is over: the best one, out of the
    checkpoints in `folder`, or the last one. Lines that say so, and why training is over.

    Where the best one is lost, a warning is logged, whatever becomes of the lines, and it is in
    `learner.progress.lost`.
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
            kept = checkpoint.read(folder / checkpoint.name_of(best.position))
        except (ModelFolderError, ModelMissingError) as error:
            learner.progress.lost = f"{found}: {error}"
            log.warning("the best model is lost, the model is the last one: %s", error)
            yield f"the model is the last one; the best one had {found}, but is lost"
            return
        learner.restore(kept.state)
        learner.progress.scores = kept.scores
    yield f"the model is the best one: {found}"
