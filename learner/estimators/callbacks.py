"""Pass the learner's progress to scikit-learn's callbacks (SLEP 23, version 1.9)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..hooks import Hook
from .scikit import has_callbacks

if TYPE_CHECKING:
    from ..learner import Learner


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
    told = {"estimator": estimator, **told}
    root = estimator._init_callback_context(max_subtasks=passes)
    root.call_on_fit_task_begin(**told)
    yield [TellCallbacks(root, told, learned)]
    root.call_on_fit_task_end(**told, reconstruction_attributes={})


class TellCallbacks(Hook):
    """Report each pass to the callbacks as a task; a callback that returns True ends training.

    root: the callback context of `fit`, which has begun.
    told: what every callback receives: the estimator, X, y, metadata.
    learned: makes the estimator's attributes from the learner, or from what stands in for it.
    """

    def __init__(
        self, root: Any, told: dict[str, Any], learned: Callable[[Any], dict[str, Any]]
    ) -> None:
        """Keep the arguments; no callback is called yet."""
        self.root, self.told, self.learned = root, told, learned
        self._task: Any = None

    def start(self, learner: Any, progress: Any) -> None:
        """Begin the task of the first pass."""
        self._begin(learner)

    def pass_end(self, learner: Any, progress: Any) -> None:
        """End the task of a pass, and begin that of the next one."""
        stop = self._task.call_on_fit_task_end(**self.told, **self._fitted(learner))
        progress.stop = progress.stop or bool(stop)
        if progress.pass_ + 1 < progress.passes and not progress.stop:
            self._begin(learner)

    def _begin(self, learner: Any) -> None:
        self._task = self.root.subcontext(task_name="pass")
        self._task.call_on_fit_task_begin(**self.told, **self._fitted(learner))

    def _fitted(self, learner: Any) -> dict[str, Any]:
        """Return the learned attributes; computed only if a callback asks for them."""
        return {"reconstruction_attributes": lambda: self.learned(learner)}


def tensors_of(learner: Learner) -> Callable[[str], NDArray[Any]]:
    """Return a function that copies a tensor of an open learner."""

    def tensor(name: str) -> NDArray[Any]:
        if name in learner.model.row_states:
            return np.array(learner.row_state(name))
        return learner.parameter(name)

    return tensor
