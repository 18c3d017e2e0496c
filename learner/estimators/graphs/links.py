"""Links of a graph as data of estimators."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy import sparse

from ...training.inputs.texts import refuse_texts
from ..base import LearnerEstimator
from ..scikit import with_callbacks
from ..validation import validated


class GraphEstimator(LearnerEstimator):
    """Estimator of links that join two pages whichever way they lead, and whatever they weigh."""

    @with_callbacks
    def fit(self, X: Any, y: Any = None) -> Self:
        """Train on the links of a graph, from scratch.

        X: links, square, sparse or dense: a stored or non-zero entry (i, j) joins pages i and j.
        y: ignored.

        Raises ValueError where X is not square.
        """
        X = validated_links(self, X)
        links = abs(sparse.csr_array(X))  # a negative weight joins, too
        return self._fit(links, {"X": X, "metadata": {}})


def validated_links(estimator: Any, X: Any) -> Any:
    """Return links, checked: float32, dense or CSR [pages x pages].

    Raises ValueError where X is not square.
    """
    refuse_texts(X)
    X = validated(estimator, X, accept_sparse="csr", dtype=np.float32)
    if X.shape[0] != X.shape[1]:
        raise ValueError(
            f"{type(estimator).__name__}: X is {X.shape[0]} x {X.shape[1]}: rows and columns must "
            "be the same pages. Pass a square matrix of links."
        )
    return X
