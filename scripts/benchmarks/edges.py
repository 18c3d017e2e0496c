"""Graphs for benchmarks, as sparse matrices: entry (i, j) is a link from page i to page j."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp


def rmat(scale: int, edges: int) -> sp.csr_array:
    """Return a random graph of 2**scale pages, with few pages that have many links."""
    rng, n = np.random.default_rng(0), 1 << scale
    ends = np.zeros((2, edges), np.int64)
    for _ in range(scale):
        x = rng.random(edges, np.float32)
        ends[0] = 2 * ends[0] + (x >= 0.76)
        ends[1] = 2 * ends[1] + (((x >= 0.57) & (x < 0.76)) | (x >= 0.95))
    return graph_of(*rng.permutation(n)[ends], n)


def read(path: Path) -> sp.csr_array:
    """Return the links of a file, each in both directions."""
    file = np.load(path)
    ends = np.concatenate([[file["src"], file["dst"]], [file["dst"], file["src"]]], axis=1)
    return graph_of(*ends, int(file["n_nodes"]))


def graph_of(sources: Any, targets: Any, n: int) -> sp.csr_array:
    """Return a link of weight 1 for each pair of pages."""
    ends = np.asarray(sources, np.int32), np.asarray(targets, np.int32)
    links = sp.csr_array((np.ones(len(ends[0]), np.float32), ends), shape=(n, n))
    links.sum_duplicates()
    links.data[:] = 1.0
    return links


def upwards(links: Any) -> sp.csr_array:
    """Return each link once, towards the page with more links, or the larger number."""
    both = sp.coo_array(links + links.T)
    of = np.bincount(both.row, minlength=both.shape[0])
    a, b = both.row, both.col
    up = (of[a] < of[b]) | ((of[a] == of[b]) & (a < b))
    return graph_of(a[up], b[up], both.shape[0])
