"""NMF against plain float64 mathematics, against scikit-learn, and on planted parts."""

from __future__ import annotations

import re
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls
from scipy.special import xlogy

import blocklearn as bl
from blocklearn.datasources import DataError, MatrixSource
from blocklearn.matcache.operations import local as sizes
from blocklearn.models import NMF
from blocklearn.models.nmf.model import TRACE
from tests.support.often import crossed, first_often, paired

Array = np.ndarray[Any, Any]
LOSSES: list[Any] = ["frobenius", "kullback-leibler"]
WAYS: list[Any] = ["online", "batch"]
FLOOR = 1e-18


def counts(n: int = 90, d: int = 40, k: int = 4, seed: int = 0) -> Array:
    """Counts [n x d] with k parts in them, and an empty row."""
    rng = np.random.default_rng(seed)
    X = rng.poisson(rng.gamma(0.5, 1.0, (n, k)) @ rng.gamma(0.3, 1.0, (k, d))).astype(np.float32)
    X[3] = 0.0
    return X


def h_of(learner: bl.Learner) -> Array:
    return learner.model.parameters["H"].numpy().astype(np.float64)


def objective(X: Array, W: Array, H: Array, model: NMF) -> float:
    """The objective of the class's docstring, in float64."""
    X, W, H = (a.astype(np.float64) for a in (X, W, H))
    P = W @ H.T
    if model.loss == "frobenius":
        loss = 0.5 * ((X - P) ** 2).sum()
    else:
        loss = (xlogy(X, X) - xlogy(X, P) - X + P).sum()
    rows = model.l1_W * W.sum() + model.l2_W / 2 * (W**2).sum()
    return float(loss + rows + len(X) * (model.l1_H * H.sum() + model.l2_H / 2 * (H**2).sum()))


class Trace(bl.Hook):
    """H before training, and the objective after each pass."""

    def __init__(self, X: Array) -> None:
        self.X, self.objectives = X, list[float]()

    def start(self, learner: bl.Learner, progress: bl.Progress) -> None:
        self.first = h_of(learner)

    def pass_end(self, learner: bl.Learner, progress: bl.Progress) -> None:
        assert isinstance(learner.model, NMF)
        W = learner.row_state("W")
        self.objectives.append(objective(self.X, W, h_of(learner), learner.model))


# ---------------------------------------------------------------- the definitions, in float64


def w_steps(X: Array, W: Array, H: Array, model: NMF, steps: int) -> Array:
    """Updates of W, H [columns x K] fixed."""
    if model.loss == "frobenius":
        return coordinate_steps(W, X @ H - model.l1_W, H.T @ H + model.l2_W * np.eye(3), steps)
    for _ in range(steps):
        W = kl_minimiser(W * ((X / (W @ H.T)) @ H), H.sum(axis=0) + model.l1_W, model.l2_W)
        W = np.maximum(W, FLOOR)
    return W


def coordinate_steps(W: Array, pull: Array, G: Array, steps: int) -> Array:
    """Each column of W in turn becomes the best one, the others as they are."""
    W = W.copy()
    for _ in range(steps):
        for k in range(W.shape[1]):
            W[:, k] = np.maximum(W[:, k] + (pull[:, k] - W @ G[:, k]) / G[k, k], 0)
    return W


def kl_minimiser(pull: Array, slope: Array, l2: float) -> Array:
    """Where slope - pull / v + l2 v = 0, v > 0."""
    if l2 == 0:
        return pull / slope
    return (-slope + np.sqrt(slope**2 + 4 * l2 * pull)) / (2 * l2)


def h_steps(H: Array, pull: Array, push: Array, mass: float, model: NMF, steps: int) -> Array:
    """Updates of H from the statistics."""
    l1, l2 = mass * model.l1_H, mass * model.l2_H
    if model.loss == "frobenius":
        return coordinate_steps(H, pull - l1, push + l2 * np.eye(3), steps)
    return np.maximum(kl_minimiser(pull, push + l1, l2), FLOOR)


