"""Take part in a run that another worker leads: it writes the files and decides when to stop."""

from __future__ import annotations

from functools import partial

from ..checkpoints.parts import CHECK, check_parts
from ..configuration.config import RunConfig
from ..engines.alike import check_same_data
from ..engines.crew import Crew
from ..watch.watchdog import watching
from .build import build
from .decided import planned, with_model
from .inputs import fingerprints, sized
from .opening import open_together
from .placing import checked
from .signals import Requests
from .state_files import state_files_of


def assist(config: RunConfig, requests: Requests, crew: Crew) -> None:
    """Train with the worker that leads, which decides what is open and writes the files."""
    config, (train_data, eval_data) = open_together(config, crew)
    config = sized(config, train_data)
    check_same_data(crew, fingerprints(train_data, eval_data))
    make = partial(build, planned(config), train_data, eval_data, [], crew=crew)
    files = checked(make, state_files_of(config, crew), config, crew).files
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
