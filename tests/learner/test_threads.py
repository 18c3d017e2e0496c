"""The pool of threads; and the same bits with 1, 2 and 8 of them, and on every run."""

from __future__ import annotations

import signal
import threading
import time
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from blocklearn.matcache import (
    MatCache,
    colsum,
    exp,
    from_array,
    from_sparse,
    gram,
    random,
    rowmax,
    rowsum,
    sddmm,
    sort,
    split_tokens,
    total,
)
from blocklearn.matcache.cpu.pool import Pool
from tests.support import programs
from tests.support.own_threads import Started


def everything(threads: int) -> list[bytes]:
    """Every kind of kernel, on matrices that are cut into many uneven chunks."""
    rng = np.random.default_rng(0)
    counts = rng.poisson(0.4, (700, 90)) * (rng.random((700, 1)) < 0.8)
    counts[13] = 5
    X = sp.csr_array(counts.astype(np.float32))
    u, t = rng.random((700, 33), np.float32), rng.random((90, 33), np.float32)
    with MatCache(threads=threads) as memory:
        x, rows, table = from_sparse(memory, X), from_array(memory, u), from_array(memory, t)
        key, ids = (
            from_array(memory, np.array([[1, 2, 3]])),
            from_array(memory, np.arange(700)[:, None]),
        )
        found = [
            exp(rows) * 2 + colsum(rows),
            total(rows * 1.1),
            colsum(exp(rows)),
            rowsum(x * 1.7),
            rowmax(rows),
            total(x * x),
            x @ table,
            x.T @ rows,
            rows @ table.T,
            gram(rows),
            rows.T @ (rows * 2),
            sddmm(rows, table, x),
            sort(rows),
            rows[np.arange(699, -1, -1), ::-1],
            random(memory, (700, 33), key) + 0,
            *split_tokens(x, ids, key),
            *programs.softmax_scores(x, table, from_array(memory, t[:1])),
        ]
        bits = [m.numpy().tobytes() for m in found]
        return bits + [m.numpy().tobytes() for m in (programs.lda(x, rows, table, 0.1, 6), rows)]


@pytest.mark.parametrize("threads", [2, 8, 1])
def test_same_bits(threads: int) -> None:
    assert everything(threads) == everything(1)


def test_threads_start_with_the_first_job_for_them() -> None:
    started = Started()
    pool = Pool(3)
    pool.run(lambda chunk, thread: None, 1)
    assert not started()
    for _ in range(2):
        pool.run(lambda chunk, thread: None, 2)
        assert len(started()) == 2
    pool.close()
    assert not started()


def test_every_chunk_runs_once() -> None:
    pool = Pool(4)
    for chunks in (0, 1, 3, 100):
        done: list[int] = []
        threads = set()

        def task(chunk: int, thread: int, done: Any = done, threads: Any = threads) -> None:
            done.append(chunk)
            threads.add((thread, threading.get_ident()))

        pool.run(task, chunks)
        assert sorted(done) == list(range(chunks))
        assert len({t for t, _ in threads}) == len(threads)  # a number is one thread
        assert all(0 <= t < 4 for t, _ in threads)
    pool.close()
    with pytest.raises(RuntimeError, match="close"):
        pool.run(lambda chunk, thread: None, 3)
    with pytest.raises(ValueError, match="threads=0"):
        Pool(0)
    with pytest.raises(ValueError, match="threads=0"):
        MatCache(threads=0)


@pytest.mark.parametrize("where", ["caller", "helper"])
def test_an_error_in_a_thread_is_raised_after_all_have_stopped(where: str) -> None:
    pool = Pool(3)
    running: set[int] = set()
    all_in = threading.Barrier(3)

    def task(chunk: int, thread: int) -> None:
        if chunk >= 3:
            raise AssertionError("a chunk began after the failure")
        running.add(thread)
        all_in.wait(60)
        time.sleep(0.0 if (thread == 0) == (where == "caller") else 0.05)
        running.discard(thread)
        if (thread == 0) == (where == "caller"):
            raise KeyError(chunk)
        time.sleep(0.05)

    with pytest.raises(KeyError):
        pool.run(task, 3)
    assert not running
    done: list[int] = []
    pool.run(lambda chunk, thread: done.append(chunk), 20)  # the pool works on
    assert sorted(done) == list(range(20))
    pool.close()


@pytest.mark.parametrize("during", ["work", "wait"])
def test_an_interrupt_waits_for_the_helpers(during: str) -> None:
    """Ctrl-C while helpers work: no chunk still runs when the caller handles it."""
    pool = Pool(3)
    begun: list[int] = []
    ended: list[int] = []
    main = threading.main_thread().ident
    assert main is not None

    def task(chunk: int, thread: int) -> None:
        if thread == 0 and during == "work":
            time.sleep(0.001)
            return
        if thread == 0:
            while not begun:
                time.sleep(0.001)
            return
        begun.append(chunk)
        time.sleep(0.05)
        if len(begun) < 3:
            signal.pthread_kill(main, signal.SIGINT)
        time.sleep(0.1)
        ended.append(chunk)

    with pytest.raises(KeyboardInterrupt):
        pool.run(task, 10**6 if during == "work" else 3)
    assert sorted(begun) == sorted(ended)
    before = len(begun)
    time.sleep(0.1)
    assert len(begun) == before
    pool.close()


def test_a_kernel_that_was_interrupted_leaves_no_value_that_looks_right() -> None:
    with MatCache(threads=1) as memory:
        a = from_array(memory, np.ones((4, 3), np.float32))
        y = (a * 2).mat()
        a <<= 5
        run = memory.backend.run

        def interrupted(kernel: Any, chunks: int, *args: Any) -> None:
            raise KeyboardInterrupt

        memory.backend.run = interrupted
        with pytest.raises(KeyboardInterrupt):
            (a * 2).mat()
        memory.backend.run = run
        with pytest.raises(RuntimeError, match="overwritten"):
            y.numpy()
        np.testing.assert_array_equal((a * 2).numpy(), np.full((4, 3), 10.0))
