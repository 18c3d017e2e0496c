"""Choose the settings that a run's configuration leaves open, once: resumed runs keep them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from blocklearn.durable import write_file

from ..choosing.choose import choose, provisional
from ..configuration.config import RunConfig
from ..engines.crew import Crew
from ..learner import Learner
from .run_folder import RunFolder


def planned(config: RunConfig) -> RunConfig:
    """Return `config` with first candidates in place of open settings, to plan the memory."""
    return config.model_copy(update={"model": provisional(config.model)})


def with_model(config: RunConfig, model: dict[str, Any]) -> RunConfig:
    """Return `config` with the fields of a model that another worker has decided on."""
    if config.model.model_dump(mode="json") == model:
        return config
    decided = type(config.model).model_validate_json(json.dumps(model))
    return config.model_copy(update={"model": decided})


def as_one_process(written: dict[str, Any], crew: Crew) -> dict[str, Any]:
    """Return the settings of the same run in one process, with the replicas of all workers.

    Its results have the same bits, so either can resume the other. The number of workers is kept,
    to tell runs apart that differ in it alone.
    """
    learner = written["learner"]
    devices = learner["devices"] and learner["devices"] * crew.size
    own = {"replicas": learner["replicas"] * crew.size, "devices": devices}
    workers = written["distributed"] | {"workers": crew.size}
    return written | {"learner": learner | own, "distributed": workers}


def decided(
    config: RunConfig, before: dict[str, Any] | None, make: Callable[[], Learner],
    folder: RunFolder, say: Callable[[str], None],
) -> RunConfig:  # fmt: skip
    """Return `config` with numbers in place of open settings.

    before: the configuration of the run's checkpoint, which has them; None: they are chosen now,
        and what was tried is written to `folder`.
    make: makes the learner of the run.
    say: prints a line.
    """
    model = config.model
    if model.undecided is None:
        return config
    if before is not None:
        names = model.undecided.to_try(None)[0]
        known = {name: value for name, value in before["model"].items() if name in names}
        return config.model_copy(update={"model": model.model_copy(update=known)})
    say(f"{model.undecided.what}: short trainings on a part of the entries")
    learner = make()
    choice = choose(learner)
    assert choice is not None
    for tried in choice.tried:
        say(f"  {tried}")
    say(str(choice))
    write_file(folder.tried, (json.dumps(choice.plain(), indent=1) + "\n").encode())
    return config.model_copy(update={"model": learner.model})
