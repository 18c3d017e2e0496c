"""`bl.GaussianMixture` gives scikit-learn's densities and criteria for equal components."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from tests.support.often import first_often

mixture = pytest.importorskip("sklearn.mixture", reason="needs scikit-learn")
ConvergenceWarning = pytest.importorskip("sklearn.exceptions").ConvergenceWarning

X = np.repeat(3.0 * np.eye(3, 20), 30, axis=0) + np.random.default_rng(0).normal(size=(90, 20))
FORMS = ["full", "diag", "spherical"]
EARLY = "ignore:GaussianMixture. not converged"


@pytest.mark.filterwarnings(EARLY)
@pytest.mark.parametrize("form", first_often(FORMS))
def test_what_is_told_of_rows_is_scikit_learns(form: Any) -> None:
    ours = bl.GaussianMixture(3, covariance_type=form, reg_covar=0.1, max_iter=3, random_state=0)
    ours.fit(X)
    theirs = mixture.GaussianMixture(3, covariance_type=form, reg_covar=0.1)
    shape = {"full": (3, 20, 20), "diag": (3, 20), "spherical": (3,)}[form]
    assert ours.covariances_.shape == ours.precisions_cholesky_.shape == shape
    for name in ("weights_", "means_", "covariances_", "precisions_cholesky_"):
        setattr(theirs, name, getattr(ours, name).astype(np.float64))
    np.testing.assert_allclose(ours.score_samples(X), theirs.score_samples(X), rtol=1e-5)
    sparse = ours.score_samples(sp.csr_array(X))
    np.testing.assert_allclose(sparse, theirs.score_samples(X), rtol=1e-5)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-3)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    for name in ("score", "bic", "aic"):
        assert getattr(ours, name)(X) == pytest.approx(getattr(theirs, name)(X), rel=1e-5)


@pytest.mark.filterwarnings(EARLY)
@pytest.mark.parametrize("form", first_often(FORMS))
def test_a_learner_of_an_estimator_has_all_that_it_learned(form: Any) -> None:
    ours = bl.GaussianMixture(3, covariance_type=form, reg_covar=0.1, max_iter=3, random_state=0)
    learner = ours.fit(X).to_learner()
    assert learner.model.reg_covar == 0.1
    found = learner.evaluate(X.astype(np.float32))["log_likelihood"]
    assert found == pytest.approx(ours.score(X), rel=1e-5)


def test_training_ends_when_the_bound_hardly_changes() -> None:
    options: dict[str, Any] = {"covariance_type": "diag", "reg_covar": 0.1, "random_state": 0}
    ours = bl.GaussianMixture(3, tol=1e-3, max_iter=50, **options).fit(X)
    assert ours.converged_ and 2 <= ours.n_iter_ < 50
    fewer = bl.GaussianMixture(3, tol=0.0, max_iter=ours.n_iter_ - 1, **options)
    with pytest.warns(ConvergenceWarning, match=f"after max_iter={ours.n_iter_ - 1} passes"):
        earlier = fewer.fit(X)
    assert not earlier.converged_ and earlier.n_iter_ == ours.n_iter_ - 1
    assert ours.lower_bound_ == pytest.approx(earlier.score(X), rel=1e-5)
    assert 0 <= ours.lower_bound_ - earlier.lower_bound_ < 1e-3


def test_a_form_that_does_not_exist_is_named() -> None:
    with pytest.raises(ValueError, match="covariance_type='tied': must be full, diag or spherical"):
        bl.GaussianMixture(2, covariance_type="tied").fit(X)


@pytest.mark.filterwarnings(EARLY)
@pytest.mark.parametrize("forms", [("full", "diag"), ("diag", "full")])
def test_a_form_that_was_changed_after_fit_says_so(forms: Any) -> None:
    ours = bl.GaussianMixture(3, covariance_type=forms[0], max_iter=1, random_state=0).fit(X)
    ours.set_params(covariance_type=forms[1])
    with pytest.raises(ValueError, match="GaussianMixture: .* changed after fit"):
        ours.predict_proba(X)
