"""What first fits import: a fit of rows in memory pays for nothing that it does not use."""

from __future__ import annotations

import subprocess
import sys

import pytest

from blocklearn.exports import with_room
from blocklearn.learner.estimators.linear.base import GRADIENTS
from blocklearn.optimizers import OPTIMIZERS

FIT = """
import sys
import numpy as np, scipy.sparse as sp
import blocklearn as bl
X = np.ones((2000, 3)) * (np.arange(2000) % 7 == 0)[:, None]
for rows in (X, sp.kron(np.eye(1, 100), X, "csr")):  # few columns would be solved as dense ones
    bl.GLMClassifier().fit(rows, np.arange(2000) % 2)
    print(*sys.modules)
"""
LEARNER = "import sys, blocklearn as bl\nbl.Learner\nprint(*sys.modules)"
LARGE = {
    "blocklearn.datasources.config", "blocklearn.datasources.formats.detect",
    "blocklearn.learner.configuration.config", "blocklearn.models.lda.model",
    "blocklearn.optimizers.adam", "blocklearn.learner.page.report", "sklearn.metrics",
}  # fmt: skip
"""Modules that import many others, and that only some uses need."""


def modules_after(code: str) -> list[set[str]]:
    """Of a process of its own, for each line that it prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [{*line.split()} for line in done.stdout.splitlines()]


def test_a_fit_of_rows_in_memory_imports_no_learner() -> None:
    """Dense rows need no kernel, sparse ones one whose machine code is in a file since a fit."""
    exec(FIT, {})
    dense, sparse = modules_after(FIT)
    assert "llvmlite" not in dense and "llvmlite" in sparse
    assert "numba" not in sparse
    unused = "learner.learner", "matcache.cpu.backend", "optimizers.lbfgs", "optimizers.full_pass"
    assert not sparse & {*LARGE, *(f"blocklearn.{name}" for name in unused)}
    assert sum(name.startswith("blocklearn") for name in sparse) < 190


def test_a_learner_imports_neither_formats_nor_other_models() -> None:
    (found,) = modules_after(LEARNER)
    assert not found & LARGE


@pytest.mark.skipif(sys.platform != "linux", reason="reads the page faults of a thread")
def test_loops_below_an_import_allocate_no_frames() -> None:
    """At each depth, 1,000 calls share one chunk of frames: a chunk of each would be a fault."""
    from resource import RUSAGE_THREAD, getrusage

    def called() -> None:
        return None

    called.__code__ = called.__code__.replace(co_stacksize=100)  # at some depth it begins a chunk

    def faults(depth: int) -> int:
        if depth:
            return faults(depth - 1)
        before = getrusage(RUSAGE_THREAD).ru_minflt
        for _ in range(1000):
            called()
        return getrusage(RUSAGE_THREAD).ru_minflt - before

    found = with_room(lambda: [faults(depth) for depth in range(300)])
    assert max(found) < 500


def test_solvers_that_have_names_are_optimizers_that_take_gradients() -> None:
    """They are written down, for computing them would import all optimizers."""
    found = {
        name
        for name, kind in OPTIMIZERS.items()
        if kind.meaning == "gradients"
        and not kind.keeps_rows
        and not any(field.is_required() for field in kind.model_fields.values())
    }
    assert {*GRADIENTS} == found and len(GRADIENTS) == len(found)
