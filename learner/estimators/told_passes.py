"""Tell scikit-learn's callbacks of the passes of a fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..hooks import Hook


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
