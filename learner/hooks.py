"""What a learner tells while it works: `Hook`, one call per event, and `Progress`, the figures."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .learner import Learner


@dataclass
class Progress:
    """Where a run stands. Seconds are of training alone: evaluation does not count.

    pass_: of the present pass, from 0; block: blocks done in it; closed: the pass is complete, and
    the model knows; rows: trained on, all passes.
    scores: of the latest evaluation. gflops: arithmetic of the kernels, 10^9 per second.
    """

    passes: int
    blocks: int
    pass_: int = 0
    block: int = 0
    closed: bool = False
    rows: int = 0
    seconds: float = 0.0
    rows_per_s: float = 0.0
    gflops: float = 0.0
    scores: dict[str, float] = field(default_factory=dict)
    cache_bytes: int = 0
    allocations_after_warmup: int = 0


class Hook:
    """Override what you want to hear of. An exception raised here ends the run."""

    def start(self, learner: Learner, progress: Progress) -> None:
        """Memory is allocated; the first block comes next."""

    def block(self, learner: Learner, progress: Progress) -> None:
        """A block has been trained on."""

    def evaluated(self, learner: Learner, progress: Progress) -> None:
        """`progress.scores` are new."""

    def pass_end(self, learner: Learner, progress: Progress) -> None:
        """A pass is complete, its evaluation included."""

    def end(self, learner: Learner, progress: Progress) -> None:
        """The last pass is complete."""
