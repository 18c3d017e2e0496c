"""Take the state of a run from its replicas, and give it back to them.

The state is copied as it is, without computing anything. So a run that stops after any block and
continues gives the same bits as one that never stopped. To read parameters, use `Team.exact`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from blocklearn.matcache import Mat, ShapeError
from blocklearn.models import RowStore, TokenState

from ...engines.combine import combined
from ...engines.row_pieces import PartedRows
from ...engines.rows import take_own
from ..replicas.names import OPTIMIZER
from ..replicas.paged_tables import Pages, give_pages
from ..settings.progress import Best, Progress
from ..teams.team import Team
from .state import State, name_in, replicas_of


def take(
    team: Team,
    rows: Mapping[str, Any],
    progress: Progress,
    *,
    copy: bool,
    into: State | None = None,
) -> State:
    """Return the state of `team`, with `rows` as the state of rows.

    copy: False takes the arrays of `team` itself, which training will change. Tables that lie apart
        are then its `pages`; those in files always are.
    into: an earlier state, whose arrays receive the copies, also of `rows`.
    """
    paused = team.paused()
    pages = None if team.first.files is None else team.first.files.kept()
    placed = () if pages is None else pages.tables
    late = None if pages is None or copy or team.owned is None else LatePages(team, pages)
    tensors: dict[str, Any] = {name_in(i, name): array for i, name, array in _learnt(team, placed)}
    if pages is not None and copy and not pages.lasting:
        tensors |= {name: pages.by_column(name) for name in placed}
        pages = None
    given = {} if into is None else into.tensors
    if copy:
        tensors = {name: _copied(array, given.get(name)) for name, array in tensors.items()}
    if into is not None:
        rows = {name: _copied(array, given.get(name)) for name, array in rows.items()}
    tensors |= rows
    pass_, block = progress.position
    position = {
        "pass": pass_,
        "block": block,
        "rows": progress.rows,
        "seconds": progress.seconds,
        "optimizers": paused,
        "best": None if progress.best is None else asdict(progress.best),
    }
    return State(tensors, position, pages=late or pages)


@dataclass(frozen=True)
class LatePages:
    """The `Pages` of a state whose rows belong to several workers: all get them when it is read."""

    team: Team
    kept: Pages

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """See `Pages`."""
        return self.kept.shapes

    def parts(self) -> Iterator[tuple[np.ndarray[Any, Any], Mapping[str, np.ndarray[Any, Any]]]]:
        """See `Pages`."""
        self.team.gather()
        yield from self.kept.parts()


def _learnt(team: Team, but: Collection[str]) -> Iterator[tuple[int, str, np.ndarray[Any, Any]]]:
    """Yield number, name and contents on the host of each learned Mat, but of some names.

    If replicas are apart, these are the Mats of all replicas of all workers, else of the first one.
    """
    if team.apart and team.crew.size > 1:
        with team.crew.ordered("state"):
            for i, replica in enumerate(team.replicas):
                for name, mat in replica.learned.mats().items():
                    own = _shown(mat)
                    for rank, array in enumerate(team.crew.pooled(own)):
                        yield i * team.crew.size + rank, name, array.reshape(own.shape)
        return
    for number, replica in enumerate(team.replicas[: None if team.apart else 1]):
        for name, mat in replica.learned.mats().items():
            if name not in but:
                yield number, name, _shown(mat)


def give(state: State, team: Team, stores: Mapping[str, RowStore]) -> None:
    """Set `team` and the state of rows to `state`.

    If the state has `pages`, tables must have their initial values. A state of another number of
    replicas, which are apart, is merged first.

    Raises ShapeError if an array is missing or of another size.
    """
    if replicas_of(state.tensors) not in (1, team.total):
        state = replace(state, tensors=_merged(state.tensors))
    begun = team.first.trains and any(state.position.get(each) for each in ("pass", "block"))
    for name in stores.keys() - state.fresh - state.tensors.keys():
        of_rows = team.first.model.states[name]
        if of_rows.saved:
            raise ShapeError(f"restore: the state has no row state {name!r}.")
        if begun and isinstance(of_rows, TokenState):
            raise ShapeError(
                f"restore: the state has no {name!r}, which this model keeps for each token. "
                "Continue with the settings that the state was trained with, such as "
                "assignments=fresh."
            )
    _check_sizes(state, team, stores)
    for name, store in stores.items():
        if name not in state.fresh and name in state.tensors:
            found = state.tensors[name]
            if isinstance(found, PartedRows) or found.shape != store.shape:
                take_own(team.first.model.states[name], store, found)
            elif store.array is not found:
                np.copyto(store.array, found)
            store.changed()
    paused = _paused(state.position)
    paged = () if state.pages is None else state.pages.shapes
    for number, replica in team.numbered():
        free = {*paged, *replica.model.unsaved}
        for name, mat in replica.learned.mats().items():
            own = name_in(number, name)
            own = own if own in state.tensors else name
            if own not in state.tensors:
                if not (name in free or name.startswith(OPTIMIZER)):
                    raise ShapeError(f"restore: the state has no parameter {name!r}.")
            elif replica.files and name in replica.files.tables:
                replica.files.restore(name, state.tensors[own])
            elif mat.slot.array is not state.tensors[own]:  # else it is lent
                mat.set(state.tensors[own])
        if state.pages is not None:
            give_pages(state.pages, replica)
        for name in replica.files.tables if replica.files else ():
            mat = replica.learned.mats()[name]
            mat.slot.written(mat.slot.where)  # results of the old numbers are outdated
            mat.follow()
        if replica.optimizer is not None and not all("steps" in each for each in paused):
            raise ShapeError(
                "restore: the state lacks the optimizer's number of steps, which training needs."
            )
    team.resume(paused)
    for replica in team.replicas:
        replica.refresh()  # a device has a copy of the state of rows
    team.given(apart=replicas_of(state.tensors) > 1)


def _merged(tensors: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
    """Return tensors of replicas that are apart as a complete merge leaves them.

    Only means are apart. All else is the same in all replicas already.
    """
    found, count = dict(tensors), replicas_of(tensors)
    for name in [name for name in found if name_in(1, name) in found]:
        parts = [found.pop(name_in(number, name)) for number in range(count)]
        first = parts[0]
        if any(part.tobytes() != first.tobytes() for part in parts):
            flat = combined("mean", [part.reshape(-1) for part in parts], None, 1.0)
            first = flat.reshape(first.shape)
        found[name] = first
    return found


def _check_sizes(state: State, team: Team, stores: Mapping[str, RowStore]) -> None:
    """Raise ShapeError if the sizes of `state` do not fit the data of `team`."""
    shapes = team.first.shapes
    wanted = {name: team.first.model.states[name].shape for name in stores}
    wanted |= {name: mat.shape for name, mat in team.first.learned.mats().items()}
    paged = {} if state.pages is None else state.pages.shapes
    for name, shape in wanted.items():
        known = paged.get(name, shape)
        found = state.tensors[name].shape if name in state.tensors else known
        if found != shape and not (name in stores and found == stores[name].shape):
            raise ShapeError(
                f"data of {shapes.total_rows:,} rows and {shapes.columns:,} columns, but the model "
                f"was trained on other data: its {name} has the shape {found}, and these need "
                f"{shape}. Rows are samples, columns features: check the orientation."
            )


def set_progress(state: State, progress: Progress) -> None:
    """Set `progress` to the position of `state`."""
    position = state.position
    progress.pass_ = int(position.get("pass", 0))
    progress.block = int(position.get("block", 0))
    progress.finite = (progress.pass_, progress.block)
    progress.rows = int(position.get("rows", 0))
    progress.seconds = float(position.get("seconds", 0.0))
    best = position.get("best")
    progress.best = None if best is None else Best(**best)


def _paused(position: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the pause of the optimizer of each replica.

    Positions of version 1, taken after whole passes, have only the steps of each; those of models
    have nothing.
    """
    if "optimizers" in position:
        return list(position["optimizers"])
    steps, phase = position.get("steps", 0), position.get("phase", 0)
    counts = steps if isinstance(steps, list) else [steps]
    return [{"steps": count, "phase": phase} for count in counts]


def _copied(array: np.ndarray[Any, Any], into: np.ndarray[Any, Any] | None) -> np.ndarray[Any, Any]:
    if into is None:
        return array.copy()
    np.copyto(into, array)
    return into


def _shown(mat: Mat) -> np.ndarray[Any, Any]:
    found: np.ndarray[Any, Any] = mat.cache.backend.host(mat.slot.data())
    return found
