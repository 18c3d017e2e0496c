"""Warn before a run, and say what to do after an error that ended it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from blocklearn.matcache.errors import DeviceLostError

from ..checkpoints.checkpoint import Checkpoint
from ..configuration.config import RunConfig
from ..configuration.references import left_out
from ..errors import DivergedError, RunInterrupted, WorkerLostError
from .inputs import conversion_options, kinds_of
from .run_folder import RunFolder

log = logging.getLogger(__name__)
RESUMES = "the same command with --resume auto resumes the run from its last checkpoint."


@contextmanager
def advised(out: Path) -> Iterator[None]:
    """Add what to do next to the error of a run that ends in a `with` statement.

    out: the folder of the run.
    """
    checkpoints = RunFolder(out).checkpoints
    try:
        yield
    except RunInterrupted as error:
        raise RunInterrupted(
            f"{out}: stopped by {error}. The same command with --resume auto resumes it."
        ) from error
    except DivergedError as error:
        kept = (
            f"Checkpoints in {checkpoints} are from before it did."
            if checkpoints.is_dir()
            else "No checkpoint is saved."
        )
        raise DivergedError(f"{error} {kept}") from error
    except DeviceLostError as error:
        if checkpoints.is_dir():
            error.add_note(f"When the device works again, {RESUMES}")
        raise
    except WorkerLostError as error:
        error.add_note("A worker that still works needs a larger distributed.patience_seconds.")
        if checkpoints.is_dir():
            error.add_note(RESUMES[0].upper() + RESUMES[1:])
        raise


def warn_of_secrets(config: RunConfig) -> None:
    """Warn of secrets that are written out; files of the run omit them."""
    for key, url in left_out(config.written()):
        log.warning(
            "%s: this URL contains a secret; files of the run have *** in its place. Write "
            "${NAME} there, and set the environment variable NAME",
            f"{key}={url}",
        )


def warn_of_copies(config: RunConfig, workers: int, why: str) -> None:
    """Warn of data that each of several workers reads into memory whole. why: they do so."""
    for name, kind in kinds_of(config.data).items():
        for file in kind.in_memory():
            log.warning(
                "%s: each of %d workers reads all of %s into memory, because %s. To let each read "
                "only its own blocks, convert it: `learn convert %s DIR%s`, then {kind: blocks, "
                "paths: [DIR]}",
                name, workers, file, why, file, conversion_options(kind, file),
            )  # fmt: skip


def warn_of_other_passes(config: RunConfig, last: Checkpoint) -> None:
    """Warn if a finished pass depended on a number of passes that has changed."""
    told, passes = int(last.config["learner"]["passes"]), config.learner.passes
    parting = config.model.parts_at(told, passes)
    if parting is not None and last.position > (parting, 0):
        log.warning(
            "%s: learner.passes was %d and is now %d. Pass %d, which is done, was planned with "
            "passes=%d, so the model will differ from that of a new run with passes=%d. "
            "--overwrite starts a new run",
            config.out, told, passes, parting + 1, told, passes,
        )  # fmt: skip
