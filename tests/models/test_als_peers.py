"""ALS against figures of two other packages, kept in `als_peers.json` (both in float64).

implicit 0.7: AlternatingLeastSquares(factors=3, regularization=reg, iterations=5, use_cg=False),
its item_factors set to `items` before fit. Its confidence is the value itself, so it was given
1 + alpha * ratings.

cmfrec 3.5: CMF(k=3, lambda_=reg, method="als", use_cg=False, user_bias=biases, item_bias=biases,
center=True, scale_lam=True, niter=3000, use_float=False), that is, at convergence.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.learner.learner import State
from blocklearn.models import ALS
from tests.support.often import paired

FIGURES = json.loads((Path(__file__).parent / "als_peers.json").read_text())


def ratings() -> Any:
    parts = (np.array(FIGURES["ratings"], np.float32), FIGURES["indices"], FIGURES["indptr"])
    return sp.csr_array(parts, shape=FIGURES["shape"])


def predictions(learner: bl.Learner) -> Any:
    mean = learner.state().tensors["mean"]
    return mean + learner.row_state("users") @ learner.row_state("items").T


def test_implicit_feedback_pass_by_pass() -> None:
    """Five passes from the same items make the same predictions."""
    X, peer = ratings(), FIGURES["implicit"]
    settings = {"alpha": peer["alpha"], "reg": peer["reg"], "weighted": False}
    model = ALS(loss="implicit", rank=3, solver="cholesky", **settings)
    learner = bl.Learner(model, train=X, passes=peer["iterations"])
    start = {
        "users": np.zeros((40, 3), np.float32),
        "items": np.array(peer["items"], np.float32),
        "mean": np.zeros((1, 1), np.float32),
    }
    learner.restore(State(start, {}))
    learner.fit()
    np.testing.assert_allclose(predictions(learner), peer["predictions"], atol=2e-5)


@paired(1, solver=["cg", "cholesky"], name=["cmfrec", "cmfrec_without_biases"])
def test_explicit_ratings_at_convergence(name: str, solver: Any) -> None:
    X, peer = ratings(), FIGURES[name]
    settings = {"reg": peer["reg"], "biases": peer["biases"]}
    start = 0.1  # of several minima, from here it is cmfrec's
    model = ALS(rank=3, solver=solver, init_scale=start, **settings)
    learner = bl.Learner(model, train=X, passes=500).fit()
    np.testing.assert_allclose(predictions(learner), peer["predictions"], atol=1e-4)
