"""Training leaves no thread, file, memory or setting behind, and disturbs no other thread."""

from __future__ import annotations

import ctypes
import gc
import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
import weakref
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from threadpoolctl import threadpool_info

import blocklearn as bl
from blocklearn.datasources import DataError, MatrixSource
from blocklearn.learner.memory import resident_bytes
from blocklearn.matcache.cpu.algebra import gemm
from blocklearn.matcache.cpu.launches import dense
from tests.support.own_threads import Started

CYCLES = 200


def documents(rows: int = 120, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    return bl.sparse(rng.poisson(0.3, (rows, 40)).astype(np.float32))


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def cycle(kind: int, folder: Path) -> None:
    """A learner's life, of one of several kinds."""
    X = documents()
    if kind == 0:  # closed
        learner = bl.Learner(bl.models.LDA(topics=3), X, X, block_rows=30, threads=2)
        learner.fit()
        learner.close()
    elif kind == 1:  # several replicas, state of rows in files
        model = bl.models.ALS(rank=2)
        learner = bl.Learner(
            model, X, X, block_rows=30, threads=2, replicas=2, row_folder=folder / "rows"
        )
        learner.fit()
        learner.close()
    elif kind == 2:  # forgotten
        bl.Learner(bl.models.LDA(topics=3), X, block_rows=30, threads=2, replicas=2).fit()
    else:  # failed

        class Fails(MatrixSource):
            def read(self, pass_: int, index: int, into: Any) -> None:
                if index == 2:
                    raise DataError("a bad block")
                super().read(pass_, index, into)

        learner = bl.Learner(bl.models.LDA(topics=3), Fails(X, block_rows=30), threads=2)
        with pytest.raises(DataError, match="a bad block"):
            learner.fit()


@pytest.mark.slow
def test_200_lives_leave_no_thread_file_or_memory(tmp_path: Path) -> None:
    def live(cycles: int) -> tuple[int, int, int]:
        for number in range(cycles):
            cycle(number % 4, tmp_path)
            if number % 8 == 7:
                gc.collect()  # learners that were forgotten, before their memory is given out anew
        return threading.active_count(), open_files(), resident_bytes()

    threads, files, _ = live(8)  # what a process keeps for good: compiled kernels
    *_, memory = live(40)
    _, later_files, later_memory = live(CYCLES)
    until = time.monotonic() + 10
    while threading.active_count() > threads:  # of a learner that was forgotten: they end soon
        assert time.monotonic() < until, threading.enumerate()
        time.sleep(0.01)
    assert later_files <= files
    assert later_memory - memory < 4 * 2**20  # 20 kB a life: the allocator's own
    assert not (tmp_path / "rows").exists() or not list((tmp_path / "rows").iterdir())


@pytest.mark.parametrize("hooks", [[], [bl.Hook()]], ids=["alone", "hook"])
def test_memory_is_free_when_the_last_name_of_a_learner_is_gone(hooks: list[bl.Hook]) -> None:
    """Objects that hold each other would live until Python looks for them."""
    learner = bl.Learner(bl.models.LDA(topics=3), documents(), block_rows=30, hooks=hooks).fit()
    gc.collect()
    gc.disable()
    try:
        left = weakref.ref(learner)
        del learner
        assert left() is None
    finally:
        gc.enable()


def settings() -> dict[str, Any]:
    """What belongs to the process and others rely on."""
    return {
        "blas": [library["num_threads"] for library in threadpool_info()],
        "signals": [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)],
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "numpy": np.geterr(),
        "random": hashlib.sha256(np.random.get_state()[1].tobytes()).hexdigest(),  # type: ignore[index, union-attr]
        "warnings": list(warnings.filters),
        "excepthook": (sys.excepthook, threading.excepthook),
        "switch": sys.getswitchinterval(),
    }


def test_nothing_of_the_process_is_changed(tmp_path: Path, two_threads_of_blas: None) -> None:
    before = settings()
    for kind in range(4):
        cycle(kind, tmp_path)
    assert settings() == before


TRAIN = """
import hashlib, sys
import numpy as np
import blocklearn as bl

def documents(rows=120, seed=0):
    rng = np.random.default_rng(seed)
    return bl.sparse(rng.poisson(0.3, (rows, 40)).astype(np.float32))

def digest(kind, threads=2):
    X = documents()
    Y = (X.sum(axis=1) > 11).astype(np.float32)
    model, data, more = {
        "lda": (bl.models.LDA(topics=4, inference="gibbs"), X, {}),
        "glm": (bl.models.GLM(), (X, Y), {}),
        "als": (bl.models.ALS(rank=3), X, {"replicas": 2, "sync_every": 1}),
        "nmf": (bl.models.NMF(components=3), X, {}),
    }[kind]
    learner = bl.Learner(model, data, passes=3, block_rows=16, seed=5, threads=threads, **more)
    found = hashlib.sha256()
    for name, tensor in sorted(learner.fit().state().tensors.items()):
        found.update(name.encode() + tensor.tobytes())
    learner.close()
    return found.hexdigest()
"""
KINDS = ("lda", "glm", "als", "nmf")


