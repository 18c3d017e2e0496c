"""Arrays of a block come to a device by few copies."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.datasources import MatrixSource
from blocklearn.matcache.cuda.idle import IdleDriver
from blocklearn.matcache.cuda.incoming import GAP, Sources, joined
from scripts.benchmarks.idle_device import idle_devices


def test_neighbours_are_one_copy() -> None:
    targets, sizes = [0, 256, 512, 768], [250, 100, 0, 8]
    assert joined(targets, [(at + 4096, 1) for at in targets], sizes) == [(0, 4096, 776)]
    apart = [(4096, 1), (4096 + 256, 2), (0, 2), (4096 + 768, 1)]  # owners
    assert joined(targets, apart, sizes) == [(0, 4096, 250), (256, 4352, 100), (768, 4864, 8)]
    moved = [(4096, 1), (4096 + 320, 1), (0, 1), (4096 + 832, 1)]  # other distances
    assert joined(targets, moved, sizes) == [(0, 4096, 250), (256, 4416, 520)]
    far = [0, 8 + GAP, 17 + 2 * GAP]
    assert len(joined(far, [(at, 1) for at in far], [8, 8, 8])) == 2
    assert joined(targets, [(at, 1) for at in targets], [0, 0, 0, 0]) == []


def test_arrays_are_found_as_long_as_they_live() -> None:
    sources, array = Sources(IdleDriver()), np.zeros(4)
    assert sources.of(array) == sources.of(array) == (array.ctypes.data, id(array))
    part = array[1:]
    assert sources.of(part) == (array.ctypes.data + 8, id(array))
    del part
    assert len(sources._known) == 1


def test_a_small_block_is_two_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of its counts, one of all that was read."""
    made: list[int] = []
    monkeypatch.setattr(IdleDriver, "copy", lambda self, copies, _: made.append(len(copies)))
    X = sp.csr_array(np.random.default_rng(0).poisson(0.5, (40, 12)).astype(np.float32))
    source = MatrixSource(X, block_rows=8, shuffle=True)
    with idle_devices():
        model = bl.models.LDA(topics=4, inference="vb")
        learner = bl.Learner(model, source, device="cuda", threads=1, passes=2, verbose=False)
        learner.fit().close()
    assert set(made) == {2}
