"""Whole computations on graphs, beside SciPy: connected components, and triangles."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy
from scipy.sparse.csgraph import connected_components

import blocklearn as bl
from blocklearn.matcache import MatCache, from_sparse, masked_product, total
from blocklearn.models import Components, Triangles

from .edges import upwards

Times = list[tuple[float, float]]  # seconds, processor seconds
System = tuple[str, str, Callable[[], tuple[Times, Any]]]  # name, version, work


def components(links: Any, args: argparse.Namespace) -> list[System]:
    """Return the systems that find components; each returns the largest page of each page's."""

    def ours() -> Any:
        learner = bl.Learner(
            Components(), links, passes=1000, threads=args.threads, verbose=False
        ).fit()
        labels = learner.parameter("labels")[:, 0]
        learner.close()
        return labels

    def peer() -> Any:
        _, labels = connected_components(links, directed=False)
        last = np.zeros(labels.max() + 1, int)
        last[labels] = np.arange(labels.size)
        return last[labels]

    return [
        ("blocklearn", bl.__version__, lambda: clocked(ours)),
        ("SciPy", scipy.__version__, lambda: clocked(peer)),
    ]


def triangles(links: Any, args: argparse.Namespace) -> list[System]:
    """Return the systems that count triangles; each returns their number."""
    up = upwards(links)

    def peer() -> Any:
        return np.array([(up @ up).multiply(up).sum()])

    def model() -> Any:
        learner = bl.Learner(Triangles(), links, threads=args.threads, verbose=False).fit()
        counts = learner.parameter("triangles")
        learner.close()
        return np.array([counts.sum(dtype=np.float64) / 3])

    def ours() -> tuple[Times, Any]:
        with MatCache(threads=args.threads) as cache:
            A = from_sparse(cache, up)
            return clocked(lambda: total(masked_product(A, A.T, A)).numpy()[0])

    return [
        ("blocklearn, masked_product", bl.__version__, ours),
        ("blocklearn, the model", bl.__version__, lambda: clocked(model)),
        ("SciPy", scipy.__version__, lambda: clocked(peer)),
    ]


def clocked(work: Callable[[], Any]) -> tuple[Times, Any]:
    """Return the time that work takes, and its result."""
    seconds, processor = time.perf_counter(), time.process_time()
    result = work()
    return [(time.perf_counter() - seconds, time.process_time() - processor)], result
