"""Make samples of data as users have them in Python."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from ..errors import DataError
from ..holdout.samples import Samples
from .documents import counts_of, kind_of_documents
from .frames import is_frame, numbers_of
from .labels import array_of, targets_of


def samples_of(
    data: Any,
    *,
    names: Sequence[str] | None = None,
    columns: int | None = None,
    target_names: Sequence[str] | None = None,
) -> Samples:
    """Return X, (X, Y) or (X, Y, weights) as samples.

    - X: a matrix; a frame or an Arrow table of numbers; a list of texts; of lists of words; or of
      lists of pairs (number of a word, count), as gensim has them.
    - Y: an array [rows] or [rows x targets], a SciPy matrix, a frame, a series, or texts: classes.
    - names, columns, target_names: names and number of the columns, and names of the targets, of
      the model that the data are for; None: of a new model.

    Raises `DataError` or `ValueError` for other data. Numbers are not checked yet.

    >>> found = samples_of((["a storm at sea", "storm, storm!"], ["sea", "sky"]))
    >>> found.names, found.X.toarray().tolist(), found.target_names
    (['sea', 'storm'], [[1.0, 1.0], [0.0, 2.0]], ['sea', 'sky'])
    """
    X, labels, weights = data, None, None
    if isinstance(data, tuple):
        if len(data) not in (2, 3):
            raise ValueError(
                f"Learner: data are a tuple of {len(data)}: must be (X, Y) or (X, Y, weights)."
            )
        X, labels, weights = (*data, None)[:3]
    found: Sequence[str] | None = None
    kind = kind_of_documents(X)
    if is_frame(X):
        X, found = numbers_of(X, names)
    elif kind is not None:
        X, found = counts_of(X, kind, names, columns)
    if labels is None:
        return Samples(X, found, weights=weights)
    targets, told = targets_of(labels, target_names)
    weights = None if weights is None else array_of(weights)
    return Samples(X, found, targets, told, weights)


def rows_can_be_taken(samples: Samples) -> Samples:
    """Return the samples in forms whose rows can be taken: arrays and CSR."""

    def takes_rows(matrix: Any) -> Any:
        return sparse.csr_array(matrix) if sparse.issparse(matrix) else np.asarray(matrix)

    targets = None if samples.targets is None else takes_rows(samples.targets)
    if samples.X.ndim != 2:
        raise DataError(f"X has the shape {samples.X.shape}: must be rows x columns.")
    return replace(samples, X=takes_rows(samples.X), targets=targets)
