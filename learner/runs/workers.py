"""Train a run with its workers, again if one is lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ..configuration.config import RunConfig
from ..configuration.kinds import own_classes
from ..configuration.yaml_config import of_values, values_of
from ..engines.crew import Crew
from ..engines.exchange import Exchange
from ..engines.open import opened
from ..errors import WorkerLostError
from ..learner import Learner
from .advice import advised
from .assisting import assist
from .run_folder import RunFolder
from .signals import Requests, interruptible
from .training import RunOptions, train


def crew_of(config: RunConfig, *, alone: bool = False) -> Crew:
    """Return the workers of a run. alone: ask for no certain number of them, and start none."""
    wanted = config.distributed
    exchange = opened(
        wanted.engine,
        None if alone and wanted.engine != "ray" else wanted.workers,
        wanted.patience_seconds,
        task=lambda: partial(_assist, values_of(config)),
        threads=config.learner.threads,
        address=wanted.address,
    )
    return Crew(exchange)


def train_again(config: RunConfig, options: RunOptions, crew: Crew) -> Learner | None:
    """Train as `train` does; resume if a worker is lost that the engine can start again.

    Each time it resumes from the newest checkpoint, so the result has the same bits, unless there
    is no room for as many workers.

    Raises WorkerLostError after `distributed.max_failures` losses.
    """
    folder, wanted = RunFolder(config.out), config.distributed
    before, left = _edition(folder.config), wanted.max_failures
    try:
        while True:
            try:
                return train(config, options, crew)
            except WorkerLostError as error:
                if not crew.exchange.starts or left == 0:
                    raise
                left -= 1
                again = f"starting again from the newest checkpoint ({left} more times)"
                options.say(f"{error}; {again}")
            with advised(config.out), interruptible("a signal while workers started again"):
                crew.restart(wanted.fewest_workers, wanted.replace_seconds)
            if crew.size != wanted.workers:
                options.say(f"continuing with {crew.size} of {wanted.workers} workers")
            if _edition(folder.config) != before:  # else nothing was written yet
                options = replace(options, overwrite=False, resume=True)
    finally:
        crew.exchange.dismiss()


def _edition(path: Path) -> tuple[int, int] | None:
    """Return what differs when a file was written anew; None: it does not exist."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def _assist(sections: Mapping[str, Any], exchange: Exchange) -> None:
    """Be a worker that the run of another process has started.

    sections: of the configuration, as values for JSON.
    """
    config = of_values(RunConfig, dict(sections), "configuration of worker 0", own_classes)
    assist(config, Requests(), Crew(exchange))
