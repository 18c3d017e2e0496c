"""Arrays in order are recognised; scikit-learn looks at all others, with its own errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.learner.estimators import validation
from blocklearn.learner.estimators.scikit import validate_data
from blocklearn.learner.estimators.validation import validated

ROWS = np.arange(12.0).reshape(4, 3)
HOLE, HUGE, BELOW = (ROWS.copy() for _ in range(3))
HOLE[1, 2], HUGE[:], BELOW[0, 0] = np.nan, 1e308, -1.0
NUMERIC = {"dtype": "numeric", "accept_sparse": "csr"}
SINGLE = {"dtype": np.float32, "accept_sparse": "csr"}
POSITIVE = {**NUMERIC, "ensure_non_negative": True}
BOTH = {**NUMERIC, "multi_output": True, "y_numeric": True}
Y = np.arange(4.0)


def with_hole(matrix: Any) -> Any:
    matrix.data[0] = np.inf
    return matrix


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether scikit-learn has looked at the arrays, for each call."""
    found = []

    def noted(*given: Any, skip_check_array: bool, **options: Any) -> Any:
        found.append(not skip_check_array)
        return validate_data(*given, skip_check_array=skip_check_array, **options)

    monkeypatch.setattr(validation, "validate_data", noted)
    return found


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ((ROWS,), NUMERIC),
        ((HUGE,), NUMERIC),
        ((ROWS.astype(np.float32).T.copy().T,), SINGLE),
        ((ROWS[::2],), POSITIVE),
        ((sp.csr_array(ROWS),), POSITIVE),
        ((sp.csr_matrix(ROWS, dtype=np.float32),), SINGLE),
        ((ROWS, Y), BOTH),
        ((ROWS, np.stack([Y, Y], axis=1)), BOTH),
        ((ROWS, Y.astype(np.int8)), BOTH),
    ],
)
def test_what_is_in_order_is_returned_as_it_is(
    given: Any, options: Any, looked: list[bool]
) -> None:
    estimator = bl.KMeans()
    found = validated(estimator, *given, reset=True, **options)
    for one, other in zip(found if len(given) == 2 else [found], given, strict=True):
        assert one is other
    assert looked == [] and estimator.n_features_in_ == 3


@pytest.mark.parametrize(
    ("given", "options"),
    [
        (([[1, 2, 3]],), NUMERIC),
        ((ROWS.astype(int),), NUMERIC),
        ((ROWS.astype(object),), NUMERIC),
        ((ROWS.astype(">f8"),), NUMERIC),
        ((ROWS,), SINGLE),
        ((np.ma.masked_array(ROWS),), NUMERIC),
        ((ROWS[0],), NUMERIC),
        ((ROWS[:0],), NUMERIC),
        ((ROWS[:, :0],), NUMERIC),
        ((ROWS[:1],), {**NUMERIC, "ensure_min_samples": 2}),
        ((HOLE,), NUMERIC),
        ((BELOW,), POSITIVE),
        ((sp.csr_array(BELOW),), POSITIVE),
        ((with_hole(sp.csr_array(ROWS)),), NUMERIC),
        ((sp.csc_array(ROWS),), NUMERIC),
        ((sp.csr_array(ROWS),), {"dtype": "numeric"}),
        ((sp.csr_array(ROWS.astype(int)),), NUMERIC),
        ((ROWS, Y[:3]), BOTH),
        ((ROWS, Y * np.nan), BOTH),
        ((ROWS, Y.tolist()), BOTH),
        ((ROWS, Y.astype(object)), BOTH),
        ((ROWS, None), BOTH),
        ((HOLE, Y), BOTH),
    ],
)
def test_anything_else_is_as_scikit_learn_has_it(
    given: Any, options: Any, looked: list[bool]
) -> None:
    found = []
    for check in (validated, validate_data):
        try:
            done = check(bl.KMeans(), *given, reset=True, **options)
            each = done if len(given) == 2 else [done]
            found.append(
                [(type(one), one.dtype, getattr(one, "format", ""), one.shape) for one in each]
            )
        except (ValueError, TypeError) as error:
            found.append([type(error), str(error)])
    assert found[0] == found[1]
    assert looked == [True]


def test_columns_are_counted_all_the_same(looked: list[bool]) -> None:
    estimator = bl.KMeans(2, max_iter=1, random_state=0).fit(np.repeat(ROWS, 5, axis=0))
    with pytest.raises(ValueError, match="X has 2 features, but KMeans is expecting 3"):
        estimator.predict(ROWS[:, :2].astype(np.float32))
    assert looked == [True, False]


def test_names_of_columns_are_compared_all_the_same(looked: list[bool]) -> None:
    estimator, rows = bl.KMeans(2, max_iter=1, random_state=0), np.repeat(ROWS, 5, axis=0)
    estimator.fit(pd.DataFrame(rows, columns=["a", "b", "c"]))
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        estimator.predict(ROWS.astype(np.float32))
    estimator.fit(rows.astype(np.float32))
    assert not hasattr(estimator, "feature_names_in_")
    assert looked == [True, False, False]
