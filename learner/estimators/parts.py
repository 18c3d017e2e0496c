"""Work on parts of rows in memory, on several threads if it is worth them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

from blocklearn.matcache.cpu.pool import Pool

from .parameters import used_threads

WORTH = 2**21  # numbers that are worth a thread


def threads_for(numbers: int, n_jobs: int | None) -> int:
    """Return how many threads are to read so many numbers.

    >>> threads_for(1000, 4), threads_for(2**30, 4)
    (1, 4)
    """
    most = 1 + numbers // WORTH
    return 1 if most == 1 else min(most, used_threads(n_jobs))


def run_parts(work: Callable[[int, int], None], parts: int, threads: int) -> None:
    """Call `work(part, thread)` for each part from 0 on."""
    if threads == 1:
        for part in range(parts):
            work(part, 0)
        return
    with closing(Pool(threads)) as pool:
        pool.run(work, parts)
