"""Share loops over rows among threads."""

from __future__ import annotations

from blocklearn.matcache.cpu.pool import Pool

EACH = 4
"""Parts for each thread: some take longer."""

LEAST = 2**17
"""What a part touches at least: `ROW` and the columns of each of its rows."""

ROW = 16  # numbers that are read in about the time in which a row is found


def parts(pool: Pool, rows: int, columns: int) -> int:
    """Return in how many parts the threads of a pool share rows; 1: one thread is faster."""
    if pool.threads == 1:
        return 1
    return max(1, min(EACH * pool.threads, rows * (ROW + columns) // LEAST))
