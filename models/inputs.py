"""What the learner passes to models: sizes of the data, blocks, random numbers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from blocklearn.matcache import (
    Draws,
    Mat,
    MatCache,
    Matrix,
    Rows,
    SparseMat,
    Table,
    Tables,
    cpu,
    named,
    random,
)

__hands_on__ = True  # a matrix is named where the model asks for it, see `source_line`


class LabelCounts(NamedTuple):
    """Sums of weights and targets over all training rows.

    weight: sum of the rows' weights.
    sums: [targets], weighted sums of the targets.
    """

    weight: float
    sums: Sequence[float]


class ValueSums(NamedTuple):
    """The sum and the number of all stored values of the training rows."""

    total: float
    number: int


class ValueMoments(NamedTuple):
    """Moments of all stored values of the training data.

    number: of the values.
    std: standard deviation.
    magnitude: mean of the absolute values.
    """

    number: int
    std: float
    magnitude: float


class Setting(NamedTuple):
    """Where a replica works, as far as it matters to `allocate`.

    trains: False: `update` is never called.
    few_occur: whether most columns of the data occur in no single block.
    lent: names of the parameters that lie in the file of a saved model.
    rows_in_files: tables of so many rows lie in files, and are drawn row by row; None: none do.
    elsewhere: whether several workers have the rows of these tables, and bring blocks those that
        they read: see `AtRest.known`.
    """

    trains: bool = True
    few_occur: bool = False
    lent: Collection[str] = ()
    rows_in_files: int | None = None
    elsewhere: bool = False


class Needs(NamedTuple):
    """What `allocate` needs to know of the training data beforehand.

    counts: whether it needs `shapes.counts`, at the cost of a pass.
    value_sums: whether it needs `shapes.value_sums`, at the cost of a pass.
    tokens: how many tokens `shapes.tokens` may number, at the cost of a pass; 0: none.
    sample: how many rows it gets as `shapes.sample`; 0: none.
    initial: whether counts and sums serve initial numbers alone. Then a model that is trained
        further on other data needs no new plan for them.
    """

    counts: bool = False
    value_sums: bool = False
    tokens: int = 0
    sample: int = 0
    initial: bool = False


class Sample(NamedTuple):
    """Some rows of the training data, from all of its parts.

    X: float32 [rows x columns], CSR or dense.
    weights: float32 [rows], 1 where the data have none.
    """

    X: NDArray[np.float32] | sp.csr_array
    weights: NDArray[np.float32]


@dataclass(frozen=True)
class Shapes:
    """Sizes and facts of the data, for `allocate`.

    rows: of a block, padding included.
    columns: features.
    total_rows: rows of one pass.
    targets: columns of block.Y; 0 where the data have none.
    names: of the columns of X; None where unknown.
    target_names: of the columns of Y; None where unknown.
    passes: planned in all.
    counts: if the model `needs` them and training data exist, else None.
    sides: 2 where a pass visits the rows and then the columns of the data; 1 where the data offer
        rows only.
    value_sums: if the model `needs` them and training data exist, else None.
    dense: whether X is dense.
    of_rows: rows of the whole data, where they are trained on part by part; see `whole_rows`.
    tokens: int64 [total_rows + 1], the tokens before each row and in all, if the model
        `needs` them and training data exist that have as many at most; else None.
    why_no_tokens: why the training data have none.
    restored: names of the parameters whose values a saved state replaces after `allocate`.
    sample: about `needs.sample` rows of training data; None where the model needs none, where
        there are no data, and where training resumes.
    on_gpu: whether the model computes on a GPU, which takes one row after another slowly.
    states_in_files: whether states of rows lie in files, which are read fastest row after row.
    rows_by_need: whether other workers have states of rows, too, and can bring a block those that
        occur in it.
    """

    rows: int
    columns: int
    total_rows: int
    targets: int = 0
    names: Sequence[str] | None = None
    target_names: Sequence[str] | None = None
    passes: int = 1
    counts: LabelCounts | None = None
    sides: int = 1
    value_sums: ValueSums | None = None
    dense: bool = False
    of_rows: int | None = None
    tokens: NDArray[np.int64] | None = None
    why_no_tokens: str = ""
    restored: Collection[str] = ()
    sample: Sample | None = None
    on_gpu: bool = False
    states_in_files: bool = False
    rows_by_need: bool = False

    @property
    def whole_rows(self) -> int:
        """Rows of the whole data: `of_rows` where it is given, else those of one pass."""
        return self.of_rows or self.total_rows


@dataclass(frozen=True)
class Block:
    """The rows that `update`, `score` and `predict` receive.

    X: [shapes.rows x columns], SparseMat or Mat; rows from `rows` on are padding, all zero.
    rows: number of true rows.
    row_ids: int64 [shapes.rows x 1], numbers of the rows in their source, -1 for padding.
    key: int64 [1 x 3], (seed, pass, block): the key for random numbers.
    Y: [shapes.rows x shapes.targets], targets, 0 in padding; None where the data have none
        (`predict` never needs them).
    weights: [shapes.rows x 1], weights of the rows: 1 where none are given, 0 for padding.
    pass_: number of the pass, from 0.
    phase: number of the phase that the pass belongs to, from 0: see `Model.phases`.
    weight: sum of `weights`, which changes from block to block.
    side: 0; or 1 where the rows are columns of the data (see `Model.row_states`).
    resting: whether rows of parameters may be out of date that do not occur in the block, where it
        is scored before training on it: `Model.column_sums` are up to date.
    whole_rows: rows of the whole data: see `Shapes.whole_rows`. They may become more from one pass
        to the next.
    """

    X: Matrix
    rows: int
    row_ids: Mat
    key: Mat
    Y: Rows
    weights: Mat
    pass_: int = 0
    weight: float = 0.0
    side: int = 0
    phase: int = 0
    resting: bool = False
    whole_rows: int = 1

    def reading(self, tables: Tables) -> Block:
        """Return the block with an X that reads tables in that precision, if it is sparse."""
        if not isinstance(self.X, SparseMat):
            return self
        return replace(self, X=self.X.reading(tables))


def one_or_more(rows: int) -> int:
    """Return `rows` of a block, or 1: it may have none, where others are held out.

    It stays a formula, where a comparison, as in `max`, would read the number.

    >>> [one_or_more(rows) for rows in (0, 1, 8)]
    [1, 1, 8]
    """
    none: int = 0**rows
    return rows + none


ROOM = 2**17  # numbers that a kernel makes at a time


@dataclass(frozen=True)
class Drawn:
    """Initial numbers of a parameter whose rows may be made one by one: see `Randomness.drawn`.

    table: all rows, as an expression or in NumPy; a number: all rows, before they are set.
    rows: makes the rows of these numbers, float32, equal to those of the table to rounding.
    """

    table: Table | NDArray[np.float32] | float
    rows: Callable[[NDArray[np.int64]], NDArray[np.float32]]


def by_kernel(make: Callable[[Table], Table], numbers: NDArray[np.float32]) -> None:
    """Replace numbers [rows x columns] by what a kernel makes of them, element by element."""
    with closing(MatCache(threads=1)) as cache:
        room = named(cache, "numbers", (1, ROOM))
        room <<= 0.0
        flat = numbers.reshape(-1)
        for start in range(0, flat.size, ROOM):
            some = flat[start : start + ROOM]
            room.shown()[0, : some.size] = some
            found = named(cache, "made", (1, ROOM))
            found <<= make(room)
            some[:] = found.shown()[0, : some.size]


class Randomness:
    """Draws random tables for `allocate`, each call from a stream of its own."""

    def __init__(self, cache: MatCache, seed: int) -> None:
        """cache: where the tables will live. seed: also for random numbers of NumPy."""
        self.seed = seed
        self._cache = cache
        self._key = named(cache, "key of initial values", (1, 3), np.int64)
        self._numbers = np.array([[seed, 2**31 - 1, 0]])  # a pass that no training reaches
        self._key.set(self._numbers)
        self._stream = 0

    def uniform(self, rows: int, columns: int) -> Table:
        """Return uniform numbers in (0, 1) as an expression [rows x columns], not stored."""
        self._stream += 1
        return random(self._cache, (rows, columns), self._key, self._stream)

    def drawn(
        self, rows: int, columns: int, make: Callable[[Table], Table], *, fused: bool = False
    ) -> Drawn:
        """Return initial numbers of a parameter whose rows may be made one by one.

        make: computes them from uniform numbers, element by element.
        fused: whether it adds products: kernels may round a product and a sum at once.
        """
        table, stream = make(self.uniform(rows, columns)), self._stream

        def some(numbers: NDArray[np.int64]) -> NDArray[np.float32]:
            uniform = np.empty((len(numbers), columns), np.float32)
            cpu.uniform_rows(self._numbers, stream, numbers, uniform)
            if not fused:
                return np.asarray(make(uniform), np.float32)
            by_kernel(make, uniform)
            return uniform

        return Drawn(table, some)

    def normal(self, rows: int, columns: int) -> Table:
        """Return normal numbers with mean 0 and variance 1 as an expression, not stored."""
        self._stream += 1
        return Draws(self._key).normal((rows, columns), stream=self._stream)
