"""Give the other workers the state from which the leader continues."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklearn.models import RowStore

from ...engines.crew import Crew
from ...engines.row_pieces import PartedRows, Rows
from ...engines.rows import hand_out
from ...storage.page_logs import PageLogs, open_logs
from ...storage.row_parts import Seal, open_parts
from ..replicas.paged_tables import Pages
from ..teams.team import Team
from .state import State


def shared(
    state: State | None, team: Team, stores: Mapping[str, RowStore], kept: Mapping[str, Rows]
) -> State | None:
    """Return the state of the worker that leads; None: it has none.

    Its `pages` are logs that all workers see. Else they come while the others set their tables to
    them, and the leader sends them here.

    state: of this worker. stores: take the states of rows that other workers receive.
    kept: states of this worker's rows, where the leader has its own only.
    """
    crew, states = team.crew, team.first.model.states
    head: dict[str, Any] | None = None
    if crew.leads and state is not None:
        tensors = {name: (array.shape, array.dtype.str) for name, array in state.tensors.items()}
        fresh = sorted(state.fresh)
        sealed = [each.source for each in state.tensors.values() if isinstance(each, PartedRows)]
        sealed += [state.pages.seal] if isinstance(state.pages, PageLogs) else []
        seal = sealed[0] if sealed else None
        head = {"position": state.position, "tensors": tensors, "fresh": fresh, "seal": seal}
        head["pages"] = None if state.pages is None else state.pages.shapes
    head = crew.told(head)
    if head is None:
        return None
    parts, logs = _opened(head["seal"], crew)
    for name, rows in kept.items():
        np.copyto(stores[name].array, rows)
        stores[name].changed()
    if state is None or not crew.leads:
        shapes = head["pages"]
        pages: Pages | None = logs
        if pages is None and shapes is not None:
            pages = _ComingPages(crew, {name: tuple(shape) for name, shape in shapes.items()})
        state = State({}, head["position"], frozenset(head["fresh"]), pages)
        for name, (shape, dtype) in head["tensors"].items():
            room = stores[name].array if name in stores else np.empty(shape, dtype)
            fits = room.shape == tuple(shape) or (name in stores and not states[name].whole)
            state.tensors[name] = room if fits else np.empty(shape, dtype)
    for name, array in state.tensors.items():
        if name in parts:
            state.tensors[name] = parts[name]
        elif name not in stores or states[name].whole:
            crew.spread(array.whole() if isinstance(array, PartedRows) else array)
        elif tuple(head["tensors"][name][0]) == states[name].shape:
            hand_out(states[name], array if crew.leads else None, crew)
    if crew.leads and state.pages is not None and logs is None:
        _send_pages(state.pages, crew)
    return state


def _opened(seal: Any, crew: Crew) -> tuple[dict[str, PartedRows], PageLogs | None]:
    """Return the parts and the logs of a checkpoint that all workers see; else none.

    seal: of the checkpoint; None: it has neither.
    """
    if seal is None or not all(crew.gather(Seal(*seal).fits())):
        return {}, None
    sealed = Seal(*seal)
    manifest = json.loads(Path(sealed.path).read_bytes())
    return open_parts(sealed, manifest), open_logs(sealed, manifest)


def _send_pages(pages: Pages, crew: Crew) -> None:
    """Send all parts, while the other workers read `_ComingPages`. Called by the leader."""
    for columns, tables in pages.parts():
        crew.told([len(columns), {name: rows.dtype.str for name, rows in tables.items()}])
        for array in (columns, *tables.values()):
            crew.spread(np.ascontiguousarray(array))
    crew.told([0, {}])


@dataclass(frozen=True)
class _ComingPages:
    """The `Pages` that the leader sends. They are read once, at the same time by all others."""

    crew: Crew
    shapes: Mapping[str, tuple[int, ...]]

    def parts(self) -> Iterator[tuple[NDArray[np.int64], dict[str, NDArray[Any]]]]:
        """Receive columns of the data, and their rows of each table: see `Pages`."""
        while True:
            count, dtypes = self.crew.told()
            if not dtypes:
                return
            columns = np.empty(count, np.int64)
            tables = {
                name: np.empty((count, *self.shapes[name][1:]), dtype)
                for name, dtype in dtypes.items()
            }
            for array in (columns, *tables.values()):
                self.crew.spread(array)
            yield columns, tables
