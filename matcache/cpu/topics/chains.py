"""Rows of which several take turns, since one alone waits for each of its draws.

Each chain works on a row. When it is done, the chain takes the next one. Where none is left, the
rows in work are finished one by one.
"""

# Numba infers the types.
# mypy: allow-untyped-defs, allow-untyped-calls

import numpy as np

from ..compiling.jit import helper
from .row_vectors import run_sweep

_plain = helper(places=True)

AT, STOP, ROW, SWEEP, START = range(5)
"""Of a chain: its next token, the end of its row, this row or -1, the sweep; the row's first token.

Kept topics tell the last one."""


@_plain
def begin_chains(chains):
    """Leave all chains without a row: int64 [4 or 5 x chains]."""
    for c in range(chains.shape[1]):
        chains[AT, c] = chains[STOP, c] = 0
        chains[ROW, c] = -1


@_plain
def run_chains(sweep_at, chains, own, width, k, arrays):
    """Draw topics until a chain is at the end of its row; return how many chains have one.

    sweep_at, own, width, k, arrays: see `run_sweep`.
    """
    many, live, steps = chains.shape[1], 0, np.int64(2**62)
    for c in range(many):
        if chains[ROW, c] >= 0:
            live += 1
            steps = min(steps, chains[STOP, c] - chains[AT, c])
    if live == many:
        run_sweep(sweep_at, 0, 0, steps, chains[AT], own, width, k, arrays)
        for c in range(many):
            chains[AT, c] += steps
    else:
        for c in range(many):
            steps = chains[STOP, c] - chains[AT, c]
            if chains[ROW, c] >= 0:
                run_sweep(sweep_at, 1, c, steps, chains[AT], own, width, k, arrays)
                chains[AT, c] += steps
    return live
