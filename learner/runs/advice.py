"""Say what to do after an error that ended a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from blocklearn.matcache.errors import DeviceLostError

from ..errors import DivergedError, RunInterrupted, WorkerLostError
from .run_folder import RunFolder

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
