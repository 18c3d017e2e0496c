"""Triangle counts as an estimator."""

from __future__ import annotations

from typing import Any

import numpy as np

from blocklearn.models import Triangles as TrianglesModel

from ..base import Array, Tensors
from ..constructor import estimator
from ..parameters import configured
from .links import GraphEstimator


@estimator
class TriangleCount(GraphEstimator):
    """Count the triangles of a graph: three pages that all link to each other.

    Links count whichever way they lead, and links of a page to itself do not.

    Parameters
    ----------
        batch_size: rows of a block, at most. None: all, or 2**20. It changes no result.
        random_state: not used; nothing is random.
        n_jobs: threads; None: all that the process may use. The result does not depend on it.
        device: "cpu", "cuda" (the first GPU), "cuda:N" or "auto".

    Attributes
    ----------
        counts_: int64 [pages], the triangles at each page: those of `networkx.triangles`. Counts
            above 2^24 are rounded to float32.
        n_triangles_: number of triangles in the graph.
        n_features_in_, feature_names_in_: as in scikit-learn.

    >>> import numpy as np, blocklearn as bl
    >>> links = np.array([[0, 1, 1, 0], [0, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0]])
    >>> bl.TriangleCount().fit(links).counts_.tolist()
    [1, 1, 1, 0]
    """

    max_iter = 1  # passes

    # ------------------------------------------------------------- details

    def _model(self) -> TrianglesModel:
        return configured(self, TrianglesModel, {})

    def _learned(self, tensors: Tensors) -> dict[str, Any]:
        counts = tensors("triangles")[:, 0].astype(np.int64)
        return {"counts_": counts, "n_triangles_": int(counts.sum()) // 3}

    def _tensors(self, rows: int) -> dict[str, Array]:
        return {"triangles": self.counts_[:, None].astype(np.float32)}
