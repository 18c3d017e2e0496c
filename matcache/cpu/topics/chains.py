"""Rows of which several take turns, since one alone waits for each of its draws.

Each chain works on a row. When it is done, the chain takes the next one. Where none is left, the
rows in work are finished one by one. A short row makes several sweeps before its chain stops, since
all chains stop with it.
"""

# Numba infers the types.
# mypy: allow-untyped-defs, allow-untyped-calls

import numpy as np

from ..compiling.jit import helper
from .draws import AT, COLUMN, START, STOP, U
from .numbers import uniforms
from .row_vectors import CHAINS, run_sweep
from .vectors import address_of

_plain = helper(places=True)

ROW, SWEEP, LEFT = range(COLUMN + 1, COLUMN + 4)
"""Of a chain: this row or -1, its sweeps up to when the chain stops, the draws until then."""

STATE = LEFT + 1  # numbers of a chain
ROOM = 512  # uniform numbers of a chain: a row of no more tokens is short


@_plain
def begin_chains(chains):
    """Leave all chains without a row: int64 [STATE x chains]."""
    for c in range(chains.shape[1]):
        chains[LEFT, c] = 0
        chains[ROW, c] = -1


@_plain
def begin_sweeps(chains, c, start, size, sweep, most, row, key, u, own):
    """Make the uniform numbers of the next sweeps of a chain's row, of `most` or fewer sweeps.

    start, size: the row's first token, and how many it has.
    sweep: the first of these sweeps.
    u: of all tokens, for a sweep of a long row.
    own: float32, whose last ROOM x chains numbers are those of short rows.
    """
    many = np.int64(1)
    if size <= ROOM:
        many, at = min(most, ROOM // size), own.size - (c + 1) * ROOM
        for s in range(many):
            uniforms(own, at + s * size, size, sweep + s, row, key)
        chains[U, c] = address_of(own, at)
    else:
        uniforms(u, start, size, sweep, row, key)
        chains[U, c] = address_of(u, start)
    chains[AT, c] = chains[START, c] = start
    chains[STOP, c], chains[SWEEP, c], chains[LEFT, c] = start + size, sweep + many, many * size


@_plain
def run_chains(sweep_at, chains, own, width, k, arrays):
    """Draw topics until a chain stops; return how many chains have a row.

    sweep_at, own, width, k, arrays: see `run_sweep`.
    """
    live, steps = 0, np.int64(2**62)
    for c in range(CHAINS):
        if chains[ROW, c] >= 0:
            live += 1
            steps = min(steps, chains[LEFT, c])
    if live == CHAINS:
        run_sweep(sweep_at, 0, 0, steps, chains, own, width, k, arrays)
        for c in range(CHAINS):
            chains[LEFT, c] -= steps
            chains[U, c] += 4 * steps
    else:
        for c in range(CHAINS):
            if chains[ROW, c] >= 0:
                run_sweep(sweep_at, 1, c, chains[LEFT, c], chains, own, width, k, arrays)
                chains[LEFT, c] = 0
    return live
