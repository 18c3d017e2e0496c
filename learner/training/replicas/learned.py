"""What a replica has learned: parameters, and the state of the optimizer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklearn.matcache import Mat, Merge
from blocklearn.models import Model
from blocklearn.optimizers import Optimizer

from ...files.placed_tables import PlacedTables
from ...files.table_files import TableFiles
from .names import OPTIMIZER


class Learned:
    """The learned numbers of a replica: their names, their merges, and when they are exact.

    Within a pass parameters may be inexact: an optimizer may owe steps to rows that do not occur.
    """

    def __init__(
        self, model: Model, optimizer: Optimizer | None, files: PlacedTables | None, columns: int
    ) -> None:
        """files: keep the tables that have `columns` rows; None: they lie with the other memory."""
        self._model, self._optimizer = model, optimizer
        self._files = files if isinstance(files, TableFiles) else None
        self._columns = columns
        self._copies: dict[int, list[NDArray[Any]]] = {}  # free ones, by the GUID of their Mat

    def mats(self) -> dict[str, Mat]:
        """Return all learned Mats by name: parameters and optimizer state."""
        found = dict(self._model.parameters)
        if self._optimizer is not None:
            found |= {f"{OPTIMIZER}{name}": mat for name, mat in self._optimizer.state.items()}
        return found

    def rule(self, name: str) -> Merge:
        """Return how replicas combine the Mat `name`."""
        if self._optimizer is None:
            return self._model.rules[name].merge
        if name.startswith(OPTIMIZER):
            return self._optimizer.merge_rule(name.removeprefix(OPTIMIZER))
        return "same" if self._optimizer.steps_by_pass else self._model.rules[name].merge

    def merged(self) -> Iterator[tuple[Merge, Mat]]:
        """Yield the rule by which replicas combine each learned Mat, and the Mat."""
        return ((self.rule(name), mat) for name, mat in self.mats().items())

    def pause(self) -> dict[str, Any]:
        """Return what `resume` needs beside the Mats, in values for JSON."""
        return {} if self._optimizer is None else self._optimizer.pause()

    def resume(self, paused: Mapping[str, Any]) -> None:
        """Continue from a `pause` that returned `paused`; the Mats are set already."""
        self._model.resumed()
        if self._optimizer is not None:
            self._optimizer.resume(paused)

    def settle(self) -> None:
        """Make the whole of the parameters exact for readers other than training."""
        self._model.settle()
        if self._optimizer is not None:
            self._optimizer.settle()

    @contextmanager
    def exact(self, *, whole: bool = False) -> Iterator[None]:
        """Make parameters exact in a `with` statement; later training is the same.

        whole: whether the parameters may also be changed within it.
        """
        paused = self.pause()
        kept = self._unsettled()
        if whole:
            kept += self._model.parameters.values()
        tables = self._files if kept else None
        with nullcontext() if tables is None else tables.settled():
            before = [(mat, self._copy(mat)) for mat in {mat.guid: mat for mat in kept}.values()]
            with nullcontext() if tables is not None else self.refreshed():
                self.settle()
            try:
                yield
            finally:
                for mat, array in before:
                    mat.set(array)
                    self._copies[mat.guid].append(array)
                if before:
                    self.resume(paused)

    def _unsettled(self, *, ever: bool = False) -> list[Mat]:
        """Return the Mats to restore after `settle`: see `Optimizer.unsettled`."""
        found = self._model.unsettled(ever=ever)
        return found if self._optimizer is None else found + self._optimizer.unsettled(ever=ever)

    def refreshed(self) -> AbstractContextManager[None]:
        """Return the change of tables in files by `settle` that is not undone."""
        if self._files is None or self._optimizer is None or not self._optimizer.derives:
            return nullcontext()
        return self._files.refreshed()

    def _copy(self, mat: Mat) -> NDArray[Any]:
        """Copy the contents of `mat` to memory, or to a file, that is allocated once."""
        free, array = self._copies.setdefault(mat.guid, []), mat.shown()
        if free:
            room = free.pop()
        elif self._files is not None and mat.shape[0] == self._columns:
            room = self._files.room_like(array)
        else:
            room = np.empty_like(array)
        np.copyto(room, array)
        return room

    def copied(self, *, apart: bool) -> list[Mat]:
        """Return the Mats that `exact` may have to copy.

        apart: whether replicas may differ.
        """
        found = self._unsettled(ever=True)
        if apart:
            found += self._model.parameters.values()
        return list({mat.guid: mat for mat in found}.values())
