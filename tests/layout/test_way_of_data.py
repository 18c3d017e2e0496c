"""How many files a block visits between its source and the model: it must not become more."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numba.core.dispatcher import Dispatcher

import blocklearn as bl
from blocklearn.datasources import HostBlock
from blocklearn.learner.training.scoring import TrainingScores
from blocklearn.models import Block

ROOT = Path(__file__).parents[2]
MOST = 15  # files before the model's own; `docs/design.md`, section 6, lists them

ARRAYS = ("row_ids", "indptr", "indices", "values", "targets", "weights")


class Way:
    """Notes the files with functions that hold a block, or an array of one."""

    def __init__(self) -> None:
        self.files: list[str] = []
        self._seen: dict[int, tuple[int, int]] = {}  # where arrays of blocks lie

    def note(self, frame: FrameType, event: str, value: Any) -> None:
        """A profile function: see `sys.setprofile`."""
        path = Path(frame.f_code.co_filename).resolve()
        if event not in ("call", "return") or not path.is_relative_to(ROOT) or not path.exists():
            return
        held = [*frame.f_locals.values(), value if event == "return" else None]
        if [each for each in held if self._is_block(each)]:
            self._add(path)
            for name in frame.f_code.co_names:  # compiled functions make no frames
                found = frame.f_globals.get(name)
                if isinstance(found, Dispatcher):
                    self._add(Path(found.py_func.__code__.co_filename).resolve())

    def _add(self, path: Path) -> None:
        name = path.relative_to(ROOT).as_posix()
        if name not in self.files and not name.startswith((".venv", "tests")):
            self.files.append(name)

    def _is_block(self, value: Any) -> bool:
        if isinstance(value, HostBlock):
            for array in (getattr(value, name, None) for name in ARRAYS):
                if isinstance(array, np.ndarray) and array.size:
                    self._seen[array.ctypes.data] = np.lib.array_utils.byte_bounds(array)
        elif isinstance(value, np.ndarray) and value.size:
            low, high = np.lib.array_utils.byte_bounds(value)
            return any(low < end and start < high for start, end in self._seen.values())
        return isinstance(value, HostBlock | Block)


class Arrived(Exception):
    """The model has the block."""


def test_a_block_visits_few_files(monkeypatch: pytest.MonkeyPatch) -> None:
    X = sp.csr_array(np.random.default_rng(0).poisson(0.3, (40, 20)).astype(np.float32))

    class Start(bl.Hook):
        def start(self, learner: Any, progress: Any) -> None:
            def update(model: Any, block: Block) -> None:
                raise Arrived

            monkeypatch.setattr(bl.models.LDA, "update", update)
            sys.setprofile(way.note)

    way = Way()
    monkeypatch.setattr(TrainingScores, "due", lambda *_: False)  # computes with the model
    learner = bl.Learner(bl.models.LDA(topics=2), X, block_rows=20, threads=1, hooks=[Start()])
    threading.setprofile(way.note)  # of threads; `Start` does so for this one
    try:
        with pytest.raises(Arrived):
            learner.fit()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        learner.close()
    files = "\n".join(way.files)
    assert {"datasources/memory/matrix.py", "learner/training/replicas/replica.py"} <= set(
        way.files
    ), files
    assert len(way.files) <= MOST, files
