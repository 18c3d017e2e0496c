"""Open the user's data as a source of blocks, and check and count them."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from blocklearn.datasources import (
    DataError,
    DataSource,
    HostBlock,
    Ids,
    Ratings,
    Reading,
    RowFilter,
    Samples,
    split_ratings,
)
from blocklearn.datasources.given import Known, Reads, rows_can_be_taken, samples_of
from blocklearn.datasources.source import RowLabels, check_source, labels_of, rows_last
from blocklearn.matcache import ShapeError
from blocklearn.models import FactorModel, LabelCounts, Model, ValueSums

from .texts import refuse_texts

log = logging.getLogger(__name__)
TOLD_SECONDS = 30.0  # between lines that say how much is read before training
MOST_TOKENS = 2**24
"""Above all counts of an entry: float32 holds whole numbers up to it."""


def open_source(
    data: Any, reading: Reading, model: Model, known: Known | None = None, *, side: int = 0
) -> DataSource:
    """Return `data` if it is a source, else a source over its rows.

    data: a source, or X, (X, Y) or (X, Y, weights), as for `samples_of`.
    model: that the data are for. If it works on counts, a matrix becomes sparse, and must not be
        negative.
    known: names that it has.
    side: 1 if the rows of the data are columns of its training data.
    """
    if is_source(data):
        return given_source(data, model)
    return _samples(data, model, known, side).source(reading)


def given_source(source: DataSource, model: Model) -> DataSource:
    """Return a source of the caller. Raises DataError for a wrong one: dense ones for counts."""
    check_source(source)
    if model.takes_counts and source.shape.dense:
        raise DataError(
            f"Learner: the blocks of the {type(source).__name__} are dense: must be sparse for "
            f"{type(model).__name__}, which works on counts. Give scipy.sparse.csr_array(X), or "
            "convert the data with `learn convert` from a sparse format, such as .npz or .mtx."
        )
    return source


def open_parts(
    data: Any, share: float, reading: Reading, held: Reading, model: Model
) -> tuple[DataSource, DataSource]:
    """Return a source to train on, and one of the share of `data` that is held out.

    Of a model of rows and columns, stored entries are held out, not whole rows.

    reading, held: how each is read.
    """
    entries = of_entries(model)
    if is_source(data):
        data = given_source(data, model)
        if entries:
            raise DataError(
                f"Learner: eval={share}: entries of a {type(data).__name__} cannot be held out; "
                "give two sources, such as those of blocklearn.datasources.split_ratings."
            )
        seed = reading.seed
        return RowFilter(data, share, seed, held=False), RowFilter(data, share, seed, held=True)
    samples = rows_can_be_taken(_samples(data, model))
    if not entries:
        train, other = samples.split(share, reading.seed)
        source = train.source(reading)
        return source, other.source(held.like(source))
    matrix = sp.csr_array(samples.X)
    matrix.sum_duplicates()
    of = Ids.numbered(0)
    parts = split_ratings(Ratings(matrix, of, of), share, reading.seed)
    train, other = (replace(samples, X=part.matrix) for part in parts)
    source = train.source(reading)
    return source, other.source(held.like(source))


def is_source(data: Any) -> bool:
    """Return whether `data` is a source. Raises DataError if it is a path."""
    if isinstance(data, str | os.PathLike):
        raise DataError(
            f"Learner: data={os.fspath(data)!r}: must be data, not a path. Open it first: "
            "numpy.load(PATH) reads a matrix, "
            "blocklearn.datasources.FileData(path=PATH).open_source(Reading(1024)) texts or counts."
        )
    return hasattr(data, "read") and hasattr(data, "blocks")


def of_entries(model: Model) -> bool:
    """Return whether a model learns from entries of rows and columns, as ratings are."""
    return bool(model.row_states) and not model.scores_new_rows


def share_of(eval: Any) -> float | None:
    """Return the share of the training data that `eval` holds out; None: it is data.

    Raises:
        ValueError: it is a number, but no share.
    """
    if not isinstance(eval, bool | int | float | np.number):
        return None
    if isinstance(eval, bool) or not 0.0 < eval < 1.0:
        raise ValueError(
            f"Learner: eval={eval}: must be data, or a share above 0 and below 1. Write eval=0.1 "
            "to hold out a tenth."
        )
    return float(eval)


def _samples(data: Any, model: Model, known: Known | None = None, side: int = 0) -> Samples:
    rated = isinstance(model, FactorModel) and not model.implicit
    reads = Reads(of_entries(model) and side == 0, rated, model.needs_targets)
    samples = samples_of(data, known, reads)
    refuse_texts(samples.X)
    check_two_sided(samples.X)
    return replace(samples, X=as_counts(samples.X)) if model.takes_counts else samples


def check_two_sided(X: Any) -> None:
    """Raise DataError if X is an array of one dimension, or of three."""
    if not hasattr(X, "shape"):
        raise DataError(
            f"X is a {type(X).__name__}: must be a matrix, a frame, a list of texts, or a data "
            "source. Write pandas.DataFrame(X) for a dict of columns."
        )
    if isinstance(X, np.ndarray) and X.ndim != 2:
        raise DataError(
            f"X has the shape {X.shape}: must be rows x columns. Targets are given beside X: "
            "train=(X, Y), and eval=(X, Y); a single column is X.reshape(-1, 1), a single row "
            "X.reshape(1, -1)."
        )


def native_csr(X: Any) -> Any:
    """Return a matrix as CSR; of types that SciPy does not take, such as float16, as float32."""
    if isinstance(X, np.ndarray) and (X.dtype == np.float16 or not X.dtype.isnative):
        X = X.astype(np.float32 if X.dtype == np.float16 else X.dtype.newbyteorder("="))
    return sp.csr_array(X)


def as_counts(X: Any) -> Any:
    """Return a matrix of counts as SciPy CSR. Raises DataError for a negative number."""
    counts = X if sp.issparse(X) and X.format == "csr" else native_csr(X)
    if counts.nnz and counts.data.min() < 0:
        place = int(counts.data.argmin())
        row = int(np.searchsorted(counts.indptr, place, side="right")) - 1
        raise DataError(
            f"X: row {row}, column {counts.indices[place]} is {counts.data[place]:g}: counts must "
            "not be negative."
        )
    return counts


def check_labelled(model: Model, source: DataSource | None, name: str) -> None:
    """Raise ShapeError if `model` needs targets and `source` has none."""
    if model.needs_targets and source is not None and not source.shape.targets:
        raise ShapeError(
            f"Learner: {type(model).__name__} learns from targets and is scored by them, but the "
            f"data for {name} have none; pass (X, Y) in place of X, or, in a configuration, name "
            "them in `targets` of the data."
        )


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
        sums += weights @ labels.targets
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
        if not (values == np.floor(values)).all() or values.max(initial=0.0) >= MOST_TOKENS:
            return None, f"counts must be whole numbers below {MOST_TOKENS:,}, and some are not"
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
