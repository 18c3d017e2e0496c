"""scikit-learn's checks of rows and targets, faster for arrays that need no conversion."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from blocklearn.matcache.finite import is_finite

from .scikit import validate_data

NO_TARGETS = "no_validation"  # as scikit-learn's function writes it
SPARSE = (sp.csr_array, sp.csr_matrix)


def validated(
    estimator: Any, X: Any, y: Any = NO_TARGETS, *, reset: bool = True, **options: Any
) -> Any:
    """Return X, or X and y, as scikit-learn's `validate_data` does, with the same errors.

    scikit-learn takes longer to find out what an array is, and that its columns have no names, than
    a prediction of hundreds of rows. So arrays that it would return as they are, are recognised
    here. It is asked about them only where the estimator knows names, or another number of columns.

    options: `dtype`, `accept_sparse`, `ensure_min_samples`, `ensure_non_negative`, `multi_output`
    and `y_numeric`.
    """
    good = passes(X, **options) and (y is NO_TARGETS or targets_pass(y, X.shape[0]))
    if good and not hasattr(estimator, "feature_names_in_"):
        if reset:
            estimator.n_features_in_ = X.shape[1]
        if getattr(estimator, "n_features_in_", None) == X.shape[1]:
            return X if y is NO_TARGETS else (X, y)
    return validate_data(estimator, X, y, reset=reset, skip_check_array=good, **options)


def passes(
    X: Any,
    *,
    dtype: Any,
    accept_sparse: Any = False,
    ensure_min_samples: int = 1,
    ensure_non_negative: bool = False,
    **others: Any,
) -> bool:
    """Return whether X is a matrix of floats that needs no conversion and breaks no rule.

    False: scikit-learn has to look at it.
    """
    sparse = type(X) in SPARSE
    if not (sparse and accept_sparse == "csr") and type(X) is not np.ndarray:
        return False
    if X.ndim != 2 or X.shape[0] < ensure_min_samples or 0 in X.shape:
        return False
    values = X.data if sparse else X
    known = (np.float32, np.float64) if dtype == "numeric" else (dtype,)
    if values.dtype not in known or not is_finite(values):
        return False
    return not ensure_non_negative or bool(values.min(initial=0.0) >= 0.0)


def targets_pass(y: Any, rows: int) -> bool:
    """Return whether y has so many finite numbers, or rows of them, in an array."""
    if type(y) is not np.ndarray or y.ndim not in (1, 2) or len(y) != rows or not y.size:
        return False
    return y.dtype.kind in "biu" or (y.dtype in (np.float32, np.float64) and is_finite(y))
