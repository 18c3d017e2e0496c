"""What a model has learned of each row (or column) of its training data, block by block."""

from collections.abc import Iterator

import numpy as np

from .errors import ConfigError
from .learner import Learner
from .predictions import Predicted

STEP = 1 << 14  # rows of a block


def count(learner: Learner, name: str) -> int:
    """Of how many rows the state `name` is. Raises `ConfigError` where the model has none such."""
    states = learner.model.row_states
    if name not in states:
        kind = type(learner.model).__name__
        known = f"it has {', '.join(states)}" if states else "it has none"
        raise ConfigError([f"a model of kind {kind} has no state of rows called {name!r}: {known}"])
    return len(learner.row_state(name))


def state_blocks(learner: Learner, name: str) -> Iterator[Predicted]:
    """The state `name` of all rows, in their order, with their names."""
    side = learner.model.row_states[name]
    names, table = (learner.row_names, learner.names)[side], learner.row_state(name)
    for start in range(0, len(table), STEP):
        numbers = np.arange(start, min(start + STEP, len(table)))
        called = [f"{'column' if side else 'row'} {i}" for i in numbers]
        if names is not None:
            called = list(names[start : start + STEP])
        yield Predicted(numbers, called, table[start : start + STEP])
