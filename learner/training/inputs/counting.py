"""Add up the data of training before the first pass, for models that begin with such sums."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from blocklearn.datasources import DataSource, HostBlock
from blocklearn.datasources.arrays.moments import weighted_sums
from blocklearn.datasources.source import RowLabels, labels_of, rows_last
from blocklearn.models import LabelCounts, ValueSums

log = logging.getLogger(__name__)
TOLD_SECONDS = 30.0  # between lines that say how much is read before training
MOST_TOKENS = 2**24
"""Above all counts of an entry: float32 holds whole numbers up to it."""


def count_labels(source: DataSource) -> LabelCounts:
    """Sum the rows' weights, and their weighted targets, over one pass.

    A source with `label_sums` knows them. Of any other the labels are read once, with the features
    if need be.
    """
    if hasattr(source, "label_sums"):
        return LabelCounts(*source.label_sums())
    weight, sums = 0.0, np.zeros(source.shape.targets)
    for labels in _labels(source):
        weights = labels.weights.astype(np.float64)
        weight += float(weights.sum())
        sums += weighted_sums(weights, labels.targets)
    return LabelCounts(weight, sums.tolist())


def sum_values(source: DataSource) -> ValueSums:
    """Sum and count all stored values of one pass.

    A source with `value_sums` knows both; any other is read once.
    """
    if hasattr(source, "value_sums"):
        return ValueSums(*source.value_sums())
    total, count = 0.0, 0
    for block in _read(source):
        values = block.dense[: block.rows] if source.shape.dense else block.values[: block.nnz]
        total += float(values.sum(dtype=np.float64))
        count += values.size
    return ValueSums(total, count)


def count_tokens(source: DataSource, most: int) -> tuple[NDArray[np.int64] | None, str]:
    """Return the tokens before each row of one pass and in all, [rows + 1]: sums of counts.

    Or return None, and the reason why the data have no tokens that could be numbered, or more than
    `most`: then no further block is read.
    """
    if not rows_last(source):
        return None, "each pass of a stream may have other rows"
    if source.shape.dense:
        return None, "the data are dense"
    lengths, found = np.zeros(source.shape.total_rows, np.int64), 0
    for block in _read(source):
        values = block.values[: block.nnz]
        odd = (values != np.floor(values)) | (values >= MOST_TOKENS)
        if odd.any():
            place = int(odd.argmax())
            ends = block.indptr[1 : block.rows + 1]
            row = int(block.row_ids[np.searchsorted(ends, place, "right")])
            return None, (
                f"counts must be whole numbers below {MOST_TOKENS:,}, and row {row:,}, column "
                f"{block.indices[place]:,} has {values[place]:g}"
            )
        ends = np.concatenate([[0], np.cumsum(values, dtype=np.int64)])[block.indptr]
        lengths[block.row_ids[: block.rows]] = np.diff(ends)[: block.rows]
        found += int(ends[block.rows])
        if found > most:
            return None, f"there are more than {most:,} tokens, the most that are numbered unasked"
    return np.concatenate([[0], np.cumsum(lengths)]), ""


def _labels(source: DataSource) -> Iterator[RowLabels]:
    """Yield the labels of each block of one pass, read without features where possible."""
    alone = labels_of(source)
    if alone is not None:
        yield from alone
        return
    for block in _read(source):
        rows = slice(block.rows)
        yield RowLabels(block.row_ids[rows], block.targets[rows], block.weights[rows])


def _read(source: DataSource) -> Iterator[HostBlock]:
    """Yield the blocks of one pass, each in the same memory, and say so if it takes long."""
    block, told = HostBlock(source.shape, indexed=False), time.monotonic()
    for index in range(source.blocks):
        if time.monotonic() - told >= TOLD_SECONDS:
            told = time.monotonic()
            done = f"{index:,} of {source.blocks:,} blocks are read"
            log.warning("the model begins with sums over all data: %s", done)
        source.read(0, index, block)
        yield block
