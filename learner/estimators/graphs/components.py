"""Connected components as an estimator."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any

import numpy as np

from blocklearn.models import Components as ComponentsModel

from ..base import Array, Tensors
from ..constructor import estimator
from ..parameters import configured
from .links import GraphEstimator


@estimator
class ConnectedComponents(GraphEstimator):
    """Find the connected components of a graph.

    Links join pages whichever way they lead (weak components).

    Parameters
    ----------
        max_iter: passes, at most.
        batch_size: rows of a block, at most. None: all, or 2**20. It changes no result.
        random_state: not used; nothing is random.
        n_jobs: threads; None: all that the process may use. The result does not depend on it.
        device: "cpu", "cuda" (the first GPU), "cuda:N" or "auto".

    Attributes
    ----------
        labels_: int64 [pages], the number of each page's component, from 0, in the order of their
            first pages: those of `scipy.sparse.csgraph.connected_components`.
        n_components_: number of components.
        n_iter_: number of passes.
        n_features_in_, feature_names_in_: as in scikit-learn.

    >>> import numpy as np, blocklearn as bl
    >>> links = np.array([[0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 1, 0, 0]])
    >>> bl.ConnectedComponents().fit(links).labels_.tolist()
    [0, 0, 1, 0]
    """

    _: KW_ONLY
    max_iter: int = 1000

    # ------------------------------------------------------------- details

    def _model(self) -> ComponentsModel:
        return configured(self, ComponentsModel, {})

    def _learned(self, tensors: Tensors) -> dict[str, Any]:
        numbers = tensors("labels")[:, 0].astype(np.int64)
        _, first, each = np.unique(numbers, return_index=True, return_inverse=True)
        order = np.argsort(np.argsort(first))
        return {"labels_": order[each], "n_components_": first.size, "_change": tensors("change")}

    def _tensors(self, rows: int) -> dict[str, Array]:
        last = np.zeros(self.n_components_, np.float32)
        last[self.labels_] = np.arange(self.labels_.size)  # of equal places, the last is kept
        return {"labels": last[self.labels_][:, None], "change": self._change}
