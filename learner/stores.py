"""What a learner knows of the rows of its data: stores of row state, and the sizes of blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ..datasources import BlockShape, DataSource, Ids, row_names
from ..matcache import ShapeError
from ..models import Model, RowStore
from .state import State
from .team import Team


def make_stores(team: Team, folder: Path | None, *, seed: int, drawn: bool) -> dict[str, RowStore]:
    """A store for each state of rows, connected to all replicas; `drawn`, or zero for now.

    folder: where they are kept in files; None: in memory.
    """
    stores = {}
    for stream, (name, state) in enumerate(team.first.model.states.items()):
        stores[name] = RowStore(
            *state.shape, None if folder is None else folder / f"{name}.float32"
        )
        if drawn:
            stores[name].draw(state.init, seed, stream)
    for replica in team.replicas:
        replica.connect(stores)
    return stores


def check_rows(
    model: Model, rows: int, names: Sequence[str] | None, source: DataSource, what: str
) -> None:
    """Raises ShapeError unless `source` has the rows whose state `model` is scored with.

    rows, names: of the rows that it was trained on.
    """
    if model.scores_new_rows or 0 not in model.row_states.values():
        return
    count, others = source.shape.total_rows, row_names(source)
    if count != rows or not (names is None or others is None or Ids(names) == Ids(others)):
        found = f"{count:,} rows" if count != rows else "rows with other names"
        raise ShapeError(
            f"{what}: data of {found}, but {type(model).__name__} was trained on {rows:,} rows, "
            "and what it scores are further entries of the same rows, in the same order. Pass a "
            "file of ratings (kind: ratings), whose ids put it in order, hold out entries of one "
            "(by: entries), or evaluate nothing (data.eval: null)."
        )


def block_shapes(
    model: Model,
    shape: BlockShape,
    side: int,
    training: Sequence[BlockShape],
    restored: State | None,
) -> list[BlockShape]:
    """Shapes of the blocks of each side that `model` has, where `shape` is that of `side`.

    training: of the training data, where there are any. restored: whose row state tells how many
    rows and columns there were.
    """
    saved = {} if restored is None else restored.tensors
    known = {of: len(saved[name]) for name, of in model.row_states.items() if name in saved}
    if 1 not in model.row_states.values():
        rows = training[0].total_rows if training else known.get(0, shape.total_rows)
        return [replace(shape, total_rows=rows)]
    if len(training) == 2:
        return list(training)
    rows, columns = shape.total_rows, shape.columns
    if side == 1:
        rows, columns = columns, rows
    rows, columns = known.get(0, rows), known.get(1, columns)
    found = [
        BlockShape(shape.rows, m, 1, n, dense=shape.dense)
        for n, m in [(rows, columns), (columns, rows)]
    ]
    found[side] = replace(found[side], nnz=shape.nnz)
    return found
