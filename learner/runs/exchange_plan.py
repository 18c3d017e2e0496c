"""Predict what workers of a run exchange, from sizes: lines of `learn --dry-run`."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from blocklearn.datasources import BlockShape
from blocklearn.matcache import Mat

from ..engines.choice import FEW
from ..engines.cost import ASSUMED, Network, Sizes, best_degrees, dense_seconds, sparse_seconds
from ..engines.lines import LINE
from ..figures import duration, size
from ..learner import Learner


def exchange_lines(learner: Learner, workers: int, network: Network = ASSUMED) -> Iterator[str]:
    """Yield the bytes and the seconds of a merge, for a learner that has tried some blocks.

    Where the rows of a table are the columns of sparse data, a worker changes at most as many rows
    as its blocks since the last merge have non-zeros.
    """
    if workers == 1 or learner.team is None or learner.train is None:
        return
    tables = [mat for rule, mat in learner.team.first.learned() if rule != "same"]
    numbers = sum(prod(mat.shape) for mat in tables)
    shape, blocks = learner.train.shape, learner.sync_every * learner.replicas
    touched, union = [touched_lines(tables, shape, blocks * several) for several in (1, workers)]
    lines = sum(lines_of(mat) for mat in tables)
    nbytes = sum(prod(mat.shape) * mat.dtype.itemsize for mat in tables)
    sizes = Sizes(workers, lines, nbytes // max(1, lines), touched, union)
    dense = dense_seconds(sizes, network)
    yield (
        f"a merge of {workers} workers: {size(nbytes)} of each, about {duration(dense)} at "
        f"{network.bandwidth * 8e-9:g} Gb/s and {network.latency * 1e6:g} us (assumed)"
    )
    if numbers < FEW:
        yield "  all numbers are exchanged: they are few"
        return
    sparse = sparse_seconds(sizes, network)
    layers = best_degrees(workers, sizes.sparse_bytes[0], network)
    yield (
        f"  where workers differ, at most {union / lines:.0%} of it: about {duration(sparse)}"
        + (f", in layers of {' x '.join(map(str, layers))} workers" if len(layers) > 1 else "")
    )
    chosen = "what differs" if sparse < dense else "all numbers, after a first merge"
    yield f"  chosen by these times, and by what differed before: {chosen}"


def touched_lines(tables: list[Mat], shape: BlockShape, blocks: int) -> int:
    """Return in how many lines so many blocks change what is merged, at most."""
    found = 0
    for mat in tables:
        by_column = not shape.dense and mat.shape[0] == shape.columns
        each = -(-mat.shape[-1] // LINE)
        found += min(lines_of(mat), shape.nnz * blocks * each if by_column else lines_of(mat))
    return found


def lines_of(mat: Mat) -> int:
    """Return the number of lines of a table."""
    return -(-prod(mat.shape) // LINE)
