"""Make the stores of the states of rows: in memory, in files, or where a saved model lies."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from blocklearn.models import RowStore
from blocklearn.models.states.row_share import RowShare

from ...files.row_folder import RowFolder
from ...files.state_pages import StatePages
from ..teams.team import Team
from .state import State


def make_stores(
    team: Team,
    folder: RowFolder | None,
    shares: Mapping[str, RowShare],
    *,
    seed: int,
    restored: State | None,
) -> dict[str, RowStore]:
    """Make a store for each state of rows, and connect it to all replicas.

    It has the rows of this worker; all rows, if the model reads them as a table.

    Raises the errors of `RowFolder.take` and `RowFolder.new`.

    folder: for files of the states; None: they are kept in memory.
    shares: of this worker, by the name of the state.
    restored: a state that they will be set to; None: their initial values are drawn. If the team
        does not train, stores use its arrays, without a copy.
    """
    if folder is not None and team.first.model.states:
        folder.take()
    stores = {}
    for stream, (name, state) in enumerate(team.first.model.states.items()):
        share = shares[name]
        whole = team.first.has_whole(name, share)
        shape = state.shape if whole else state.stored(share)
        lent = None if team.first.trains or restored is None else restored.tensors.get(name)
        if isinstance(lent, np.ndarray) and (lent.shape, lent.dtype) == (state.shape, state.dtype):
            stores[name] = RowStore.of(lent)
        elif folder is None:
            stores[name] = RowStore(*shape, state.dtype)
        else:
            array = folder.new(name, *shape, state.dtype)
            stores[name] = RowStore.of(array)
            stores[name].pages = StatePages(name, array, folder.watched[-1])
        if restored is None or name in restored.fresh or name not in restored.tensors:
            stores[name].draw(state.init, seed, stream, None if whole else share)
    for replica in team.replicas:
        replica.connect(stores, shares)
        replica.watched = () if folder is None else folder.watched
    return stores
