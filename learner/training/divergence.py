"""Numbers that are no longer finite end a run: what is learnt from then on is worthless."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from blocklearn.datasources import BlockShape

from ..errors import DivergedError
from .progress import Progress
from .replica import Replica
from .team import Team

SHARE = 0.01  # bytes that are looked at, of those that blocks are trained on, at most
PART = 2**22  # numbers that are looked at at a time, where a sum does not tell


class FiniteCheck:
    """Looks at what a model has learnt: after the first block of all, after every so many blocks of
    a pass, and at the end of every pass.

    Which blocks these are follows from sizes alone, never from the clock or from where a run was
    stopped: so a run diverges or does not, whatever else the machine does. What is looked at are
    parameters and the state of rows (of the present block, and of all rows at the end of a pass);
    not what optimizers keep, where an infinite number may have a meaning.
    """

    def __init__(self, every: int) -> None:
        """every: blocks of a pass from one look to the next; see `blocks_between`."""
        self.every = every

    def after_block(self, team: Team, progress: Progress, blocks: int = 1) -> None:
        """Look, if it is time to. blocks: done since the last call. Raises DivergedError."""
        before = progress.block - blocks
        first = progress.pass_ == 0 and before == 0
        if first or progress.block // self.every > before // self.every:
            check_finite(learnt(team.first, whole=False), progress)

    def now(self, team: Team, progress: Progress) -> None:
        """A look at everything. Raises DivergedError."""
        check_finite(learnt(team.first, whole=True), progress)


def blocks_between(replica: Replica, shapes: Sequence[BlockShape]) -> int:
    """Blocks from one look to the next, so that looks take little of the time.

    shapes: of the blocks of each side. What a block costs is guessed from below: it reads its data,
    and on the host for each of its entries a row of a table, at least. A device is sent the data
    only, and what is looked at takes the same way back.
    """
    model = replica.model
    arrays = [*model.parameters.values(), *(state.rows for state in model.states.values())]
    looked = sum(mat.slot.nbytes for mat in arrays)
    width = max((mat.shape[1] for mat in arrays), default=0) if replica.device == "cpu" else 0
    trained = min(shape.nbytes + 4 * width * _entries(shape) for shape in shapes)
    return max(1, math.ceil(looked / (SHARE * trained)))


def _entries(shape: BlockShape) -> int:
    return shape.rows * shape.columns if shape.dense else shape.nnz


def check_finite(arrays: Iterable[tuple[str, Any]], progress: Progress) -> None:
    """Notes in `progress` that `arrays` (names come with them) are finite.

    Raises:
        DivergedError: one is not; the message names the blocks since the last look.
    """
    for name, array in arrays:
        if not is_finite(array):
            raise DivergedError(
                f"{name} is not finite after {_since(progress)}: the model has diverged. "
                "Lower the optimizer's rate or raise the regularisation."
            )
    progress.finite = (progress.pass_, progress.block)


def _since(progress: Progress) -> str:
    """Which blocks of the present pass were trained on since the last look."""
    pass_, done = progress.finite
    first, last = done if pass_ == progress.pass_ else 0, progress.block - 1
    blocks = f"block {last}" if first >= last else f"blocks {first} to {last}"
    return f"{blocks} of pass {progress.pass_} (both count from 0)"


def learnt(replica: Replica, *, whole: bool) -> Iterator[tuple[str, Any]]:
    """Parameters and states of rows by name, without rows of padding; whole: of all rows, not of
    the present block alone.
    """
    model, shown = replica.model, replica.cache.backend.host
    for name, mat in model.parameters.items():
        yield name, shown(mat.slot.data())
    for name, state in model.states.items():
        yield name, state.kept if whole else shown(state.rows.slot.data())[: state.count]


def is_finite(array: Any) -> bool:
    """Whether all numbers are finite, in one trip through memory and without any more of it.

    >>> is_finite(np.array([3e38, 3e38], np.float32)), is_finite(np.array([np.inf, -np.inf]))
    (True, False)
    """
    with np.errstate(over="ignore", invalid="ignore"):
        if math.isfinite(float(array.sum(dtype=array.dtype))):
            return True  # NaN and infinity never leave a sum
    flat = array.reshape(-1)  # a sum of finite numbers may be infinite, so look at each
    return all(np.isfinite(flat[i : i + PART]).all() for i in range(0, flat.size, PART))
