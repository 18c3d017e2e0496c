"""Make the stores of the states of rows: in memory, in files, or where a saved model lies."""

from __future__ import annotations

from blocklearn.models import RowStore

from ..files.row_folder import RowFolder
from .state import State
from .team import Team


def make_stores(
    team: Team, folder: RowFolder | None, *, seed: int, restored: State | None
) -> dict[str, RowStore]:
    """Make a store for each state of rows, and connect it to all replicas.

    Raises the errors of `RowFolder.take` and `RowFolder.new`.

    folder: for files of the states; None: they are kept in memory.
    restored: a state that they will be set to; None: their initial values are drawn. If the team
        does not train, stores use its arrays, without a copy.
    """
    if folder is not None and team.first.model.states:
        folder.take()
    stores = {}
    for stream, (name, state) in enumerate(team.first.model.states.items()):
        lent = None if team.first.trains or restored is None else restored.tensors.get(name)
        if lent is not None and (lent.shape, lent.dtype) == (state.shape, state.dtype):
            stores[name] = RowStore.of(lent)
        elif folder is None:
            stores[name] = RowStore(*state.shape, state.dtype)
        else:
            stores[name] = RowStore.of(folder.new(name, *state.shape, state.dtype))
        if restored is None or name in restored.fresh or name not in restored.tensors:
            stores[name].draw(state.init, seed, stream)
    for replica in team.replicas:
        replica.connect(stores)
    return stores
