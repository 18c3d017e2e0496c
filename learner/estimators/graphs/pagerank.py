"""PageRank as an estimator."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any, Self

import numpy as np
from scipy import sparse

from blocklearn.models import PageRank as PageRankModel

from ..base import Array, LearnerEstimator, Tensors
from ..constructor import estimator
from ..parameters import configured
from ..row_weights import with_weights
from ..scikit import with_callbacks
from .links import validated_links


@estimator
class PageRank(LearnerEstimator):
    """Rank pages by the links that lead to them.

    Parameters
    ----------
        damping: chance to follow a link; otherwise the surfer starts anew.
        tol: training ends when the scores change by less in a pass, added up over all pages.
        max_iter: passes, at most: one that sums up the links, then one for each power iteration.
        batch_size: rows of a block, at most. None: all, or 2**20. It changes no result.
        random_state: not used; nothing is random.
        n_jobs: threads; None: all that the process may use. The result does not depend on it.
        device: "cpu", "cuda" (the first GPU), "cuda:N" or "auto".

    Attributes
    ----------
        scores_: float32 [pages], the share of visits to each page; they add up to 1.
        n_iter_: number of passes.
        n_features_in_, feature_names_in_: as in scikit-learn.

    >>> import numpy as np, blocklearn as bl
    >>> links = np.array([[0, 1, 1], [0, 0, 1], [0, 1, 0]])   # the first page links to both others
    >>> bl.PageRank().fit(links).scores_.round(3).tolist()
    [0.05000000074505806, 0.4749999940395355, 0.4749999940395355]
    """

    damping: float = 0.85
    _: KW_ONLY
    tol: float = 1e-6
    max_iter: int = 100

    @with_callbacks
    def fit(self, X: Any, y: Any = None, *, sample_weight: Any = None) -> Self:
        """Rank the pages.

        X: links, square, sparse or dense, not negative: entry (i, j) is the weight of the link from
            page i to page j.
        y: ignored.
        sample_weight: [pages], where the surfer starts, in proportion: personalised ranks. None:
            at all pages alike.

        Raises ValueError where X is not square or has a negative entry, or all weights are 0.
        """
        X = validated_links(self, X)
        links = sparse.csr_array(X)
        refuse_negative(links)
        links = links.T.tocsr()  # by targets: their products run on all threads
        told = {"X": X, "metadata": {"sample_weight": sample_weight}}
        return self._fit(with_weights(links, None, sample_weight), told)

    # ------------------------------------------------------------- details

    def _model(self) -> PageRankModel:
        names = {"damping": "damping", "tolerance": "tol"}
        return configured(self, PageRankModel, names, rows="targets")

    def _learned(self, tensors: Tensors) -> dict[str, Any]:
        return {"scores_": tensors("scores")[:, 0], "_change": tensors("change")}

    def _tensors(self, rows: int) -> dict[str, Array]:
        return {"scores": self.scores_[:, None], "change": self._change}


def refuse_negative(links: sparse.csr_array) -> None:
    """Check that no link has a negative weight.

    Raises:
        ValueError: one has; the message names its pages.
    """
    negative = np.flatnonzero(links.data < 0)
    if negative.size:
        first = negative[0]
        page = np.searchsorted(links.indptr, first, side="right") - 1
        raise ValueError(
            f"PageRank: the link from page {page} to page {links.indices[first]} has the weight "
            f"{links.data[first]:g}, but weights must not be negative."
        )
