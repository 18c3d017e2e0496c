"""Save checkpoints of a learner in Python, and resume from them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blocklearn.answers import answered, shown

from ..configuration.sections import CheckpointConfig
from ..errors import ConfigError, ModelFolderError, ModelMissingError
from ..hooks import Hook, Progress
from ..training.settings.checks import check_whole
from ..training.states.state import State
from . import checkpoint
from .same_run import check_same
from .saving import SaveCheckpoints
from .stored_checkpoints import stored

if TYPE_CHECKING:
    from ..learner import Learner

log = logging.getLogger(__name__)

REMEDY = "Change this back to resume, or give Checkpoints another folder to start afresh."

DAMAGED = "Remove the folder, or give another one, to start afresh."


class Checkpoints(Hook):
    """Saves checkpoints in a folder; a learner that begins with it resumes from the newest.

    - folder: of checkpoints alone; made when the first is saved.
    - every_passes, every_blocks, every_minutes: when to save, besides at the end; None: not so.
    - keep: number of checkpoints to keep, besides that of the best evaluation.
    - store: URL of a folder in a store, such as "s3://bucket/runs/lda", to which checkpoints are
      copied. A learner resumes from there if `folder` is lost. None: no copies.

    A run that is killed and started again gives the same bits as one that never stopped. Other
    numbers of passes and threads are allowed when it resumes; a `ConfigError` names anything else
    that differs, the data included. A folder with a model, and one that another hook of the learner
    has, are refused.

    >>> import tempfile, numpy as np, blocklearn as bl
    >>> folder = tempfile.mkdtemp()
    >>> X = np.random.default_rng(0).poisson(1.0, (60, 5))
    >>> def train(passes):
    ...     hooks = [bl.Checkpoints(folder, every_blocks=2)]
    ...     return bl.Learner("nmf", X, passes=passes, block_rows=20, hooks=hooks).fit()
    >>> train(2).progress.pass_, len(train(5).history)  # the second one has three passes left
    (2, 3)
    """

    @answered
    def __init__(
        self,
        folder: Path | str,
        *,
        every_passes: int | None = 1,
        every_blocks: int | None = None,
        every_minutes: float | None = None,
        keep: int = 2,
        store: str | None = None,
    ) -> None:
        self.folder = Path(folder)
        checkpoint.check_folder(self.folder)
        self.settings = CheckpointConfig(
            every_passes=every_passes,
            every_blocks=every_blocks,
            every_minutes=every_minutes,
            keep=keep,
            store=store,
        )
        self._saver: SaveCheckpoints | None = None

    def start(self, learner: Learner, progress: Progress) -> None:
        """Resume from the newest checkpoint that is ahead of the learner, if there is one.

        Raises:
            ConfigError: the checkpoint is of another model, other settings or other data.
            ModelFolderError: no checkpoint is intact, or the folder is not one of checkpoints.
        """
        checkpoint.check_folder(self.folder)
        assert learner.train is not None
        config, fingerprint = settings_of(learner), learner.train.fingerprint
        copies = stored(self.settings.store)
        if copies is not None:
            copies.fetch(self.folder)
        last = checkpoint.newest(self.folder, DAMAGED, learner.crew)
        if last is not None and last.position > progress.position:
            check_same(last, config, fingerprint, remedy=REMEDY)
            if last.state.pages is not None and progress.position != (0, 0):
                raise ConfigError(
                    [
                        f"{self.folder}: a checkpoint of tables in files resumes a learner that "
                        "has not trained yet. Make a new Learner."
                    ]
                )
            learner.restore(last.state, best=self._best(learner, last))
            progress.scores = last.scores
        self._saver = SaveCheckpoints(
            self.folder,
            self.settings,
            config=config,
            fingerprint=fingerprint,
            saved=lambda progress, path, seconds: None,
            keep_best=learner.evaluation.keeps_best,
            again="the same program",
        )
        self._saver.start(learner, progress)

    def improved(self, learner: Learner, progress: Progress) -> None:
        """Save at the next call: other hooks have not seen this block yet."""
        self._begun.improved(learner, progress)

    def block(self, learner: Learner, progress: Progress) -> None:
        """Save if it is due, or if training ends here."""
        self._begun.block(learner, progress)

    def pass_end(self, learner: Learner, progress: Progress) -> None:
        """Save if it is due, or if this was the last pass."""
        self._begun.pass_end(learner, progress)

    @property
    def _begun(self) -> SaveCheckpoints:
        assert self._saver is not None  # `start` is always first
        return self._saver

    def _best(
        self, learner: Learner, last: checkpoint.Checkpoint
    ) -> tuple[State, dict[str, float]] | None:
        """Read the best model of the earlier run, if the learner keeps it."""
        if last.best is None or not learner.evaluation.keeps_best:
            return None
        try:
            best = checkpoint.read(self.folder / checkpoint.name_of(last.best), learner.crew)
        except (ModelFolderError, ModelMissingError) as error:
            log.warning("the checkpoint of the best model cannot be read: %s", error)
            return None
        return best.state, best.scores


def checkpoints_of(folder: Path | str | None, every_blocks: int | None) -> list[Checkpoints]:
    """Return the hook that `checkpoint` and `every_blocks` of a learner ask for, or no hook.

    Raises:
        TypeError: `folder` is no path.
        ValueError: `every_blocks` is given without `folder`, or is no whole number from 1.
    """
    if folder is None:
        if every_blocks is not None:
            raise ValueError(
                f"Learner: every_blocks={every_blocks}: must come with a folder of checkpoints. "
                "Pass checkpoint=FOLDER, too."
            )
        return []
    if not isinstance(folder, Path | str):
        raise TypeError(
            f"Learner: checkpoint={shown(folder)}: must be the path of a folder. Other settings "
            "of checkpoints are hooks=[blocklearn.Checkpoints(FOLDER, keep=3)]."
        )
    if every_blocks is not None:
        check_whole("every_blocks", every_blocks)
    return [Checkpoints(folder, every_blocks=every_blocks)]


def check_folders(hooks: Sequence[Hook]) -> None:
    """Raise ValueError if two hooks of a learner save checkpoints in the same folder."""
    folders = [hook.folder.resolve() for hook in hooks if isinstance(hook, Checkpoints)]
    for folder in folders:
        if folders.count(folder) > 1:
            raise ValueError(
                f"Learner: {folder}: two hooks save checkpoints here: must be one. Give "
                "checkpoint=FOLDER, or hooks=[blocklearn.Checkpoints(FOLDER)], not both."
            )


def settings_of(learner: Learner) -> dict[str, Any]:
    """Return the settings of a learner that decide its results, in the keys of a configuration."""
    execution, workers = learner.execution, learner.crew.size
    return {
        **learner.parts.json(),
        "data": {"block_rows": learner.data.block_rows},
        "learner": {
            **execution.decisive(),
            "passes": learner.passes,
            "devices": list(execution.devices) * workers,
            "replicas": execution.replicas * workers,
            "of_rows": learner.data.of_rows,
        },
        "distributed": {"workers": workers},
    }
