"""Predict what workers of a run exchange, from sizes: lines of `learn --dry-run`."""

from __future__ import annotations

from collections.abc import Iterator

from ..engines.choice import FEW
from ..engines.cost import (
    ASSUMED,
    best_degrees,
    dense_seconds,
    needed_seconds,
    sparse_seconds,
)
from ..engines.given_rows import piece_of
from ..figures import duration, size
from ..files.table_files import TableFiles
from ..learner import Learner
from ..training.teams.merged_sizes import sizes_of
from ..training.teams.needs import needs_of

KEPT = 2 * (1 + 1 / 8)  # rows in memory for one that travels: given and received, see `KeptRows`


def exchange_lines(learner: Learner, workers: int) -> Iterator[str]:
    """Yield the bytes and the seconds of a merge, for a learner that has tried some blocks."""
    if workers == 1 or learner.team is None or learner.train is None:
        return
    first, execution, network = learner.team.first, learner.execution, ASSUMED
    sizes = sizes_of(first, workers, execution.sync_every * execution.replicas)
    dense = dense_seconds(sizes, network)
    yield (
        f"a merge of {workers} workers: {size(int(sizes.dense_bytes))} of each, about "
        f"{duration(dense)} at {network.bandwidth * 8e-9:g} Gb/s and {network.latency * 1e6:g} us "
        "(assumed)"
    )
    merged = [mat.shape for rule, mat in first.learned.merged() if rule != "same"]
    in_files = isinstance(first.files, TableFiles)
    if sum(rows * columns for rows, columns in merged) < FEW and not in_files:
        yield "  all numbers are exchanged: they are few"
        return
    sparse = sparse_seconds(sizes, network)
    layers = best_degrees(workers, sizes.sparse_bytes[0], network)
    yield (
        f"  where workers differ, at most {sizes.union / sizes.lines:.0%} of it: about "
        f"{duration(sparse)}"
        + (f", in layers of {' x '.join(map(str, layers))} workers" if len(layers) > 1 else "")
    )
    needs = needs_of(first, execution, workers)
    if needs is not None:
        needed = needed_seconds(needs, network)
        yield (
            f"  the rows that the next blocks need, at most {needs.touched:,}: about "
            f"{duration(needed)}, and what differs at the end of a pass"
        )
        block = needs.row_bytes * min(first.intakes[0].shape.nnz, first.shapes.columns)
        whole = int(needs.row_bytes * needs.touched)
        piece = min(4 * piece_of(workers), whole)  # the first lies where rows of a block lie
        room = int(KEPT * (max(block, piece) + (piece if piece < whole else 0)))
        yield f"  rows on their way take at most about {size(room)} more than is planned above"
        if in_files:
            yield "  chosen, because tables lie in files: the rows that the next blocks need"
            return
        if needed < min(dense, sparse):
            yield "  chosen by these times: the rows that the next blocks need"
            return
    chosen = "what differs" if sparse < dense else "all numbers, after a first merge"
    yield f"  chosen by these times, and by what differed before: {chosen}"
