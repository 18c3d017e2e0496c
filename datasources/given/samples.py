"""Make samples of data as users have them in Python."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from ..errors import DataError
from ..holdout.samples import Samples
from .categories import features_of, is_text
from .documents import counts_of, kind_of_documents
from .frames import arrow_table, is_frame, numbers_of
from .labels import array_of, targets_of
from .ratings import is_ratings, ratings_of


@dataclass(frozen=True)
class Known:
    """Names that a model has; None: unknown, as for a new model.

    - names, columns: the names of the columns, and their number.
    - target_names, row_names: names of the targets, and of the rows.
    """

    names: Sequence[str] | None = None
    columns: int | None = None
    target_names: Sequence[str] | None = None
    row_names: Sequence[str] | None = None


@dataclass(frozen=True)
class Reads:
    """What a model reads of frames that hold more than numbers.

    - ratings: users, items and ratings, where the columns have such names; rated: there must be a
      column of ratings.
    - categories: columns of texts, each value as a column.
    """

    ratings: bool = False
    rated: bool = False
    categories: bool = False


def samples_of(data: Any, known: Known | None = None, reads: Reads | None = None) -> Samples:
    """Return X, (X, Y) or (X, Y, weights) as samples.

    - X: a matrix, or lists of numbers; a frame or an Arrow table; a list of texts; of lists of
      words; or of lists of pairs (number of a word, count), as gensim has them.
    - Y: an array [rows] or [rows x targets], a SciPy matrix, a frame, a series, texts: classes; or
      the name of a column of the frame X.
    - known: of the model that the data are for.

    Raises `DataError` or `ValueError` for other data. Numbers are not checked yet.

    >>> found = samples_of((["a storm at sea", "storm, storm!"], ["sea", "sky"]))
    >>> found.names, found.X.toarray().tolist(), found.target_names
    (['sea', 'storm'], [[1.0, 1.0], [0.0, 2.0]], ['sea', 'sky'])
    """
    known, reads = known or Known(), reads or Reads()
    X, labels, weights = data, None, None
    if isinstance(data, tuple):
        if len(data) not in (2, 3):
            raise ValueError(
                f"Learner: data are a tuple of {len(data)}: must be (X, Y) or (X, Y, weights)."
            )
        X, labels, weights = (*data, None)[:3]
    if isinstance(labels, str) and is_frame(X):
        X, labels = without(X, labels)
    if reads.ratings and labels is None and is_ratings(X):
        return ratings_of(X, known.row_names, known.names, rated=reads.rated).samples()
    found: Sequence[str] | None = None
    kind = kind_of_documents(X)
    if is_frame(X):
        X, found = (features_of if reads.categories else numbers_of)(X, known.names)
    elif kind is not None:
        X, found = counts_of(X, kind, known.names, known.columns)
    elif isinstance(X, list) or (hasattr(X, "__array__") and not isinstance(X, np.ndarray)):
        X = matrix_of(X)
    if labels is None:
        return Samples(X, found, weights=weights)
    targets, told = targets_of(labels, known.target_names)
    weights = None if weights is None else array_of(weights)
    return Samples(X, found, targets, told, weights)


def without(frame: Any, name: str) -> tuple[Any, Any]:
    """Return a frame as an Arrow table without the column `name`, and this column.

    Raises:
        DataError: the frame has no such column.
    """
    table = arrow_table(frame)
    if name not in table.column_names:
        raise DataError(
            f"Y={name!r}: must be targets, or the name of a column of X: "
            f"{', '.join(map(repr, table.column_names))}."
        )
    labels = table.column(name)
    if is_text(labels.type):
        return table.drop_columns([name]), labels.cast("large_string")
    return table.drop_columns([name]), table.select([name])


def matrix_of(X: Any) -> Any:
    """Return lists of numbers, or what NumPy can read as an array, as an array.

    Raises:
        DataError: rows differ in length, or have something else than numbers.
    """
    try:
        found = np.asarray(X)
    except ValueError:
        lengths = [np.size(row) for row in X]
        row = next((i for i, length in enumerate(lengths) if length != lengths[0]), 0)
        raise DataError(
            f"X: row {row} has {lengths[row]} numbers, and row 0 has {lengths[0]}: must be as many "
            "in each row."
        ) from None
    if found.dtype.kind not in "biuf":
        raise DataError(
            f"X is a {type(X).__name__} of {found.dtype}: must be numbers, a list of texts, or a "
            "list of lists of words."
        )
    return found


def rows_can_be_taken(samples: Samples) -> Samples:
    """Return the samples in forms whose rows can be taken: arrays and CSR."""

    def takes_rows(matrix: Any) -> Any:
        return sparse.csr_array(matrix) if sparse.issparse(matrix) else np.asarray(matrix)

    targets = None if samples.targets is None else takes_rows(samples.targets)
    if samples.X.ndim != 2:
        raise DataError(f"X has the shape {samples.X.shape}: must be rows x columns.")
    return replace(samples, X=takes_rows(samples.X), targets=targets)
