"""What a learner reports while it works: `Hook`, one call per event."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .training.progress import Progress as Progress

if TYPE_CHECKING:
    from .learner import Learner
    from .training.replica import Replica


class Hook:
    """Override what you want to hear of. An exception raised here ends the run."""

    def plan(self, learner: Learner, replica: Replica) -> None:
        """The memory of a replica is being planned, on shapes, before any of it is allocated: what
        is computed here in its cache (`replica.cache`) can be computed there later. It is not asked
        where the model's update cannot be planned.
        """

    def start(self, learner: Learner, progress: Progress) -> None:
        """Memory is allocated; the first block comes next."""

    def block(self, learner: Learner, progress: Progress) -> None:
        """A block has been trained on; of several replicas, they were merged."""

    def evaluated(self, learner: Learner, progress: Progress) -> None:
        """`progress.scores` are new."""

    def improved(self, learner: Learner, progress: Progress) -> None:
        """The latest evaluation is the best so far; `progress.best` is new."""

    def pass_end(self, learner: Learner, progress: Progress) -> None:
        """A pass is complete, its evaluation included."""

    def end(self, learner: Learner, progress: Progress) -> None:
        """Training is over: the last pass is complete, or `progress.stop` was set before."""
