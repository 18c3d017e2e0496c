"""The position, figures and best evaluation of a run."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...files.paging import PageCount
from .work import Work


@dataclass(frozen=True)
class Best:
    """The best evaluation so far, by the score that is watched.

    metric, score: name and value of that score.
    pass_, block: position of the run at that evaluation.
    waited: evaluations since.
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
    """The position and the figures of a run.

    passes: planned.
    blocks: of a pass.
    pass_: number of the present pass, from 0.
    block: blocks done in the present pass.
    ahead: further blocks that replicas have done but not merged yet.
    closed: whether the pass is complete, and the model has finished it.
    rows: trained on, in all passes.
    seconds: of training, without evaluations.
    rows_per_s: of training in this process.
    gflops: arithmetic of the kernels, 10^9 operations per second.
    scores: of the latest evaluation.
    train_scores: the same figures, without those of single targets, of a recent block of training
        data, before it was trained on.
    best: see `Evaluation.metric`.
    work: all work of this process; differences give the speed of any stretch of time. It counts
        every block, also between merges.
    scored: blocks that this worker has evaluated.
    cache_bytes: memory of all caches, of all workers.
    device_bytes: the part of it on accelerators.
    table_pages: of tables in files, that blocks have asked for; None: tables are in memory.
    table_wait_seconds: that this process has waited for such pages before it computed a block.
    allocations_after_warmup: arrays that training has made since the first block, of all workers.
    bytes_elsewhere: resident memory of the other workers, when all met the last time.
    finite: the pass, and the blocks done in it, at the last check that found finite numbers.
    stop: whether training ends here: nothing is left to gain, or a hook has set it.
    lost: which best model could not be read again at the end, and why; None if none was lost.
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
    table_pages: PageCount | None = None
    table_wait_seconds: float = 0.0
    allocations_after_warmup: int = 0
    bytes_elsewhere: int = 0
    finite: tuple[int, int] = (0, 0)
    stop: bool = False
    lost: str | None = None

    @property
    def position(self) -> tuple[int, int]:
        """The complete passes, and the blocks done in the next one: sorts checkpoints."""
        return (self.pass_ + 1, 0) if self.closed else (self.pass_, self.block)
