"""Where training stands: `Progress`, the figures; `Best`, the best evaluation so far."""

from __future__ import annotations

from dataclasses import dataclass, field

from .work import Work


@dataclass(frozen=True)
class Best:
    """The best evaluation so far by the score that is watched: what it was, and where. waited:
    evaluations since.
    """

    metric: str
    score: float
    pass_: int
    block: int
    waited: int = 0

    @property
    def position(self) -> tuple[int, int]:
        """See `Progress.position`."""
        return self.pass_, self.block


@dataclass
class Progress:
    """Where a run stands. Seconds are of training alone: evaluation does not count.

    pass_: of the present pass, from 0; block: blocks done in it; ahead: blocks after these that
    replicas have done and not merged yet; closed: the pass is complete, and the model knows; rows:
    trained on, all passes.
    scores: of the latest evaluation. train_scores: the same figures (not those of single targets)
    of a block of training data before it was trained on, one of the latest. best: see
    `Evaluation.metric`. gflops: arithmetic of the kernels, 10^9 per second.
    work: what this process has done, from which the speed of any stretch of time follows; it counts
    every block, also between merges. scored: blocks of evaluations that this process has done.
    cache_bytes, device_bytes: memory of all caches, and what of it is on accelerators.
    finite: the pass, and the blocks done in it, when the numbers were last found to be finite.
    stop: training ends here, because there is nothing left to gain, or a hook has set it.
    lost: what the best model had, and why it could not be read again at the end; None: it could be.
    """

    passes: int
    blocks: int
    pass_: int = 0
    block: int = 0
    ahead: int = 0
    closed: bool = False
    rows: int = 0
    seconds: float = 0.0
    rows_per_s: float = 0.0
    gflops: float = 0.0
    scores: dict[str, float] = field(default_factory=dict)
    train_scores: dict[str, float] = field(default_factory=dict)
    best: Best | None = None
    work: Work = Work()
    scored: int = 0
    cache_bytes: int = 0
    device_bytes: int = 0
    allocations_after_warmup: int = 0
    finite: tuple[int, int] = (0, 0)
    stop: bool = False
    lost: str | None = None

    @property
    def position(self) -> tuple[int, int]:
        """Passes that are complete, and blocks done in the next one: what sorts checkpoints."""
        return (self.pass_ + 1, 0) if self.closed else (self.pass_, self.block)