@pytest.fixture(scope="module")
def digest() -> Any:
    names: dict[str, Any] = {}
    exec(TRAIN, names)
    return names["digest"]


@pytest.fixture(scope="module")
def fresh() -> dict[str, str]:
    """What a process finds that has done nothing else."""
    found = {}
    for kind in KINDS:
        code = f"{TRAIN}\nprint(digest({kind!r}))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        found[kind] = done.stdout.strip()
    return found


@pytest.mark.slow
def test_a_second_training_is_that_of_a_fresh_process(digest: Any, fresh: dict[str, str]) -> None:
    for _ in range(2):
        assert {kind: digest(kind) for kind in KINDS} == fresh


def test_learners_in_threads_do_not_disturb_each_other(
    digest: Any, two_threads_of_blas: None
) -> None:
    """All kinds at once, several times, while another thread multiplies matrices now and then."""
    found: list[tuple[str, str]] = []
    over = threading.Event()

    def train(kind: str) -> None:
        for _ in range(2):
            found.append((kind, digest(kind)))

    def multiply() -> None:
        a = np.random.default_rng(0).random((300, 300), np.float32)
        while not over.wait(0.1):
            a = a @ a
            a /= a.max()

    alone = {kind: digest(kind) for kind in KINDS}
    before = settings()["blas"]
    threads = [threading.Thread(target=train, args=(kind,)) for kind in KINDS]
    other = threading.Thread(target=multiply)
    for thread in (*threads, other):
        thread.start()
    for thread in threads:
        thread.join()
    over.set()
    other.join()
    assert len(found) == 2 * len(KINDS)
    assert set(found) == set(alone.items())
    assert settings()["blas"] == before


# ---- as many threads as are allowed --------------------------------------------------------------


GEMM = ctypes.CFUNCTYPE(
    None, *[ctypes.c_int] * 3, *[ctypes.c_int64] * 3, ctypes.c_float, *[ctypes.c_int64] * 4,
    ctypes.c_float, *[ctypes.c_int64] * 2,
)  # fmt: skip


@pytest.mark.parametrize("replicas", [1, 2, 3])
def test_blas_numba_and_replicas_share_the_threads(
    replicas: int, monkeypatch: pytest.MonkeyPatch, two_threads_of_blas: None
) -> None:
    """Threads that compute are no more than `threads`; products of BLAS use the one they are on,
    and Numba starts none.
    """
    blas: list[int] = []
    workers: set[str] = set()
    known = gemm.routines(np.dtype(np.float32))
    if known is None:
        pytest.skip("needs a NumPy that brings its own BLAS")
    multiply = GEMM(known.gemm)

    @GEMM
    def noted(*arguments: Any) -> None:
        libraries = [each for each in threadpool_info() if each["user_api"] == "blas"]
        blas.append(max(library["num_threads"] for library in libraries))
        multiply(*arguments)

    address = ctypes.cast(noted, ctypes.c_void_p).value
    monkeypatch.setattr(dense, "routines", lambda dtype: known._replace(gemm=address))

    class Look(bl.Hook):
        def block(self, learner: Any, progress: Any) -> None:
            workers.update(t.name for t in threading.enumerate())

    class Products(bl.Model):
        def allocate(self, shapes: Any, rng: Any) -> None:
            self.G = self.parameter("G", shapes.columns, shapes.columns)

        def update(self, block: Any) -> None:
            self.G <<= (block.X @ self.G).T @ block.X + 1.0
            self.G <<= self.G * 0.0

        def score(self, block: Any) -> Any:
            return {}

        def predict(self, block: Any) -> Any:
            return (block.X @ self.G).mat()

    started = Started()
    X = np.random.default_rng(0).random((600, 30), np.float32)
    learner = bl.Learner(
        Products(), X, block_rows=100, threads=6, replicas=replicas, sync_every=1, hooks=[Look()]
    ).fit()
    pools = [thread for thread in started() if "reader" not in thread.name]
    learner.close()
    assert blas and set(blas) == {1}
    assert len(pools) <= 6  # each replica has a share, of which one thread is its own
    assert not any("numba" in name.lower() or "omp" in name.lower() for name in workers)
    with pytest.raises(ValueError, match="not initialized"):
        numba.threading_layer()
