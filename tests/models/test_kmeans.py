"""k-means against plain float64 mathematics, on planted clusters, and its first centres."""

from __future__ import annotations

import shutil
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import blocklearn as bl
from blocklearn.datasources import MatrixSource
from blocklearn.learner.reports.clusters import clusters
from blocklearn.learner.reports.lines import summary_lines
from blocklearn.learner.training.inputs.row_sample import take_rows
from blocklearn.matcache.operations import local as sizes
from blocklearn.models import KMeans
from blocklearn.models.kmeans.start import first_centres
from tests.support.often import crossed, first_often

Array = np.ndarray[Any, Any]
WAYS: list[Any] = ["online", "batch"]
ROWS, COLUMNS, K, BLOCK = 90, 20, 3, 30  # the kernels of tests/models/test_contract.py


def planted(seed: int = 0, far: float = 6.0) -> tuple[Array, Array]:
    """Rows [ROWS x COLUMNS] around K centres, one of them empty, and the cluster of each."""
    rng = np.random.default_rng(seed)
    centres = far * np.eye(K, COLUMNS) + 1.0
    cluster = np.arange(ROWS) % K
    X = (centres[cluster] + 0.3 * rng.normal(size=(ROWS, COLUMNS))).astype(np.float32)
    X[4] = 0.0
    return X, cluster


def trained(model: KMeans, X: Any, weights: Array | None = None, **options: Any) -> bl.Learner:
    source = MatrixSource(X, weights=weights, block_rows=BLOCK)
    given: dict[str, Any] = {"passes": 3, "threads": 1, "seed": 3, "verbose": False, **options}
    return bl.Learner(model, source, X, **given).fit()


def definition(model: KMeans, X: Array, weights: Array, C: Array, passes: int) -> Array:
    """The centres [columns x k] after some passes over blocks in order, in float64."""
    X, C = X.astype(np.float64), C.astype(np.float64)
    lengths = np.linalg.norm(X, axis=1) if model.spherical else np.ones(len(X))
    counts = np.zeros(C.shape[1])
    for _ in range(passes):
        sums, members = np.zeros_like(C), np.zeros_like(counts)
        for start in range(0, len(X), BLOCK):
            x, w, n = (a[start : start + BLOCK] for a in (X, weights, lengths))
            half = 0.0 if model.spherical else (C * C).sum(axis=0) / 2
            near = np.eye(C.shape[1])[(x @ C - half).argmax(axis=1)] * (w * (n > 0))[:, None]
            sum_, member = x.T @ (near / np.maximum(n, 1e-30)[:, None]), near.sum(axis=0)
            if model.update_centres == "batch":
                sums, members = sums + sum_, members + member
                continue
            counts = model.forget ** (len(x) / len(X)) * counts + member
            C = normed(C + (sum_ - member * C) / np.maximum(counts, 1e-30), model)
        if model.update_centres == "batch":
            C = normed(np.where(members > 0, sums / np.maximum(members, 1e-30), C), model)
    return C


def normed(C: Array, model: KMeans) -> Array:
    return C / np.maximum(np.linalg.norm(C, axis=0), 1e-30) if model.spherical else C


