"""The peers that `scripts/gpu-check` compares with do the same as we; no figure is tested."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import digamma

from scripts.benchmarks.data import power_law
from scripts.gpu_check import glm, lda, peers
from scripts.gpu_check.measure import Scale, cache_on, random_table

QUICK = Scale(quick=True)


class OnNumPy(peers.CuPy):
    """What it asks of CuPy and cupyx, NumPy and SciPy have by the same names."""

    def __init__(self) -> None:
        stream = SimpleNamespace(synchronize=lambda: None)
        cuda = SimpleNamespace(get_current_stream=lambda: stream)
        self._np = SimpleNamespace(**vars(np), asnumpy=np.asarray, cuda=cuda)
        self._sparse, self._digamma = sp, digamma


@pytest.fixture(params=["CuPy", "PyTorch"])
def peer(request: pytest.FixtureRequest) -> peers.Peer:
    if request.param == "CuPy":
        return OnNumPy()
    pytest.importorskip("torch")
    return peers.Torch(compiled=False, device="cpu")


def check(peer: peers.Peer, step: peers.Step, expected: Any) -> None:
    for _ in range(2):  # nothing is left of the first time
        found = peer.numpy(step())
        peer.wait()
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * abs(expected).max())


def test_lda(peer: peers.Peer) -> None:
    X, phi = power_law(30, 50, 20), np.random.default_rng(0).random((50, 7), np.float32)
    found = lda._measured("cpu", X, phi, QUICK)
    check(peer, peer.lda(X, phi, lda.ALPHA, lda.ITERATIONS), found.ratio)


@pytest.mark.filterwarnings("ignore:Sparse")  # of PyTorch: sparse matrices are beta
@pytest.mark.parametrize("targets", [1, 4])
def test_glm(peer: peers.Peer, targets: int) -> None:
    X, W = power_law(30, 20, 8), random_table(20, targets)
    Y = (np.random.default_rng(0).random((30, targets)) < 0.5).astype(np.float32)
    with cache_on("cpu") as cache:
        expected = glm.gradient(X, W, Y)(cache)().numpy()
    check(peer, peer.glm(X, W, Y), expected)


def test_rows_of_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> peers.Peer:
        raise ImportError("no module named so")

    def broken() -> peers.Peer:
        raise ArithmeticError("no good")

    monkeypatch.setattr(peers, "PEERS", {"NumPy": OnNumPy, "gone": missing, "bad": broken})
    X, W = power_law(30, 20, 8), random_table(20, 2)
    Y = np.zeros((30, 2), np.float32)
    step = OnNumPy().glm(X, W, Y)
    for expected, note in ((step(), "same bits as on ours"), (step() + 1, "differs from ours by")):
        found = list(peers.rows(QUICK, "GLM", lambda peer: peer.glm(X, W, Y), expected, 0.5, 1.0))
        assert [row.name for row in found] == ["GLM: NumPy", "GLM: gone", "GLM: bad"]
        assert found[0].seconds is not None and found[0].seconds > 0
        assert found[0].note.startswith(note)  # it is no failure of ours
        assert found[1].note == "not installed: no module named so"
        assert found[2].note == "does not work: ArithmeticError: no good"
    late = Scale(quick=True, until=0.0)
    assert not list(peers.rows(late, "GLM", lambda peer: peer.glm(X, W, Y), step(), 0.5, 1.0))


def test_rows_that_fit_beside_their_table(monkeypatch: pytest.MonkeyPatch) -> None:
    X = sp.csr_matrix(np.ones((10, 4), np.float32))
    monkeypatch.setattr(peers, "NUMBERS", 100)
    assert peers.fitting(X, 5).shape == (5, 4)  # 20 entries
    assert peers.fitting(X, 6).shape == (4, 4)
    assert peers.fitting(X, 1).shape == (10, 4)
    assert peers.fitting(X, 1000).shape == (1, 4)
