"""Some rows of the user's data, and sources that cut them into blocks as a check needs them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from blocklearn.datasources import BlockShape, HostBlock, Reading, TwoSidedSource, target_names
from blocklearn.datasources.source import check_request
from blocklearn.models import Model

from ..training.inputs.data import check_labelled, open_source

LEAST = 8
"""Rows of the smallest sample: three blocks, the last of which is not full."""

POISON = 7e7
"""Stands in a block wherever no number of the data does, until the block is finished."""


@dataclass(frozen=True)
class Sample:
    """Rows of data in memory.

    - X: float32 [rows x columns], CSR or dense.
    - Y: float32 [rows x targets], or None.
    - weights: float32 [rows], or None.
    - names, target_names: of the columns of X and Y, or None.
    - two_sided: whether the data come in both orientations.
    """

    X: Any
    Y: NDArray[np.float32] | None
    weights: NDArray[np.float32] | None
    names: Sequence[str] | None
    target_names: Sequence[str] | None
    two_sided: bool

    @property
    def rows(self) -> int:
        """Of all data."""
        return int(self.X.shape[0])

    def first(self, rows: int) -> Sample:
        """Return its first rows."""
        return replace(
            self,
            X=self.X[:rows],
            Y=None if self.Y is None else self.Y[:rows],
            weights=None if self.weights is None else self.weights[:rows],
        )

    def emptied(self, start: int, end: int) -> Sample:
        """Return it without any entry of X in the rows from start to end."""
        keep = np.ones((self.rows, 1), np.float32)
        keep[start:end] = 0.0
        if sp.issparse(self.X):
            X = sp.csr_array(self.X.multiply(keep))
            X.eliminate_zeros()
            return replace(self, X=X)
        return replace(self, X=self.X * keep)

    def transposed(self) -> Sample:
        """Columns as rows; targets and weights are of rows, and stay behind."""
        X = sp.csr_array(self.X.T) if sp.issparse(self.X) else self.X.T
        return Sample(X, None, None, None, None, False)


def take_sample(model: Model, data: Any, rows: int) -> Sample:
    """Take the first `rows` rows of what a `Learner` takes as data.

    Raises:
        ValueError: there are too few rows.
        ShapeError: the model needs targets, and there are none.
    """
    source = open_source(data, Reading(rows), model)
    check_labelled(model, source, "check_model")
    shape, block = source.shape, HostBlock(source.shape, indexed=False)
    found: list[tuple[Any, Any, Any]] = []
    for index in range(source.blocks):
        source.read(0, index, block)
        found.append(_copied(block))
        if sum(len(weights) for _, _, weights in found) >= rows:
            break
    stack = np.concatenate if shape.dense else sp.vstack
    X, Y, weights = zip(*found, strict=True)
    sample = Sample(
        stack(X) if shape.dense else sp.csr_array(stack(X)),
        np.concatenate(Y) if shape.targets else None,
        np.concatenate(weights) if shape.weighted else None,
        source.names,
        target_names(source),
        isinstance(source, TwoSidedSource),
    ).first(rows)
    if sample.rows < LEAST:
        raise ValueError(
            f"check_model: rows={sample.rows}: must be at least {LEAST}. Pass more rows of data."
        )
    return sample


def _copied(block: HostBlock) -> tuple[Any, Any, Any]:
    """X, Y and weights of the true rows of a block."""
    rows, nnz = block.rows, block.nnz
    if block.shape.dense:
        X: Any = block.dense[:rows].copy()
    else:
        csr = (block.values[:nnz].copy(), block.indices[:nnz].copy(), block.indptr[: rows + 1])
        X = sp.csr_array((*csr[:2], csr[2].copy()), (rows, block.shape.columns))
    return X, block.targets[:rows].copy(), block.weights[:rows].copy()


class SampleSource:
    """A sample in blocks of given sizes, in order. All else in a block is poisoned.

    sizes: true rows of each block. rows: of every block, padding included.
    """

    fingerprint = "0" * 16

    def __init__(self, sample: Sample, sizes: Sequence[int], rows: int) -> None:
        """See the class."""
        self.sample, self.names, self.target_names = sample, sample.names, sample.target_names
        self._bounds = np.cumsum([0, *sizes])
        dense = not sp.issparse(sample.X)
        nnz = 0
        if not dense:
            nnz = max(int(n) for n in np.diff(sample.X.indptr[self._bounds]))
        self.shape = BlockShape(
            rows,
            sample.X.shape[1],
            nnz,
            sample.rows,
            dense=dense,
            targets=0 if sample.Y is None else sample.Y.shape[1],
            weighted=sample.weights is not None,
        )

    @property
    def blocks(self) -> int:
        """Of one pass."""
        return len(self._bounds) - 1

    def read(self, pass_: int, index: int, into: HostBlock) -> None:
        """Fill `into` with block `index`."""
        check_request(self, pass_, index, into.shape)
        into.write()
        start, end = (int(n) for n in self._bounds[index : index + 2])
        rows, sample = end - start, self.sample
        for array in (into.dense, into.values, into.targets, into.weights):
            array[...] = POISON
        into.row_ids[:rows] = np.arange(start, end)
        if self.shape.dense:
            into.dense[:rows] = sample.X[start:end]
        else:
            into.indices[...] = self.shape.columns - 1
            offsets = sample.X.indptr[start : end + 1]
            first, last = int(offsets[0]), int(offsets[-1])
            into.indptr[: rows + 1] = offsets - first
            into.indices[: last - first] = sample.X.indices[first:last]
            into.values[: last - first] = sample.X.data[first:last]
        if sample.Y is not None:
            into.targets[:rows] = sample.Y[start:end]
        if sample.weights is not None:
            into.weights[:rows] = sample.weights[start:end]
        into.finish(pass_=pass_, index=index, rows=rows)


class TwoSidedSampleSource(SampleSource):
    """The same of data in both orientations."""

    def transposed(self) -> SampleSource:
        """Columns as rows, in blocks of as many true rows and as much padding."""
        turned, most = self.sample.transposed(), int(np.diff(self._bounds).max())
        return SampleSource(turned, sizes_of(turned.rows, most), self.shape.rows)


def sizes_of(total: int, rows: int) -> list[int]:
    """Sizes of full blocks of `rows` rows, and of the rest.

    >>> sizes_of(7, 3)
    [3, 3, 1]
    """
    return [end - start for start, end in pairwise([*range(0, total, rows), total])]


def in_blocks(sample: Sample, sizes: Sequence[int], rows: int) -> SampleSource:
    """Make the source of a sample, in as many orientations as its data have."""
    kind = TwoSidedSampleSource if sample.two_sided else SampleSource
    return kind(sample, sizes, rows)
