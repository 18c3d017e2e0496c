"""CPU kernel of `nonnegative_steps`: coordinate descent of many small least squares problems.

Sixteen rows are turned, so that a vector has a number of each. A row's bits depend on no other.
"""

# Numba infers the types.
# mypy: allow-untyped-defs

import numpy as np

from ...notation.functions import TINY
from ..compiling.jit import kernel
from ..inline.long_rows import add_whole

LANES = 16  # rows at a time
_ZERO, _ONE, _TINY = np.float32(0), np.float32(1), np.float32(TINY)


def scratch_length(k: int) -> int:
    """Return the scratch numbers per thread: rows, what is left of `pull`, and steps."""
    return (2 * k + 1) * LANES


@kernel("contract", "nsz")
def nonnegative_steps(chunk, thread, bounds, W, pull, G, rounds, scratch):
    """Move the numbers of W's rows in turn: see the operation."""
    k, own = W.shape[1], scratch[thread]
    rest, steps = k * LANES, 2 * k * LANES
    end = bounds[chunk + 1]
    for first in range(bounds[chunk], end, LANES):
        rows = min(LANES, end - first)
        for c in range(k):
            at = c * LANES
            for i in range(rows):
                own[at + i] = W[first + i, c]
                own[rest + at + i] = pull[first + i, c]
            for i in range(rows, LANES):
                own[at + i] = _ZERO
                own[rest + at + i] = _ZERO
        for c in range(k):
            for j in range(k):
                add_whole(own, rest + j * LANES, c * LANES, -G[c, j], LANES)
        for _ in range(rounds):
            for c in range(k):
                at, pace = c * LANES, _ONE / max(G[c, c], _TINY)
                for i in range(LANES):
                    before = own[at + i]
                    now = before + own[rest + at + i] * pace
                    now = _ZERO if now < _ZERO else now  # NaN stays
                    own[steps + i] = now - before
                    own[at + i] = now
                for j in range(k):
                    add_whole(own, rest + j * LANES, steps, -G[c, j], LANES)
        for c in range(k):
            for i in range(rows):
                W[first + i, c] = own[c * LANES + i]
