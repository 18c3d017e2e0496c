"""Bind the arrays of host blocks to containers of a cache."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from blocklearn.datasources import BlockShape, DataError, DataSource, HostBlock, MatrixSource
from blocklearn.datasources.arrays.validate import not_negative
from blocklearn.datasources.source import readers_of
from blocklearn.matcache import DenseInput, Mat, MatCache, ShapeError, SparseInput
from blocklearn.matcache.containers.inputs import BUFFERS
from blocklearn.matcache.containers.slots import Slot
from blocklearn.matcache.errors import source_line
from blocklearn.matcache.operations.local import few_occur
from blocklearn.matcache.program.padding import Padding
from blocklearn.models import Block
from blocklearn.models.states.row_state import RowState
from blocklearn.models.states.token_state import TokenState

from .all_rows import AllRows, bytes_of

Use = Literal["train", "score", "predict"]
USES: tuple[Use, ...] = ("train", "score", "predict")
DEVICE_READERS = 4  # threads that gather rows of a matrix for devices
TRAINED_AHEAD = 2  # blocks that each of several replicas has: one at work, one that waits


def lent(use: Use, replicas: int, workers: int) -> int:
    """Return how many blocks a reader lends to the replicas of a worker at a time."""
    return replicas * TRAINED_AHEAD if use == "train" and replicas * workers > 1 else replicas


def readers_for(source: DataSource, device: str) -> int:
    """Return how many threads read blocks of a source for training on a device, or on "cpu".

    A device works through a block faster than one thread gathers and indexes rows in memory; on the
    CPU the threads of the model do other work meanwhile.
    """
    if device != "cpu" and isinstance(source, MatrixSource):
        return DEVICE_READERS
    return readers_of(source)


class Intake:
    """Holds the containers of a block's features, row numbers, weights and targets.

    side: see `Block`.
    labelled: whether the present block has targets.
    data_bytes: of the true rows of the present block.
    all_rows: where blocks of training take their rows from; None: they bring them.
    indexed_for: the uses of a block that read its transposed index; `note` fills it.
    indexed_phases: the phases of the model whose updates read it, likewise.
    """

    def __init__(self, cache: MatCache, shape: BlockShape, side: int, whole_rows: int) -> None:
        """Make the containers, without contents. whole_rows: see `Block`."""
        self.cache, self.shape, self.side, self.whole_rows = cache, shape, side, whole_rows
        self.numbers: dict[str, Any] = {}  # of the present block, that an update may read
        self.labelled, self.data_bytes = False, 0
        self.all_rows: AllRows | None = None
        self._where = source_line()  # of what blocks bring, for messages
        self.indexed_for: set[Use] = set()
        self.indexed_phases: set[int] = set()
        suffix = " (transposed)" if side else ""

        def dense(
            name: str, columns: int, dtype: Any = np.float32, copies: int = BUFFERS
        ) -> DenseInput:
            return DenseInput(cache, name + suffix, (shape.rows, columns), dtype, copies)

        copies = BUFFERS if shape.dense else 0
        self._row_ids = dense("row_ids", 1, np.int64, copies)
        self._weights = dense("weights", 1, np.float32, copies)
        self._Y = dense("Y", shape.targets) if shape.targets else None
        self._X: SparseInput | DenseInput
        if shape.dense:
            self._X = dense("X", shape.columns)
        else:
            self._X = SparseInput(
                cache, "X" + suffix, shape.rows, shape.columns, shape.nnz,
                beside=(self._row_ids, self._weights),
            )  # fmt: skip
            self._X.pattern.block = self._row_ids
        for part, number in (
            (self._row_ids, -1.0),
            (self._weights, 0.0),
            (self._Y, 0.0),
            (self._X, 0.0),
        ):
            if isinstance(part, DenseInput):
                part.slot.padding = Padding(self._row_ids, number)

    def blank(self, key: Mat, pass_: int = 0, phase: int = 0, *, full: bool = True) -> Block:
        """Return a block without contents, to plan memory with: another one at each call.

        full: whether its numbers are those of a full block, so that a model may divide by them;
            otherwise half of its rows are padding, and rows have weights.
        """
        key.refill(None, self._where)
        for part in (self._X, self._row_ids, self._weights, self._Y):
            if part is not None:
                part.renew()
        rows = self.shape.rows if full else max(1, self.shape.rows // 2)
        weight = float(rows if full else 0.5 * rows)
        numbers = {"rows": rows, "pass_": pass_, "weight": weight, "whole_rows": self.whole_rows}
        return self._block(key, numbers, phase, labelled=True)

    def begin(self, states: Iterable[RowState | TokenState]) -> None:
        """Tell states of rows, before a model reads them, that they are of the rows of a block."""
        for state in states:
            if state.side == self.side:
                state.begin(self._row_ids)

    @property
    def row_ids(self) -> Slot:
        """The container of the present row numbers [block rows x 1], -1 for padding."""
        return self._row_ids.slot

    @property
    def few_occur(self) -> bool:
        """Whether most columns occur in no row of a block."""
        return not self.shape.dense and few_occur(self.shape.nnz, self.shape.columns)

    def note(self, use: Use, phase: int = 0) -> None:
        """Record whether the plan of `use`, made since the last note, reads the index.

        Some blocks of training are scored, too, so they have room for what scores read.

        phase: of the model, whose updates were planned.
        """
        if isinstance(self._X, SparseInput):
            if self._X.pattern.turned and self._X.pattern.build is None:
                self.indexed_for.update(("score", "train") if use == "score" else (use,))
                self.indexed_phases.update([phase] if use == "train" else [])
            self._X.pattern.turned = False

    def reads_index(self, phase: int) -> bool:
        """Return whether updates in a phase of the model read the index."""
        return phase in self.indexed_phases

    def note_all(self) -> None:
        """Assume that every use reads the transposed index, since the plan is incomplete."""
        if isinstance(self._X, SparseInput) and self._X.pattern.build is None:
            self.indexed_for.update(USES)

    def hold(self, source: DataSource, left: int, *, features: bool) -> int:
        """Plan to keep the rows of training data on the device, as far as they fit.

        left: bytes that they may take.
        features: False: targets only.

        Returns the bytes that they take. Features stay where the device makes the index, or none is
        read. A source with a `read` of its own is read.
        """
        if type(source) is not MatrixSource or source.shape.targets != self.shape.targets:
            return 0
        for whole in (True, False):
            wanted = bytes_of(source, features=whole)
            may = features and "train" not in self.indexed_for if whole else source.shape.targets
            if may and wanted <= left:
                self.all_rows = AllRows(self.cache, source, self.side, features=whole)
                return wanted
        return 0

    def read_from(self, source: DataSource, use: Use) -> DataSource:
        """Return what readers must read: what does not stay on the device."""
        held = self.all_rows if use == "train" else None
        return source if held is None else held.others(source)

    def receive(self, host: HostBlock, rows: AllRows | None = None) -> None:
        """Use the arrays of `host` until the next block.

        rows: where the rest of its rows lies; None: it has everything.
        """
        if rows is None or not rows.features:
            self._refill(host)
        else:
            self._choose(host, rows)
        shape, where = host.shape if rows is None else rows.shape, self._where
        self.labelled = self._Y is not None and shape.targets > 0
        if self._Y is not None and self.labelled:
            if rows is None or rows.Y is None:
                self._Y.refill(host.targets, where)
            else:
                self._Y.choose(rows.Y, self.row_ids, where)
        weight = float(host.rows)
        if host.shape.weighted:
            weight = float(np.sum(host.weights, dtype=np.float64))
        self.numbers = {
            "rows": host.rows,
            "pass_": host.pass_,
            "weight": weight,
            "whole_rows": self.whole_rows,
        }
        self.data_bytes = shape.data_bytes(host.rows, host.nnz)

    def _refill(self, host: HostBlock) -> None:
        """Use the features, row numbers and weights of `host`."""
        where = self._where
        if isinstance(self._X, SparseInput):
            index = host.turned if host.has_index else None
            same = host.kept if host.has_index or not host.indexed else None  # it may get one later
            n, count = host.nnz, host.n_active
            beside = host.row_ids, host.weights
            self._X.refill(*host.csr, n, index, count, where, same, beside)
        else:
            self._X.refill(host.dense, where)
            self._row_ids.refill(host.row_ids, where)
            self._weights.refill(host.weights, where)

    def _choose(self, host: HostBlock, rows: AllRows) -> None:
        """Use the row numbers of `host`, and the features and weights of these rows."""
        ids, where = self.row_ids, self._where
        assert rows.weights is not None
        if isinstance(self._X, SparseInput):
            assert rows.matrix is not None
            self._X.choose(rows.matrix, host.row_ids, host.nnz, where)
            rows.weights.take(ids, self._weights.slot)
        else:
            assert rows.X is not None
            self._row_ids.refill(host.row_ids, where)
            self._X.choose(rows.X, ids, where)
            self._weights.choose(rows.weights, ids, where)

    def block(self, key: Mat, phase: int = 0) -> Block:
        """Return the block that was received last for a model, valid until the next."""
        return self._block(key, self.numbers, phase, labelled=self.labelled)

    def widen(self, shape: BlockShape) -> None:
        """Make room for blocks of another source.

        Raises ShapeError unless the rows per block, the columns, and the number of targets, if it
        has any, agree.
        """
        ours = self.shape
        if shape.dense != ours.dense and shape.columns == ours.columns:
            given, made = ("dense", "sparse") if shape.dense else ("sparse", "dense")
            raise ShapeError(
                f"the data are {given}: must be {made}, like those that the model was made for. "
                "Give " + ("scipy.sparse.csr_array(X)." if shape.dense else "X.toarray().")
            )
        if shape.columns != ours.columns:
            raise ShapeError(
                f"data of {shape.columns:,} columns, but the model was made for {ours.columns:,}. "
                "Rows are samples, columns features: check the orientation."
            )
        if shape.rows != ours.rows:
            raise ShapeError(
                f"data in blocks of {shape.rows:,} rows, but the model was made for blocks of "
                f"{ours.rows:,}; give all sources the same block_rows."
            )
        if shape.targets and ours.targets and shape.targets != ours.targets:
            raise ShapeError(
                f"data with {shape.targets:,} targets; this model has {ours.targets:,}. Pass "
                "the same columns of targets, in the same order."
            )
        if isinstance(self._X, SparseInput) and shape.nnz > self._X.pattern.capacity:
            frozen = self.cache.frozen
            self.cache.thaw()
            self.cache.grow(self._X.pattern, shape.nnz)
            if frozen:
                self.cache.freeze(frozen)
            self.shape = replace(ours, nnz=shape.nnz)

    def _block(self, key: Mat, numbers: dict[str, Any], phase: int, *, labelled: bool) -> Block:
        return Block(
            X=self._X.handle(),
            row_ids=self._row_ids.handle(),
            key=key,
            Y=self._Y.handle() if self._Y is not None and labelled else None,
            weights=self._weights.handle(),
            side=self.side,
            phase=phase,
            **numbers,
        )


def check_nonnegative(host: HostBlock) -> None:
    """Raise DataError, naming the smallest value of a block, if it is negative."""
    dense = host.shape.dense
    values = host.dense[: host.rows].reshape(-1) if dense else host.values[: host.nnz]
    if not_negative(values):
        return
    place = int(values.argmin())
    if host.shape.dense:
        row, column = divmod(place, host.shape.columns)
    else:
        row = int(np.searchsorted(host.indptr, place, side="right")) - 1
        column = int(host.indices[place])
    raise DataError(
        f"row {host.row_ids[row]}, column {column} is {values.flat[place]:g}, but this model takes "
        "no negative numbers."
    )
