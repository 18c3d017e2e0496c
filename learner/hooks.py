"""Hooks, which a learner calls while it works, once per event."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from .training.settings.progress import Progress as Progress

if TYPE_CHECKING:
    from .learner import Learner
    from .training.replicas.replica import Replica


class Hook:
    """Override the events of interest. An exception raised here ends the run."""

    @property
    def adds(self) -> Collection[str]:
        """Names of the scores that `evaluated` adds, so that one of them can be watched."""
        return ()

    def plan(self, learner: Learner, replica: Replica) -> None:
        """Add to the memory plan of a replica, before any of it is allocated.

        An expression that is computed here in `replica.cache`, on shapes, can be computed there
        later. It is not called where the model's update cannot be planned.
        """

    def start(self, learner: Learner, progress: Progress) -> None:
        """Memory is allocated; the first block comes next."""

    def block(self, learner: Learner, progress: Progress) -> None:
        """Hear that a block was trained on; of several replicas, that they were merged."""

    def evaluated(self, learner: Learner, progress: Progress) -> None:
        """`progress.scores` are new. See `adds` to add others to them."""

    def improved(self, learner: Learner, progress: Progress) -> None:
        """Hear that the latest evaluation is the best so far; `progress.best` is new."""

    def pass_end(self, learner: Learner, progress: Progress) -> None:
        """Hear that a pass is complete, its evaluation included."""

    def end(self, learner: Learner, progress: Progress) -> None:
        """Training is over: the last pass is complete, or `progress.stop` was set before."""
