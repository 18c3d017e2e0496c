"""scikit-learn's callbacks (SLEP 23, version 1.9) hear of the passes of a learner."""

from __future__ import annotations

from typing import Any

from ..hooks import Hook, Progress
from ..learner import Learner


class TellCallbacks(Hook):
    """Each pass is a task of the callbacks; one whose end a callback answers with True is the last.

    root: the callback context of `fit`, which has begun. told: what all hooks are given: the
    estimator, X, y, metadata. learned: the estimator's attributes from the learner as it is.
    """

    def __init__(self, root: Any, told: dict[str, Any], learned: Any) -> None:
        """Nothing is told yet."""
        self.root, self.told, self.learned = root, told, learned
        self._task: Any = None

    def start(self, learner: Learner, progress: Progress) -> None:
        """The first pass begins."""
        self._begin(learner)

    def pass_end(self, learner: Learner, progress: Progress) -> None:
        """One pass ends, and another begins, if there is one."""
        stop = self._task.call_on_fit_task_end(**self.told, **self._fitted(learner))
        progress.stop = progress.stop or bool(stop)
        if progress.pass_ + 1 < progress.passes and not progress.stop:
            self._begin(learner)

    def _begin(self, learner: Learner) -> None:
        self._task = self.root.subcontext(task_name="pass")
        self._task.call_on_fit_task_begin(**self.told, **self._fitted(learner))

    def _fitted(self, learner: Learner) -> dict[str, Any]:
        """Found only where a callback asks for it."""
        return {"reconstruction_attributes": lambda: self.learned(learner)}