@crossed(sparse=["no", "yes", "few columns in a block"], spherical=[False, True], way=WAYS)
def test_passes_are_those_of_the_definition(
    way: Any, spherical: bool, sparse: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, _ = planted(far=2.0)
    if sparse.startswith("few"):
        monkeypatch.setattr(sizes, "FEW", 1e9)
    weights = np.linspace(0.0, 2.0, ROWS).astype(np.float32)
    model = KMeans(clusters=K, update_centres=way, spherical=spherical)
    source = MatrixSource(X, weights=weights, block_rows=BLOCK)
    some = take_rows(source, model.needs.sample)
    start = first_centres(some.X, some.weights, K, 3, spherical).T
    data = X if sparse == "no" else sp.csr_array(X)
    found = trained(model, data, weights)
    assert (found.model.scaled is not None) == (sparse.startswith("few") and way == "online")
    expected = definition(model, X, weights, start, passes=3)
    np.testing.assert_allclose(found.parameter("centres"), expected, rtol=1e-4, atol=1e-4)
    half = 0.0 if spherical else (expected**2).sum(axis=0) / 2
    near = (X @ expected - half).argmax(axis=1)
    np.testing.assert_array_equal(found.predict(data)[:, 0], near)
    scores = X @ expected - half
    if spherical:
        lengths = np.maximum(np.linalg.norm(X, axis=1), 1e-30)
        name, far = "mean_cosine_distance", 1.0 - scores.max(axis=1) / lengths
    else:
        name, far = "mean_squared_distance", (X**2).sum(axis=1) - 2.0 * scores.max(axis=1)
    assert found.progress.scores[name] == pytest.approx(far.mean(), rel=1e-4)


def hostile(columns: int = 400) -> sp.csr_array:
    """Blocks of few columns, none, all of them, and a ragged one with an empty row."""
    rng = np.random.default_rng(0)
    X = np.zeros((3 * BLOCK + 7, columns), np.float32)
    X[:BLOCK, :9] = rng.normal(size=(BLOCK, 9))
    X[2 * BLOCK : -1] = rng.normal(size=(BLOCK + 6, columns)) * (rng.random(columns) < 0.1)
    X[2 * BLOCK] += 1
    return sp.csr_array(X)


def of_hostile(spherical: bool, **options: Any) -> bl.Learner:
    model = KMeans(clusters=5, spherical=spherical)
    source = MatrixSource(hostile(), block_rows=BLOCK, shuffle=False)
    given: dict[str, Any] = {"passes": 3, "threads": 1, "verbose": False, "seed": 3, **options}
    return bl.Learner(model, source, hostile(), **given)


@pytest.mark.parametrize(("spherical", "replicas"), first_often([(False, 1), (True, 2)]))
def test_columns_that_rest_are_those_of_whole_centres(
    spherical: bool, replicas: int, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Evaluations within a pass, threads and a stop after any block change no bit."""
    found = []
    for few in (0.0, 1e9):
        monkeypatch.setattr(sizes, "FEW", few)
        found.append(of_hostile(spherical, replicas=replicas, sync_every=1).fit())
    whole, rests = (each.parameter("centres") for each in found)
    np.testing.assert_allclose(rests, whole, rtol=1e-4, atol=1e-5)
    name = "mean_cosine_distance" if spherical else "mean_squared_distance"
    assert found[1].progress.scores[name] == pytest.approx(found[0].progress.scores[name], rel=1e-4)
    options: dict[str, Any] = {"replicas": replicas, "sync_every": 1}
    often = of_hostile(spherical, threads=3, evaluation={"every_blocks": 1}, **options).fit()
    assert often.parameter("centres").tobytes() == rests.tobytes()
    stop = bl.Checkpoints(tmp_path / "saved", every_blocks=1, keep=100)
    of_hostile(spherical, hooks=[stop], **options).fit()
    for late in sorted((tmp_path / "saved").iterdir())[-4:]:
        shutil.rmtree(late)
    again = of_hostile(spherical, checkpoint=tmp_path / "saved", **options).fit()
    assert again.parameter("centres").tobytes() == rests.tobytes()
    bl.save(again, tmp_path / "model")
    loaded = bl.load(tmp_path / "model")
    assert loaded.predict(hostile()).tobytes() == again.predict(hostile()).tobytes()


@pytest.mark.parametrize("way", first_often(WAYS))
def test_planted_clusters_are_found(way: Any) -> None:
    X, cluster = planted()
    learner = trained(KMeans(clusters=K, update_centres=way), X)
    labels, full = learner.predict(X)[:, 0].astype(int), np.arange(ROWS) != 4
    pairs = set(zip(labels[full].tolist(), cluster[full].tolist(), strict=True))
    assert len(pairs) == K
    assert learner.progress.allocations_after_warmup == 0


@pytest.mark.parametrize("way", WAYS)
def test_rows_far_from_0_are_told_apart(way: Any) -> None:
    """Their squares have lost the digits of the distances: 10,000^2 has a unit of 8 in float32."""
    X, cluster = planted(far=2.0)
    rows = np.arange(ROWS) != 4
    X, cluster = X[rows] + np.float32(1e4), cluster[rows]
    learner = trained(KMeans(clusters=K, update_centres=way), X)
    labels = learner.predict(X)[:, 0].astype(int)
    assert len(set(zip(labels.tolist(), cluster.tolist(), strict=True))) == K
    means = np.stack([X[cluster == c].mean(axis=0, dtype=np.float64) for c in range(K)])
    near = ((X - means[cluster]) ** 2).sum(axis=1).mean()
    assert learner.evaluate(X)["mean_squared_distance"] == pytest.approx(near, rel=1e-2)


def test_batches_never_raise_the_objective() -> None:
    X = np.random.default_rng(1).normal(size=(ROWS, COLUMNS)).astype(np.float32)
    scores = []
    for passes in (1, 2, 4, 8):
        learner = trained(KMeans(clusters=K, update_centres="batch"), X, passes=passes)
        scores.append(learner.progress.scores["mean_squared_distance"])
    assert scores == sorted(scores, reverse=True) and scores[0] > scores[-1]


def test_clusters_are_told_by_columns_above_the_mean() -> None:
    X, cluster = planted()
    learner = trained(KMeans(clusters=K, update_centres="batch"), X)
    labels = learner.predict(X)[:, 0].astype(int)
    found = clusters(learner, top=2)
    for each in found:
        assert each.columns[0][0] == f"column {cluster[labels == each.number][-1]}"
        assert each.share == pytest.approx((labels == each.number).mean(), abs=0.02)
    lines = list(summary_lines(learner))
    assert len(lines) == K and lines[1].startswith(f"   1  {found[1].share:6.1%}  column ")
    one = trained(KMeans(clusters=1), X, passes=1)
    assert clusters(one, top=2)[0].share == 1.0


@pytest.mark.parametrize(
    "part", first_often([1, 50, 2**22])
)  # one row or one cluster at a time, a few, all
def test_columns_of_clusters_are_those_of_whole_tables(
    part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blocklearn.learner.reports.clusters.PART", part)
    X, _ = planted()
    learner = trained(KMeans(clusters=K), np.round(X), passes=1)  # many columns are equally far
    centres, counts = (learner.parameter(n).astype(np.float64) for n in ("centres", "counts"))
    shares = counts[0] / counts.sum()
    above = centres - (centres @ shares)[:, None]
    for top in (1, 3, len(centres) + 5):
        for each in clusters(learner, top):
            own = above[:, each.number]
            values = [much for _, much in each.columns]
            assert values == pytest.approx([v for v in np.sort(own)[::-1][:top] if v > 0])
            assert values == pytest.approx([own[int(name.split()[1])] for name, _ in each.columns])
            assert each.share == shares[each.number]


def test_online_training_goes_on_from_a_folder(tmp_path: Any) -> None:
    X, _ = planted()
    learner = trained(KMeans(clusters=K), X)
    bl.save(learner, tmp_path / "m")
    again = bl.load(tmp_path / "m", threads=1)
    assert np.array_equal(again.parameter("counts"), learner.parameter("counts"))
    again.fit(MatrixSource(X, block_rows=BLOCK))
    assert np.abs(again.parameter("centres") - learner.parameter("centres")).max() < 0.1


@pytest.mark.parametrize("X", [np.zeros((5, 4)), np.ones((5, 4)), np.eye(2, 4)])
def test_fewer_different_rows_than_centres(X: Array) -> None:
    learner = bl.Learner(KMeans(clusters=K), X, X, passes=2, threads=1, verbose=False).fit()
    assert learner.progress.scores["mean_squared_distance"] == pytest.approx(0.0, abs=1e-6)
    assert np.isfinite(learner.parameter("centres")).all()


# ---- first centres -------------------------------------------------------------------------------


@settings(max_examples=50)
@given(rows=st.integers(1, 30), k=st.integers(1, 8), seed=st.integers(0, 99), sparse=st.booleans())
def test_first_centres_are_rows_with_weight(rows: int, k: int, seed: int, sparse: bool) -> None:
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(rows, 4))).astype(np.float32)
    weights = rng.integers(0, 2, rows).astype(np.float32)
    weights[seed % rows] = 1.0
    given_rows = sp.csr_array(X) if sparse else X
    found = first_centres(given_rows, weights, k, seed)
    allowed = {tuple(row) for row in X[weights > 0].tolist()}
    chosen = [tuple(row) for row in found.tolist()]
    assert found.shape == (k, 4) and found.dtype == np.float32
    assert len(set(chosen) & allowed) >= min(k, len(allowed))


@pytest.mark.parametrize("sparse", [False, True])
def test_rows_of_zeros_are_no_first_centres_of_directions(sparse: bool) -> None:
    """They have no direction, and are as far from every centre as rows can be."""
    X = np.zeros((600, 6), np.float32)
    X[::10, :3] = np.tile(np.eye(3, dtype=np.float32), (20, 1)) * 2.0
    given = sp.csr_array(X) if sparse else X
    for seed in range(20):
        found = first_centres(given, np.ones(600), 5, seed, True)  # two more than directions
        np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0, rtol=1e-6)
        assert len(np.unique(found, axis=0)) == 3
    assert not first_centres(sp.csr_array(X[1:9]), np.ones(8), 2, 0, True).any()


def test_far_rows_become_first_centres() -> None:
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(500, 2)), [[99.0, 0.0], [0.0, 99.0]]])
    found = first_centres(X, np.ones(502), 3, 0)
    assert {(99.0, 0.0), (0.0, 99.0)} <= {tuple(row) for row in found.tolist()}


@pytest.mark.parametrize("sparse", [False, True])
def test_a_sample_is_of_all_parts_of_the_data(sparse: bool) -> None:
    X = np.arange(1000, dtype=np.float32)[:, None] + 1.0
    weights = np.linspace(1.0, 2.0, 1000).astype(np.float32)
    data = sp.csr_array(X) if sparse else X
    sample = take_rows(MatrixSource(data, weights=weights, block_rows=7), 100)
    taken = np.asarray(sample.X.todense() if sparse else sample.X)[:, 0].astype(int) - 1
    assert 100 <= len(taken) <= 200 and len(set(taken.tolist())) == len(taken)
    assert np.histogram(taken, 10, (0, 1000))[0].min() >= 7
    assert np.array_equal(sample.weights, weights[taken])
    few = take_rows(MatrixSource(data, block_rows=300), 5000)
    assert few.X.shape[0] == 1000
