"""Connected components against SciPy, for hostile graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

import blocklearn as bl
from blocklearn.models import Components
from tests.support.often import first_often

PAGES = 60
GRAPHS = ["sparse", "no links", "links to itself", "a chain", "a mixed chain", "a star", "all"]


def graph(kind: str) -> Any:
    """Links [PAGES x PAGES]."""
    rng = np.random.default_rng(0)
    links = (rng.random((PAGES, PAGES)) < 0.015).astype(np.float32)
    order = rng.permutation(PAGES) if kind == "a mixed chain" else np.arange(PAGES)
    match kind:
        case "no links":
            links[:] = 0
        case "links to itself":
            links = np.eye(PAGES, dtype=np.float32)
        case "a chain" | "a mixed chain":
            links[:] = 0
            links[order[:-1], order[1:]] = 1
        case "a star":
            links[:], links[7] = 0, 1
        case "all":
            links[:] = 1
    return sp.csr_array(links)


def largest_pages(links: Any) -> Any:
    """The largest page number of each page's component, by SciPy."""
    _, labels = connected_components(links, directed=False)
    last = np.zeros(labels.max() + 1, int)
    last[labels] = np.arange(labels.size)
    return last[labels]


@pytest.mark.parametrize("kind", first_often(GRAPHS, 3))
def test_labels_are_the_largest_pages_of_the_components(kind: str) -> None:
    links = graph(kind)
    for rows in (16, PAGES):
        learner = bl.Learner(
            Components(), links, passes=100, block_rows=rows, threads=1, verbose=False
        ).fit()
        labels = learner.parameter("labels")[:, 0]
        np.testing.assert_array_equal(labels, largest_pages(links))
        assert learner.progress.pass_ <= (PAGES if "chain" in kind else 8)  # it has ended
        np.testing.assert_array_equal(learner.predict(links)[:, 0], labels)
        assert learner.evaluate(links)["components"] == np.unique(labels).size


def test_the_estimator_has_the_labels_of_scipy() -> None:
    pytest.importorskip("sklearn", reason="needs scikit-learn")
    links = graph("sparse")
    links.data[::2] *= -1
    number, labels = connected_components(links, directed=False)
    for given in (links, links.toarray()):
        found = bl.ConnectedComponents().fit(given)
        assert found.n_components_ == number > 3
        np.testing.assert_array_equal(found.labels_, labels)
    predicted = found.to_learner().predict(abs(links))[:, 0]
    np.testing.assert_array_equal(predicted, largest_pages(links))
    with pytest.raises(ValueError, match="X is 9 x 60: rows and columns must be the same pages"):
        bl.ConnectedComponents().fit(links[:9])


def test_more_rows_than_columns_are_refused() -> None:
    with pytest.raises(ValueError, match="60 rows and 9 columns: rows and columns must be the"):
        bl.Learner(Components(), sp.csr_array(graph("all")[:, :9]), verbose=False).fit()


def test_more_pages_than_float32_can_number_are_refused() -> None:
    links = sp.csr_array(([1.0], ([0], [2**24])), shape=(2, 2**24 + 1), dtype=np.float32)
    with pytest.raises(ValueError, match="16,777,217 pages: must be at most 16,777,216"):
        bl.Learner(Components(), links, verbose=False).fit()
