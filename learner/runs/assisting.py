"""Take part in a run that another worker leads: it writes the files and decides when to stop."""

from __future__ import annotations

from functools import partial

from ..checkpoints.parts import CHECK, check_parts
from ..configuration.config import RunConfig
from ..engines.alike import check_same_data
from ..engines.crew import Crew
from ..watch.watchdog import watching
from .build import build, state_files_of
from .decided import planned, with_model
from .inputs import fingerprints, sized
from .memory_check import checked_plan
from .opening import open_together
from .signals import Requests


def assist(config: RunConfig, requests: Requests, crew: Crew) -> None:
    """Train with the worker that leads, which decides what is open and writes the files."""
    config, (train_data, eval_data) = open_together(config, crew)
    config = sized(config, train_data)
    files = state_files_of(config, crew)
    check_same_data(crew, fingerprints(train_data, eval_data))
    checked_plan(build(planned(config), train_data, eval_data, [], files, crew), config)
    crew.follow({CHECK: partial(check_parts, crew)})
    model = crew.told()
    if model is None:
        return  # the run was finished already
    config = with_model(config, model)
    with files.held():
        learner = build(config, train_data, eval_data, [], files, crew)
        requests.deferred = True  # the one that leads hears of a signal between two blocks
        patience = config.learner.watchdog_seconds, config.learner.watchdog_exit_seconds
        with watching(learner.progress, *patience):
            learner.fit()
        learner.stand_by()
