"""PageRank against power iteration in float64, for hostile graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.models import PageRank
from tests.support.often import crossed

PAGES = 40
Kind = str


def graph(kind: Kind) -> Any:
    """Weights of links [PAGES x PAGES]; a row has the links from its page."""
    rng = np.random.default_rng(0)
    links = (rng.random((PAGES, PAGES)) < 0.1) * rng.integers(1, 4, (PAGES, PAGES))
    match kind:
        case "pages without links":
            links[::3], links[:, ::4] = 0, 0
        case "links to itself":
            links[np.diag_indices(PAGES)] = 5
        case "two parts":
            links[:20, 20:], links[20:, :20] = 0, 0
        case "no links":
            links[:] = 0
    return sp.csr_array(links.astype(np.float32))


def exact(links: Any, damping: float, starts: Any) -> Any:
    """The scores, by power iteration until nothing changes."""
    A, start = links.toarray().astype(np.float64), starts / starts.sum()
    out, x = A.sum(axis=1), start
    for _ in range(500):
        by_links = damping * A.T @ np.divide(x, out, where=out > 0, out=np.zeros(PAGES))
        x = by_links + (1 - by_links.sum()) * start
    return x


def trained(links: Any, weights: Any = None, **fields: Any) -> bl.Learner:
    data = links if weights is None else (links, None, weights)
    model = PageRank(tolerance=1e-7, **fields)
    return bl.Learner(model, data, passes=300, block_rows=16, threads=1, verbose=False).fit()


@crossed(
    rows=["sources", "targets"],
    kind=["plain", "pages without links", "links to itself", "two parts", "no links"],
)
def test_scores_are_those_of_power_iteration(kind: Kind, rows: Any) -> None:
    links = graph(kind)
    learner = trained(links if rows == "sources" else sp.csr_array(links.T), rows=rows)
    scores = learner.parameter("scores")[:, 0]
    np.testing.assert_allclose(scores, exact(links, 0.85, np.ones(PAGES)), atol=1e-6)
    assert learner.progress.pass_ < 300  # it has converged
    np.testing.assert_array_equal(learner.predict(links)[:, 0], scores)
    assert learner.evaluate(links)["l1_change"] < 1e-7


@pytest.mark.parametrize("damping", [0.0, 0.5, 0.95])
def test_weights_of_rows_are_where_the_surfer_starts(damping: float) -> None:
    links, starts = graph("pages without links"), np.zeros(PAGES, np.float32)
    starts[[3, 7]] = 1.0, 3.0
    scores = trained(links, starts, damping=damping).parameter("scores")[:, 0]
    np.testing.assert_allclose(scores, exact(links, damping, starts), atol=1e-6)
    if damping == 0.0:
        np.testing.assert_allclose(scores[[3, 7]], [0.25, 0.75], atol=1e-6)


def test_passes_end_training_before_it_converges() -> None:
    learner = bl.Learner(PageRank(), graph("plain"), passes=3, threads=1, verbose=False).fit()
    assert learner.progress.pass_ == 3
    assert learner.parameter("change")[0, 0] > 1e-6


def test_the_estimator_has_the_scores_of_the_model() -> None:
    pytest.importorskip("sklearn", reason="needs scikit-learn")
    links, starts = graph("pages without links"), np.arange(PAGES)
    for given in (links, links.toarray()):
        found = bl.PageRank(damping=0.7, tol=1e-7).fit(given, sample_weight=starts)
        np.testing.assert_allclose(found.scores_, exact(links, 0.7, starts), atol=1e-6)
    assert found.n_iter_ < 100
    np.testing.assert_array_equal(found.to_learner().predict(links)[:, 0], found.scores_)
    with pytest.raises(ValueError, match="X is 9 x 40: rows and columns must be the same pages"):
        bl.PageRank().fit(links[:9])
    with pytest.raises(ValueError, match="at least one non-zero number"):
        bl.PageRank().fit(links, sample_weight=np.zeros(PAGES))
    with pytest.raises(ValueError, match="from page 2 to page 1 has the weight -3, but weights"):
        bl.PageRank().fit(np.array([[0, 1, 1], [0, 0, 1], [0, -3, 0]]))


def test_more_rows_than_columns_are_refused() -> None:
    with pytest.raises(ValueError, match="40 rows and 9 columns: rows and columns must be the"):
        trained(sp.csr_array(graph("plain")[:, :9]))


def test_negative_links_are_refused() -> None:
    links = graph("plain")
    links.data[5] = -1.0
    with pytest.raises(bl.datasources.DataError, match="this model takes no negative numbers"):
        trained(links)
