"""End a run whose numbers are no longer finite: its model is worthless."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from blocklearn.datasources import BlockShape
from blocklearn.matcache.finite import is_finite
from blocklearn.models import Model, RowState

from ..errors import REMEDIES, DivergedError
from ..files.spread_tables import SpreadTables
from ..files.table_files import TableFiles
from .replicas.paged_tables import tables_of
from .replicas.replica import Replica
from .settings.progress import Progress
from .teams.team import Team

SHARE = 0.01  # bytes checked, at most, per byte that training reads
CHECK_BYTES = 2**17  # read in the time that a check of a tiny model takes
BLOCK_BYTES = 2**18  # read in the time that a tiny block takes
FAR = 64  # bytes of its own memory that a device reads in the time of a byte of the host's


class FiniteCheck:
    """Checks a model after the first block, at fixed blocks and after each pass.

    Sizes alone decide which blocks are checked, never the clock or the place where a run was
    stopped. So the load of a machine does not decide whether a run diverges. The check covers
    parameters and the state of rows: of the present block, and of all rows at the end of a pass. It
    does not cover the state of optimizers, where an infinite number may have a meaning, nor
    parameters that cannot diverge.

    If tables lie in files, every block is checked, and of these tables the rows that occur in it:
    no others have changed.
    """

    def __init__(self, every: int) -> None:
        """every: blocks of a pass from one check to the next; see `blocks_between`."""
        self.every = every

    def due(self, progress: Progress, blocks: int) -> bool:
        """Return whether a check is due, after so many blocks since the last call."""
        before = progress.block - blocks
        first = progress.pass_ == 0 and before == 0
        return first or progress.block // self.every > before // self.every

    def rows(self, team: Team, progress: Progress, end: int) -> None:
        """Check rows of tables in files that the present block has changed. Raises DivergedError.

        end: the blocks of the pass that are trained on before the next merge, for the message.
        """
        replica = team.first
        files = replica.files
        if files is not None and isinstance(files, TableFiles):
            rows = replica.occurring
            found = files.tables.keys() & replica.model.parameters.keys()
            finite = ((name, is_finite(files.tables[name].array[rows])) for name in sorted(found))
            check_finite(finite, progress, end)

    def recent(self, team: Team, progress: Progress) -> None:
        """Check parameters, and states of the present block. Raises DivergedError."""
        check_finite(learnt(team.first, whole=False), progress)

    def now(self, team: Team, progress: Progress) -> None:
        """Check everything. Raises DivergedError."""
        check_finite(learnt(team.first, whole=True), progress)


def blocks_between(replica: Replica, shapes: Sequence[BlockShape]) -> int:
    """Return the blocks from one check to the next, which keep the checks cheap.

    The cost of a block is estimated from below. It reads its data, and on the host at least one row
    of a table for each entry. A device is fed with the data, and idle while a check waits for it.
    Where little is read, calls take the time: `CHECK_BYTES`, `BLOCK_BYTES`.

    shapes: of the blocks of each side.
    """
    if isinstance(replica.files, TableFiles):
        return 1
    model = replica.model
    checked = (mat for name, mat in model.parameters.items() if name not in model.always_finite)
    arrays = [*checked, *(state.rows for _, state in _states(model))]
    looked = sum(mat.slot.nbytes for mat in arrays)
    if isinstance(replica.files, SpreadTables):
        looked += FAR * replica.files.far_bytes(tables_of(replica))
    width = max((mat.shape[1] for mat in arrays), default=0) if replica.device == "cpu" else 0
    trained = min(shape.nbytes + 4 * width * _entries(shape) for shape in shapes)
    return max(1, math.ceil((CHECK_BYTES + looked) / (SHARE * (BLOCK_BYTES + trained))))


def _entries(shape: BlockShape) -> int:
    return shape.rows * shape.columns if shape.dense else shape.nnz


def check_finite(
    finite: Iterable[tuple[str, bool]], progress: Progress, end: int | None = None
) -> None:
    """Check what a model has learnt, and note it in `progress`.

    finite: by name, whether all numbers are.
    end: the blocks of the pass that may have changed them; None: those that are done.

    Raises:
        DivergedError: some are not; the message names the blocks since the last check.
    """
    for name, holds in finite:
        if not holds:
            raise DivergedError(
                f"{name} is not finite after {_since(progress, end)}: the model has diverged. "
                f"{REMEDIES}"
            )
    progress.finite = (progress.pass_, progress.block)


def _since(progress: Progress, end: int | None) -> str:
    """Name the blocks of the present pass that were trained on since the last check."""
    pass_, done = progress.finite
    first = done if pass_ == progress.pass_ else 0
    last = (progress.block if end is None else end) - 1
    blocks = f"block {last}" if first >= last else f"blocks {first} to {last}"
    return f"{blocks} of pass {progress.pass_} (both count from 0)"


def learnt(replica: Replica, *, whole: bool) -> Iterator[tuple[str, bool]]:
    """Yield whether parameters and states of rows are finite, by name, without padding.

    Tables in files are left out, and `always_finite`.

    whole: whether states are of all rows; otherwise of the present block.
    """
    model, finite, files = replica.model, replica.cache.backend.finite, replica.files
    in_files = files.tables.keys() if isinstance(files, TableFiles) else set()
    apart = in_files | model.always_finite
    for name, mat in model.parameters.items():
        if name not in apart:
            yield name, finite(mat.slot.data())
    for name, state in _states(model):
        rows = state.rows.slot.data()
        yield name, state.is_finite() if whole else finite(rows[: state.count])


def _states(model: Model) -> Iterator[tuple[str, RowState]]:
    """Yield the states whose numbers may be infinite."""
    for name, state in model.states.items():
        if isinstance(state, RowState):
            yield name, state
