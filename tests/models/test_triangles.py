"""Triangle counts against the dense product, for hostile graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.datasources import DataError, MatrixSource
from blocklearn.datasources.sampling.pairs import PairSource
from blocklearn.models import Triangles
from tests.support.often import first_often

PAGES = 61
GRAPHS = ["sparse", "no links", "links to itself", "a star", "all", "one triangle"]


def graph(kind: str) -> Any:
    """Links [PAGES x PAGES], each stored in one direction or in both."""
    rng = np.random.default_rng(0)
    links = (rng.random((PAGES, PAGES)) < 0.15).astype(np.float32)
    match kind:
        case "no links":
            links[:] = 0
        case "links to itself":
            links = np.eye(PAGES, dtype=np.float32)
        case "a star":
            links[:], links[7] = 0, 1
            links[3, 4] = 1
        case "all":
            links[:] = 1
        case "one triangle":
            links[:] = 0
            links[60, 0] = links[0, 31] = links[60, 31] = 2.5
    return sp.csr_array(links)


def exact(links: Any) -> Any:
    """The triangles at each page, by dense products in float64."""
    both = (links.toarray() != 0).astype(np.float64)
    both = np.maximum(both, both.T)
    np.fill_diagonal(both, 0)
    return (both @ both * both).sum(axis=1) / 2


@pytest.mark.parametrize("kind", first_often(GRAPHS, 2))
def test_counts_are_those_of_the_dense_product(kind: str) -> None:
    links = graph(kind)
    wanted = exact(links)
    for rows in (8, 17, PAGES):
        learner = bl.Learner(
            Triangles(), links, passes=3, block_rows=rows, threads=2, verbose=False
        ).fit()
        np.testing.assert_array_equal(learner.parameter("triangles")[:, 0], wanted)
        assert learner.progress.pass_ == 1
        np.testing.assert_array_equal(learner.predict(links)[:, 0], wanted)
        assert learner.evaluate(links)["triangles"] == wanted.sum() / 3


def test_fewer_rows_than_pages_and_links_of_both_directions() -> None:
    links = graph("sparse")
    some = links[:40]
    whole = sp.csr_array(sp.vstack([some, sp.csr_array((PAGES - 40, PAGES))]))
    both = sp.csr_array(whole + whole.T)
    for data in (some, both):
        learner = bl.Learner(Triangles(), data, block_rows=16, threads=1, verbose=False).fit()
        np.testing.assert_array_equal(learner.parameter("triangles")[:, 0], exact(whole))


def test_pairs_have_every_link_of_both_parts() -> None:
    links = sp.csr_array(graph("sparse") + graph("sparse").T)
    links.data[:] = 1
    upper = sp.triu(links, 1).toarray()
    pairs = PairSource(MatrixSource(links, block_rows=14))
    assert pairs.blocks == 9 * 10 // 2  # of ceil(61 / 7) parts
    block = bl.datasources.HostBlock(pairs.shape)
    for index in (9, 0, 44, 5):  # in any order: a run may resume at any block
        pairs.read(0, index, block)
        found = sp.csr_array((block.values[: block.nnz], block.indices[: block.nnz], block.indptr))
        found.resize(14, PAGES)
        ids = block.row_ids
        np.testing.assert_array_equal(found.toarray(), upper[ids] * (ids >= 0)[:, None])
    assert ids.tolist() == [*range(7), *range(35, 42)]


def test_links_of_one_direction_need_data_that_are_read_by_column() -> None:
    class OneSided:
        def __init__(self, source: Any) -> None:
            self._source = source

        def __getattr__(self, name: str) -> Any:
            if name == "transposed":
                raise AttributeError(name)
            return getattr(self._source, name)

    links = sp.csr_array((np.ones(4), ([0, 1, 3, 2], [2, 3, 0, 1])), (4, 4))  # as many up as down
    source: Any = OneSided(MatrixSource(links, block_rows=8))
    with pytest.raises(DataError, match="a link of page 0 is stored in one direction only"):
        bl.Learner(Triangles(), source, verbose=False).fit()


def test_the_estimator_counts_as_networkx_does() -> None:
    pytest.importorskip("sklearn", reason="needs scikit-learn")
    links = graph("sparse")
    links.data[::2] *= -1
    for given in (links, links.toarray()):
        found = bl.TriangleCount().fit(given)
        np.testing.assert_array_equal(found.counts_, exact(links))
        assert found.n_triangles_ == exact(links).sum() / 3
    np.testing.assert_array_equal(found.to_learner().predict(abs(links))[:, 0], exact(links))
    with pytest.raises(ValueError, match="X is 9 x 61: rows and columns must be the same pages"):
        bl.TriangleCount().fit(links[:9])


def test_more_rows_than_columns_are_refused() -> None:
    with pytest.raises(ValueError, match="61 rows and 9 columns: rows and columns must be the"):
        bl.Learner(Triangles(), sp.csr_array(graph("all")[:, :9]), verbose=False).fit()
