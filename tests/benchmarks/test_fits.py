"""The benchmark of fits: made rows, and ratios."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from scripts.benchmarks import fits
from scripts.benchmarks.fits import auc, first_fits, short_rows
from scripts.benchmarks.report import Row
from scripts.benchmarks.turns import ratios


def test_short_rows_have_length_one_and_labels_of_every_size() -> None:
    X, Y = short_rows(4)
    assert X.shape == (11_000, 500) and np.diff(X.indptr).tolist() == [18] * 11_000
    np.testing.assert_allclose((X * X).sum(axis=1), 1.0, rtol=1e-5)
    assert (0.004 < Y.mean(axis=0)).all() and (Y.mean(axis=0) < 0.31).all()


def test_auc_is_that_of_labels_or_of_classes_against_the_rest() -> None:
    scores = np.float32([[0.9, 0.1], [0.2, 0.8], [0.3, 0.7]])
    assert auc(scores, np.int8([[1, 0], [0, 1], [0, 1]]), [0, 1]) == 1.0
    assert auc(scores[:, 0], np.array(["b", "a", "a"]), [0, 1]) == 1.0


def test_the_fastest_of_ours_that_is_as_good_counts() -> None:
    def row(system: str, seconds: float, quality: float) -> Row:
        return Row(system, "1", {}, seconds, {"auc": quality})

    ours = [row("blocklearn", 1.0, 0.8), row("blocklearn", 2.0, 0.9)]
    near, far = ratios([*ours, row("sgd", 6.0, 0.85), row("logistic", 6.0, 0.95)], "auc", 4)
    assert near.value == pytest.approx(3.0) and far.value is None
    assert (far.name, far.of, far.note) == ("seconds to 0.95", "logistic, defaults", "ours: never")


@pytest.mark.slow
def test_first_fits_are_timed_in_processes_of_their_own() -> None:
    pytest.importorskip("sklearn", reason="needs scikit-learn")
    X, Y = short_rows(1)
    found = first_fits(X[:100], Y[:100, 0], ["GLMClassifier", "liblinear"], 1)
    assert list(found) == ["GLMClassifier, nothing compiled", "GLMClassifier", "liblinear"]
    assert min(found.values()) > 0.0


def test_liblinear_has_no_first_fit_of_several_classes(monkeypatch: Any) -> None:
    monkeypatch.setattr(fits, "first_fit", lambda name, folder, *, compiled: 1.0)
    rows = sp.csr_array(np.eye(3))
    for y, there in (([0, 1, 1], True), ([0, 1, 2], False)):
        found = first_fits(rows, np.array(y), ["logistic", "liblinear"], 1)
        assert ("liblinear" in found, "logistic" in found) == (there, True)
