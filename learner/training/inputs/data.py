"""Open the user's data as a source of blocks, and check them."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from blocklearn.datasources import (
    DataError,
    DataSource,
    Ids,
    Ratings,
    Reading,
    RowFilter,
    Samples,
    split_ratings,
)
from blocklearn.datasources.given import Known, Reads, rows_can_be_taken, samples_of
from blocklearn.datasources.source import check_source
from blocklearn.matcache import ShapeError
from blocklearn.models import FactorModel, Model

from .texts import refuse_texts


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
            "numpy.load(PATH) opens a matrix. Texts and counts: with blocklearn.datasources as ds, "
            "ds.FileData(path=PATH).open_source(ds.Reading(1024))."
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
            "them in `targets` of the data. `learn evaluate` takes them as --targets FILE, too."
        )
