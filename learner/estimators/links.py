"""Links of a graph as data of an estimator."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..training.inputs.texts import refuse_texts
from .scikit import validate_data


def validated_links(estimator: Any, X: Any) -> Any:
    """Return links, checked: float32, dense or CSR [pages x pages].

    Raises ValueError where X is not square.
    """
    refuse_texts(X)
    X = validate_data(estimator, X, accept_sparse="csr", dtype=np.float32)
    if X.shape[0] != X.shape[1]:
        raise ValueError(
            f"{type(estimator).__name__}: X is {X.shape[0]} x {X.shape[1]}: rows and columns must "
            "be the same pages. Pass a square matrix of links."
        )
    return X
