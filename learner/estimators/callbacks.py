"""Pass the learner's progress to scikit-learn's callbacks (SLEP 23, version 1.9)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .scikit import has_callbacks

if TYPE_CHECKING:
    from ..learner import Learner
    from .told_passes import TellCallbacks


@contextmanager
def telling(
    estimator: Any, told: dict[str, Any], passes: int, learned: Callable[[Any], dict[str, Any]]
) -> Iterator[list[TellCallbacks]]:
    """Tell scikit-learn's callbacks that a `with` statement fits an estimator.

    Yields the hooks that tell them of its passes: none, if the estimator has no callbacks.

    told: what every callback receives: X, y, metadata. passes: at most.
    learned: see `TellCallbacks`.
    """
    if not has_callbacks(estimator):
        yield []
        return
    from .told_passes import TellCallbacks  # imports the learner, which fits in memory do not need

    told = {"estimator": estimator, **told}
    root = estimator._init_callback_context(max_subtasks=passes)
    root.call_on_fit_task_begin(**told)
    yield [TellCallbacks(root, told, learned)]
    root.call_on_fit_task_end(**told, reconstruction_attributes={})


def tensors_of(learner: Learner) -> Callable[[str], NDArray[Any]]:
    """Return a function that copies a tensor of an open learner."""

    def tensor(name: str) -> NDArray[Any]:
        if name in learner.model.row_states:
            return np.array(learner.row_state(name))
        return learner.parameter(name)

    return tensor
