"""Non-negative matrix factorisation as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY
from typing import Any, ClassVar, Literal, Self

import numpy as np
import scipy.sparse as sp

from blocklearn.models import NMF as NMFModel

from ..base import Array, Tensors
from ..constraints import AMOUNT, Rule
from ..constructor import estimator
from ..parameters import configured
from ..scikit import check_is_fitted, with_callbacks
from .decomposition import Decomposition

STATISTICS = ("pull", "push", "mass")  # further training continues from these and H


@estimator
class NMF(Decomposition):
    """Factorise non-negative data: X [n x features] ~ W @ components_.

    Parameters
    ----------
        n_components: number of parts.
        beta_loss: "frobenius", or "kullback-leibler", the likelihood of counts.
        alpha_W: penalty of W, as in scikit-learn's NMF.
        alpha_H: penalty of components_, likewise; "same": alpha_W.
        l1_ratio: share of the L1 norm in both penalties, 0 to 1.
        update_H: "online", after each block, or "batch", once a pass. "batch" never raises the
            objective.
        forget: online only: the share of a block's weight that remains a pass later.
        max_iter: passes. All of them are made; there is no tolerance.
        total_samples: rows of the whole stream, for `partial_fit`; None: those seen so far.
        batch_size: rows of a block, at most. None: 32 to 1024, 8 or about 50 blocks a pass.
        random_state: seed.
        n_jobs: threads; None: all that the process may use. The result does not depend on it.
        device: "cpu", "cuda" (the first GPU), "cuda:N" or "auto"; used by training and predictions.

    Attributes
    ----------
        components_: float32 [parts x features].
        n_iter_: number of passes.
        n_features_in_, feature_names_in_: as in scikit-learn.

    >>> import numpy as np, blocklearn as bl
    >>> X = np.kron([[1.0, 0.0], [0.0, 2.0]], np.ones((20, 3)))
    >>> nmf = bl.NMF(n_components=2, random_state=0).fit(X)
    >>> float(abs(nmf.inverse_transform(nmf.transform(X)) - X).max()) < 0.05
    True
    """

    _derived: ClassVar[dict[str, str]] = {
        f"{norm}_{table}": f"alpha_{table}" for norm in ("l1", "l2") for table in "WH"
    }
    _rules: ClassVar[Mapping[str, Rule]] = {"alpha_W": AMOUNT, "alpha_H": AMOUNT.or_text("same")}

    n_components: int = 20
    _: KW_ONLY
    beta_loss: Literal["frobenius", "kullback-leibler"] = "frobenius"
    alpha_W: float = 0.0
    alpha_H: float | Literal["same"] = "same"
    l1_ratio: float = 0.0
    update_H: Literal["online", "batch"] = "online"
    forget: float = 0.3
    max_iter: int = 50
    total_samples: int | None = None

    @with_callbacks
    def fit(self, X: Any, y: Any = None) -> Self:
        """Train on X, from scratch; y is ignored."""
        X = self._check(X, reset=True)
        return self._fit(X, {"X": X})

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Make one more pass, over X, whose rows are new; y is ignored."""
        X = self._check(X, reset=not self._has_begun())
        return self._go_on(X, of_rows=self.total_samples)

    def transform(self, X: Any) -> Array:
        """Return W, the weights of the parts in each row, float32 [n x parts]."""
        check_is_fitted(self)
        return self._predictions(self._check(X, reset=False))

    def inverse_transform(self, X: Any) -> Array:
        """Return X @ components_, [n x features], from weights X [n x parts]."""
        check_is_fitted(self)
        found: Array = (X if sp.issparse(X) else np.asarray(X)) @ self.components_
        return found

    def score(self, X: Any, y: Any = None) -> float:
        """Return the share of the loss that the parts explain, at most 1.

        The reference is the loss of predicting 0 (frobenius) or each row's mean (kullback-leibler).
        """
        check_is_fitted(self)
        return self._evaluated(self._check(X, reset=False))["explained"]

    # ------------------------------------------------------------- details

    def _model(self) -> NMFModel:
        alpha_H = self.alpha_W if self.alpha_H == "same" else self.alpha_H
        l1, l2, d = self.l1_ratio, 1.0 - self.l1_ratio, self.n_features_in_
        names = {
            "components": "n_components",
            "loss": "beta_loss",
            "update_H": "update_H",
            "forget": "forget",
        }
        return configured(
            self,
            NMFModel,
            names,
            l1_W=self.alpha_W * l1 * d,
            l2_W=self.alpha_W * l2 * d,
            l1_H=alpha_H * l1,
            l2_H=alpha_H * l2,
        )

    def _learned(self, tensors: Tensors) -> dict[str, Any]:
        statistics = {name: tensors(name) for name in STATISTICS}
        return {"components_": tensors("H").T, "_statistics": statistics}

    def _tensors(self, rows: int) -> dict[str, Array]:
        K = len(self.components_)
        W = np.ones((rows, K), np.float32)  # as in the model for new rows
        H = np.ascontiguousarray(self.components_.T, np.float32)
        return {"H": H, "W": W, **self._statistics}