def statistics(X: Array, W: Array, H: Array, model: NMF) -> tuple[Array, Array]:
    if model.loss == "frobenius":
        return X.T @ W, W.T @ W
    return H * ((X / (W @ H.T)).T @ W), W.sum(axis=0)


PENALTIES: list[dict[str, float]] = [
    {},
    {"l1_W": 0.1, "l2_W": 0.05, "l1_H": 0.02, "l2_H": 0.03},
]


@crossed(sparse=[False, True], penalties=PENALTIES, way=WAYS, loss=LOSSES)
def test_one_pass_is_that_of_the_definition(
    loss: Any,
    way: Any,
    penalties: dict[str, float],
    sparse: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Sparse blocks are those of few columns: online KL without l2_H lets the others rest."""
    monkeypatch.setattr(sizes, "FEW", 1e9)
    X = counts(d=200 if sparse else 40)
    steps = 1 if sparse else 4  # of H online: many columns are dear
    model = NMF(components=3, loss=loss, update_H=way, forget=0.4, inner_iterations=4, **penalties)
    data = sp.csr_array(X) if sparse else X
    trace = Trace(X)
    source = MatrixSource(data, block_rows=60)  # blocks of 60 and 30 rows
    learner = bl.Learner(model, train=source, block_rows=60, hooks=[trace], threads=2).fit()
    H, X64 = trace.first, X.astype(np.float64)
    W = np.ones((90, 3))
    pull: Any = 0.0
    push: Any = 0.0
    mass = 0.0
    if way == "online":  # a trace of a row that H explains with equal weights
        w = float(np.sqrt(X64.mean() / 3))
        push = TRACE * (w if loss == "kullback-leibler" else w * w)
        pull = push * (H if loss == "kullback-leibler" else H.sum(axis=1, keepdims=True))
    for rows in (slice(0, 60), slice(60, 90)):
        W[rows] = w_steps(X64[rows], W[rows], H, model, 4)
        keep = 1.0 if way == "batch" else 0.4 ** (len(X[rows]) / 90)
        found = statistics(X64[rows], W[rows], H, model)
        pull, push = keep * pull + found[0], keep * push + found[1]
        mass = keep * mass + len(X[rows])
        if way == "online":
            H = h_steps(H, pull, push, mass, model, steps)
    if way == "batch":
        H = h_steps(H, pull, push, mass, model, 4)
    np.testing.assert_allclose(learner.row_state("W"), W, rtol=2e-4, atol=1e-6)
    np.testing.assert_allclose(h_of(learner), H, rtol=2e-4, atol=1e-5)


def hostile(columns: int = 300) -> sp.csr_array:
    """Blocks of few columns, none, all of them, and a ragged one with an empty row."""
    rng = np.random.default_rng(0)
    X = np.zeros((97, columns), np.float32)
    X[:30, :9] = rng.poisson(1.0, (30, 9))
    X[60:-1] = rng.poisson(0.1, (36, columns))
    X[60] += 1
    return sp.csr_array(X)


def test_rows_that_rest_are_those_of_whole_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Evaluations within a pass, threads and a stop after any block change no bit."""

    def learner(**options: Any) -> bl.Learner:
        penalties = {"l1_W": 0.1, "l2_W": 0.05, "l1_H": 0.02}
        model = NMF(components=3, loss="kullback-leibler", **penalties)
        source = MatrixSource(hostile(), block_rows=30, shuffle=False)
        given = {"passes": 3, "threads": 1, "verbose": False, "seed": 3, **options}
        return bl.Learner(model, source, hostile(), **given)

    whole = learner().fit()
    monkeypatch.setattr(sizes, "FEW", 1e9)
    rests = learner().fit()
    model, wanted = rests.model, h_of(rests).tobytes()
    assert isinstance(model, NMF) and model.sums_at_rest is not None
    np.testing.assert_allclose(h_of(rests), h_of(whole), rtol=1e-3, atol=1e-6)
    assert rests.progress.scores == pytest.approx(whole.progress.scores, rel=1e-4)
    assert h_of(learner(threads=3, evaluation={"every_blocks": 1}).fit()).tobytes() == wanted
    learner(hooks=[bl.Checkpoints(tmp_path / "saved", every_blocks=1, keep=99)]).fit()
    for late in sorted((tmp_path / "saved").iterdir())[-5:]:
        shutil.rmtree(late)
    again = learner(checkpoint=tmp_path / "saved").fit()
    assert h_of(again).tobytes() == wanted
    bl.save(again, tmp_path / "model")
    loaded = bl.load(tmp_path / "model")
    assert loaded.predict(hostile()).tobytes() == again.predict(hostile()).tobytes()
    two = learner(replicas=2, sync_every=1).fit()
    assert two.progress.scores == pytest.approx(whole.progress.scores, rel=0.2)


@crossed(penalties=PENALTIES, loss=LOSSES)
def test_the_objective_never_rises(loss: Any, penalties: dict[str, float]) -> None:
    X = counts(seed=1)
    for seed in range(3):
        trace = Trace(X)
        model = NMF(components=4, loss=loss, update_H="batch", **penalties)
        bl.Learner(
            model, train=sp.csr_array(X), passes=60, block_rows=32, seed=seed, hooks=[trace]
        ).fit()
        seen = np.array(trace.objectives)
        assert (np.diff(seen) <= 1e-6 * seen[1:]).all()
        assert seen[-1] < 0.9 * seen[0]


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("loss", first_often(LOSSES))
def test_as_good_as_scikit_learn(loss: Any, way: Any) -> None:
    """Best of three starts each, run until settled: objectives within 2 %."""
    decomposition = pytest.importorskip("sklearn.decomposition")
    X = counts(200, 50, 5, seed=2)
    ours, theirs = [], []
    for seed in range(3):
        trace = Trace(X)
        model = NMF(components=5, loss=loss, update_H=way)
        bl.Learner(
            model, train=sp.csr_array(X), passes=150, block_rows=64, seed=seed, hooks=[trace]
        ).fit()
        ours.append(min(trace.objectives[-5:]))
        common = {
            "n_components": 5,
            "beta_loss": loss,
            "init": "random",
            "random_state": seed,
            "tol": 0,
        }
        if way == "batch":
            peer = decomposition.NMF(solver="mu", max_iter=300, **common)
        else:
            peer = decomposition.MiniBatchNMF(
                batch_size=64, max_iter=150, max_no_improvement=None, **common
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it has not converged, at a tolerance of 0
            W = peer.fit_transform(X)
        theirs.append(objective(X, W, peer.components_.T, NMF(loss=loss)))
    assert min(ours) < 1.02 * min(theirs)


@paired(1, loss=LOSSES, way=WAYS)
def test_planted_parts_are_recovered(loss: Any, way: Any) -> None:
    rng = np.random.default_rng(0)
    parts = np.zeros((4, 40))
    for k in range(4):
        parts[k, 9 * k : 9 * k + 13] = rng.uniform(0.5, 1.5, 13)  # neighbours share four columns
    rows = rng.gamma(0.4, 2.0, (400, 4))
    X = (rows @ parts).astype(np.float32)
    best = 0.0
    for seed in range(3):
        model = NMF(components=4, loss=loss, update_H=way)
        learner = bl.Learner(model, train=X, passes=150, block_rows=100, seed=seed).fit()
        H = h_of(learner).T
        cosine = (H / np.linalg.norm(H, axis=1)[:, None]) @ (
            parts / np.linalg.norm(parts, axis=1)[:, None]
        ).T
        best = max(best, cosine.max(axis=0).min())
    assert best > 0.99


@crossed(sparse=[False, True], loss=LOSSES)
def test_scores_are_what_they_say(loss: Any, sparse: bool) -> None:
    X, held = counts(), counts(50, seed=5)
    convert: Any = sp.csr_array if sparse else np.asarray
    learner = bl.Learner(
        NMF(components=4, loss=loss), train=convert(X), eval=convert(held), passes=5, block_rows=32
    ).fit()
    W = learner.predict(convert(held)).astype(np.float64)
    P = W @ h_of(learner).T
    scores = learner.progress.scores
    if loss == "frobenius":
        lost, null = ((held - P) ** 2).sum(), (held**2).sum()
        assert scores["rmse"] == pytest.approx(np.sqrt(lost / held.size), rel=1e-4)
    else:
        lost = (xlogy(held, held) - xlogy(held, P + 1e-30) - held + P).sum()
        even = np.broadcast_to(held.mean(axis=1, keepdims=True), held.shape)
        null = (xlogy(held, held) - xlogy(held, even)).sum()
        assert scores["divergence"] == pytest.approx(lost / held.sum(), rel=1e-4)
    assert scores["explained"] == pytest.approx(1 - lost / null, rel=1e-4)


def test_predictions_are_non_negative_least_squares() -> None:
    X, new = counts(), counts(40, seed=7)
    learner = bl.Learner(NMF(components=3), train=X, passes=10, block_rows=32).fit()
    W, H = learner.predict(new), h_of(learner)
    best = np.array([nnls(H, row)[0] for row in new.astype(np.float64)])
    np.testing.assert_allclose(W, best, atol=1e-2 * best.max())
    assert (W[3] == 0).all()  # the empty row
    assert (W >= 0).all()


@pytest.mark.parametrize("loss", first_often(LOSSES))
def test_a_row_of_weight_two_is_two_rows(loss: Any) -> None:
    some = counts(32)
    X = np.concatenate([some, some[:, ::-1]])  # any selection of halves has the same mean
    weights = np.repeat([2.0, 1.0], 32)
    model = NMF(components=3, loss=loss, update_H="batch", l1_H=0.1)
    one = bl.Learner(model, train=(X, None, weights), passes=8, block_rows=16).fit()
    other = bl.Learner(model, train=np.concatenate([X, some]), passes=8, block_rows=16).fit()
    np.testing.assert_allclose(h_of(one), h_of(other), rtol=1e-3, atol=1e-5)


def test_sparse_data_never_become_dense() -> None:
    """Memory grows with columns x K, not with rows x columns."""
    rows, columns, K = 512, 200_000, 4
    rng = np.random.default_rng(0)
    entries = rng.integers(columns, size=5 * rows)
    X = sp.csr_array(
        (np.ones(5 * rows, np.float32), (np.repeat(np.arange(rows), 5), entries)),
        shape=(rows, columns),
    )
    for loss in LOSSES:
        learner = bl.Learner(NMF(components=K, loss=loss), train=X, eval=X, block_rows=rows)
        assert learner.plan().total < 4 * rows * columns / 10


@settings(max_examples=5, deadline=None)
@given(
    n=st.integers(1, 9), dk=st.sampled_from([(1, 3), (5, 1)]), rows=st.integers(1, 10),
    loss=st.sampled_from(LOSSES), way=st.sampled_from(WAYS), sparse=st.booleans(),
    scale=st.sampled_from([1e-9, 1.0, 1e9]), seed=st.integers(0, 3),
)  # fmt: skip
def test_any_shape(
    n: int, dk: Any, rows: int, loss: Any, way: Any, sparse: bool, scale: float, seed: int
) -> None:
    """Few rows, few columns, more parts than either, empty rows and columns, any scale."""
    d, k = dk
    rng = np.random.default_rng(seed)
    X = (scale * rng.poisson(0.7, (n, d))).astype(np.float32)
    X[0, 0] = scale
    data = sp.csr_array(X) if sparse else X
    trace = Trace(X)
    model = NMF(components=k, loss=loss, update_H=way)
    learner = bl.Learner(
        model, train=data, eval=data, passes=4, block_rows=rows, hooks=[trace], threads=1
    ).fit()
    W = learner.predict(data)
    assert W.shape == (n, k)
    for array in (W, h_of(learner), learner.row_state("W")):
        assert np.isfinite(array).all() and (array >= 0).all()
    assert 0.0 <= learner.progress.scores["explained"] <= 1.0 + 1e-5 or loss != "frobenius"
    if way == "batch":
        seen = np.array(trace.objectives)
        small = 1e-5 * (
            float((X.astype(np.float64) ** 2).sum()) if loss == "frobenius" else X.sum()
        )
        assert (np.diff(seen) <= small).all()


def test_stored_zeros_are_zeros() -> None:
    X = sp.csr_array(counts())
    kept = X.copy()
    kept.data[::7] = 0.0
    gone = kept.copy()
    gone.eliminate_zeros()
    for loss in LOSSES:
        runs = [
            bl.Learner(NMF(components=3, loss=loss), train=data, passes=3, block_rows=32).fit()
            for data in (kept, gone)
        ]
        np.testing.assert_allclose(*map(h_of, runs), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("loss", first_often(LOSSES))
def test_parts_outlast_blocks_without_anything(loss: Any) -> None:
    """Rows without entries say nothing of H, wherever they come first."""
    X = np.zeros((6, 4), np.float32)
    X[5] = [1e6, 2e6, 0.0, 3e6]
    for seed in range(5):  # and so in another order
        model = NMF(components=2, loss=loss)
        learner = bl.Learner(model, train=X, passes=10, block_rows=1, seed=seed).fit()
        np.testing.assert_allclose(
            learner.row_state("W")[5] @ h_of(learner).T, X[5], rtol=1e-2, atol=1e3
        )
        assert 1.0 < learner.row_state("W")[5].max() < 1e6


@pytest.mark.parametrize("sparse", [False, True])
def test_what_cannot_be_factorised_is_refused(sparse: bool) -> None:
    convert: Any = sp.csr_array if sparse else np.asarray
    X = counts()
    for value in (-2.0, -1e9):  # the second makes the mean negative, too
        X[7, 4] = value
        refused = f"row 7, column 4 is {value:g}, but this model takes no negative"
        with pytest.raises(DataError, match=re.escape(refused)):
            bl.Learner(NMF(components=3), train=convert(X), block_rows=32).fit()
    X[7, 4] = 0.0
    with pytest.raises(ValueError, match="mean of the data is 0: .* All numbers are 0"):
        bl.Learner(NMF(components=3), train=convert(0 * np.abs(X)), block_rows=32).fit()
    with pytest.raises(ValueError, match="mean of the data is .*e-21: .* Scale the data"):
        bl.Learner(NMF(components=3), train=convert(1e-20 * np.abs(X)), block_rows=32).fit()


def test_words_are_sorted_shares() -> None:
    X = counts()
    learner = bl.Learner(NMF(components=3), train=X, passes=3).fit()
    assert isinstance(learner.model, NMF)
    parts = learner.model.topic_words(7)
    assert [len(part) for part in parts] == [7, 7, 7]
    for part in parts:
        shares = [share for _, share in part]
        assert shares == sorted(shares, reverse=True)
        assert 0 < sum(shares) <= 1 + 1e-6
    shares = learner.model.shares(learner.predict(X))
    full = X.sum(axis=1) > 0
    assert not full.all() and (shares[~full] == 0).all()
    np.testing.assert_allclose(shares[full].sum(axis=1), 1.0, rtol=1e-5)


@pytest.mark.parametrize("loss", LOSSES)
def test_replicas_of_a_batch_are_one_model(loss: Any) -> None:
    """Sums over the pass do not depend on who made them, but for rounding."""
    X = sp.csr_array(counts(200))
    model = NMF(components=4, loss=loss, update_H="batch")
    one, two = (
        bl.Learner(model, train=X, passes=5, block_rows=32, replicas=n, threads=2).fit()
        for n in (1, 2)
    )
    np.testing.assert_allclose(h_of(one), h_of(two), rtol=1e-3, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
def test_replicas_that_forget_find_parts_as_good(loss: Any) -> None:
    X = sp.csr_array(counts(400))
    model = NMF(components=4, loss=loss)
    one, three = (
        bl.Learner(
            model, train=X, eval=X, passes=20, block_rows=16, replicas=n, sync_every=4, threads=3
        ).fit()
        for n in (1, 3)
    )
    assert three.progress.scores["explained"] > 0.95 * one.progress.scores["explained"]
