"""Rankings by a sampled softmax: against float64, and on planted data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.datasources import MatrixSource, blocks_of_entries
from blocklearn.matcache import MatCache, ShapeError, from_array, from_sparse
from blocklearn.models import Ranking
from blocklearn.models.ranking.softmax import Descent, descend, standing
from blocklearn.optimizers import SGD
from tests.support.learn_command import Learn

USERS, ITEMS, GROUPS = 120, 40, 4


def planted(seed: int = 0) -> Any:
    """Users of four groups, each of whom has items of one kind, and a few others."""
    rng = np.random.default_rng(seed)
    alike = np.arange(ITEMS) % GROUPS == rng.integers(0, GROUPS, (USERS, 1))
    return sp.csr_array((rng.random((USERS, ITEMS)) < np.where(alike, 0.5, 0.03)) * 1.0)


def loss_of(X: Any, x: Any, Y: Any) -> Any:
    """The loss of one dense row in float64."""
    s = Y @ x
    Z = (np.maximum(-X, 0) * np.exp(s)).sum()
    return sum(np.log1p(Z / np.exp(s[i])) for i in np.flatnonzero(X > 0))


def slopes_of(X: Any, x: Any, Y: Any) -> Any:
    """The derivative of `loss_of` by the scores, in float64."""
    e = np.exp(Y @ x)
    each = np.maximum(-X, 0) * e
    Z = each.sum()
    missed = (X > 0) * Z / (Z + e)
    return (each / Z * missed.sum() if Z else each) - missed


def rows() -> Any:
    """Rows of positives and weighted negatives: usual ones, empty, without either, one huge."""
    rng = np.random.default_rng(2)
    X = np.where(rng.random((6, 300)) < 0.02, 1.0, 0.0)
    X -= (X == 0) * (rng.random((6, 300)) < 0.03) * rng.uniform(1, 40, (6, 300))
    X[1], X[2], X[3] = 0.0, np.arange(300) == 7, np.minimum(X[3], 0)
    X[4] = np.where(np.arange(300) % 3, -2.0, 1.0)
    return X


@pytest.mark.parametrize("K", [3, 8])
def test_descent_is_that_of_float64(K: int) -> None:
    X, rng = rows(), np.random.default_rng(0)
    x, Y = rng.normal(0, 0.3, (6, K)), rng.normal(0, 0.5, (300, K))
    x[:, -1] = 1.0
    free = np.where(np.arange(K) < K - 1, 1.0, 0.0)
    wanted, squares, found = x.copy(), np.full(6, 0.5), []
    for row in range(6):
        for _ in range(3):
            penalty = 0.2 * (X[row] > 0).sum() * wanted[row]
            g = free * (slopes_of(X[row], wanted[row], Y) @ Y + penalty)
            squares[row] += g @ g
            wanted[row] -= 0.4 / np.sqrt(squares[row]) * g
        found.append(slopes_of(X[row], wanted[row], Y) * (X[row] != 0))
    cache = MatCache(threads=1)
    S = from_sparse(cache, sp.csr_array(X.astype(np.float32)), "X")
    u, G, V, f = (
        from_array(cache, np.asarray(a, np.float32), name)
        for a, name in ((x, "x"), (np.full((6, 1), 0.5), "G"), (Y, "Y"), (free[None], "free"))
    )
    slopes = descend(S, u, G, V, Descent(f, 0.4, 0.2), 3)
    np.testing.assert_allclose(u.numpy(), wanted, rtol=2e-4, atol=2e-5)
    np.testing.assert_allclose(G.numpy()[:, 0], squares, rtol=2e-4)
    one = from_array(cache, np.eye(300, dtype=np.float32), "one")
    np.testing.assert_allclose((slopes @ one).mat().numpy(), found, rtol=1e-3, atol=1e-5)


def test_slopes_are_derivatives_of_the_loss() -> None:
    X, rng = rows(), np.random.default_rng(0)
    x, Y = rng.normal(0, 0.3, 4), rng.normal(0, 0.5, (300, 4))
    for row in (0, 4, 5):
        gradient = slopes_of(X[row], x, Y) @ Y
        for k, step in enumerate(1e-6 * np.eye(4)):
            slope = (loss_of(X[row], x + step, Y) - loss_of(X[row], x - step, Y)) / 2e-6
            assert gradient[k] == pytest.approx(slope, rel=1e-5)


def test_scores_that_are_too_large_for_float32_stay_finite() -> None:
    X = sp.csr_array(np.array([[1.0, -5.0, -5.0]], np.float32))
    cache = MatCache(threads=1)
    u, G, V, f = (
        from_array(cache, np.asarray(a, np.float32), name)
        for a, name in (
            ([[300.0]], "x"), ([[0.0]], "G"), ([[1.0], [2.0], [-2.0]], "Y"), ([[1.0]], "free"),
        )
    )  # fmt: skip
    descend(from_sparse(cache, X, "X"), u, G, V, Descent(f, 0.1, 0.0), 2)
    assert np.isfinite(u.numpy()).all()


def test_items_move_by_the_gradient_of_the_mean_loss() -> None:
    """One block, one pass of plain gradient steps: items less rate times the gradient."""
    X = planted()[:16]
    model = Ranking(rank=3, negatives=6, reg=0.0, init_scale=0.5)
    learners = [
        bl.Learner(model, X, passes=p, block_rows=16, threads=1, seed=4, optimizer=SGD(rate=rate))
        for p, rate in ((1, 1e-12), (1, 0.5))
    ]
    still, moved = (learner.fit() for learner in learners)
    Y, x = still.parameter("items").astype(float), moved.row_state("users").astype(float)
    np.testing.assert_array_equal(x.astype(np.float32), still.row_state("users"))
    gradient = np.zeros_like(Y)
    for ids, entries in blocks_of_entries(learners[1].train):  # type: ignore[arg-type]
        for row, values in zip(ids, entries.toarray().astype(float), strict=True):
            s = slopes_of(values, x[row], Y) * (values != 0)
            gradient += s[:, None] * x[row] / 16
    np.testing.assert_allclose(moved.parameter("items"), Y - 0.5 * gradient, rtol=1e-3, atol=1e-5)


def test_standing() -> None:
    X = np.array([[1, -1, -2, -3, 0], [1, 1, -1, 0, 0], [0, -1, 0, 0, 0], [1, 0, 0, 0, 0]], float)
    x, Y = np.ones((4, 1)), np.array([[2.0], [1.0], [3.0], [0.0], [9.0]])
    cache = MatCache(threads=1)
    u, V = (from_array(cache, a.astype(np.float32), name) for a, name in ((x, "x"), (Y, "Y")))
    share, both = standing(from_sparse(cache, sp.csr_array(X.astype(np.float32)), "X"), u, V)
    np.testing.assert_allclose(share.numpy()[:, 0], [2 / 3, 0.0, 0.0, 0.0], rtol=1e-6)
    assert both.numpy()[:, 0].tolist() == [1, 1, 0, 0]


def test_planted_groups_are_found() -> None:
    """Lists have the items of the user's group, for users of the training and for new ones."""
    X = planted()
    model = Ranking(rank=4, negatives=12, reg=0.05)
    learner = bl.Learner(
        model, X, eval=0.2, passes=25, block_rows=20, threads=1, verbose=False,
        hooks=[bl.RankingEvaluation(5)],
    ).fit()  # fmt: skip
    scores = learner.progress.scores
    assert scores["above_random"] > 0.7 and scores["ndcg@5"] > 0.3  # of chance: 0.5 and 0.1
    new = planted(seed=9)
    group = np.array([np.bincount(new[[u]].indices % GROUPS).argmax() for u in range(USERS)])
    lists = bl.fold_in(learner, new) @ learner.parameter("items").T
    lists[new.toarray() > 0] = -np.inf
    best = np.argsort(-lists, axis=1)[:, :3] % GROUPS
    assert (best == group[:, None]).mean() > 0.8


def test_values_and_stored_zeros_do_not_matter() -> None:
    X = planted()
    more = X.copy()
    more.data *= np.arange(1, X.nnz + 1)
    zeros = sp.csr_array(X + sp.csr_array((np.zeros(1), ([3], [5])), X.shape))

    def users(data: Any) -> Any:
        model = Ranking(rank=3, negatives=5)
        return bl.Learner(model, data, passes=2, block_rows=32, threads=1, seed=1).fit()

    wanted = users(X)
    for other in (more, zeros):
        found = users(other)
        np.testing.assert_array_equal(found.row_state("users"), wanted.row_state("users"))
        np.testing.assert_array_equal(found.parameter("items"), wanted.parameter("items"))


def test_dense_data_are_refused() -> None:
    with pytest.raises((ShapeError, bl.datasources.DataError), match="is dense"):
        bl.Learner(Ranking(rank=2), MatrixSource(np.ones((4, 3))))


def test_the_best_penalty_is_chosen() -> None:
    learner = bl.Learner(Ranking(rank=3, reg="auto"), planted(), passes=4, threads=1, verbose=False)
    choice = bl.choose(learner)
    assert choice is not None and choice.metric == "ndcg@10" and len(choice.tried) == 4
    best = max(choice.tried, key=lambda tried: tried.score)
    assert learner.model.reg == best.settings["reg"]  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="Ranking: reg=auto: must be chosen before training"):
        bl.Learner(Ranking(rank=3, reg="auto"), planted(), threads=1).fit()


def test_the_estimator() -> None:
    pytest.importorskip("sklearn", reason="needs scikit-learn")
    X = planted()
    found = bl.Ranking(3, random_state=2, max_iter=6, n_jobs=1).fit(X)
    assert found.chosen_ in [{"regularization": t["regularization"]} for t in found.tried_]
    given = bl.Ranking(3, random_state=2, max_iter=6, n_jobs=1, **found.chosen_).fit(X)
    np.testing.assert_array_equal(found.item_factors_, given.item_factors_)
    ids, scores = found.recommend([4, 9], X[[4, 9]], N=3)
    assert ids.shape == (2, 3) and (np.diff(scores) <= 0).all()
    assert not set(ids[0]) & set(X[[4]].indices)
    part, whole = found.transform(X[3:7]), found.transform(X)
    np.testing.assert_array_equal(part, whole[3:7])
    assert found.score(X) > 0.3
    np.testing.assert_array_equal(found.to_learner().predict(X), whole)


def test_commands(command: Learn, tmp_path: Path) -> None:
    """Train, resume, evaluate, recommend, similar, predict, factors."""
    X = planted().tocoo()
    lines = [f"u{u},i{i}" for u, i in zip(X.row, X.col, strict=True)]
    (tmp_path / "r.csv").write_text("\n".join(["user,item", *lines]) + "\n")
    (tmp_path / "c.yaml").write_text(
        "model: {kind: ranking, rank: 4, reg: 0.1}\n"
        "data: {train: {kind: ratings, path: r.csv, rating: null}, block_rows: 32,"
        " eval: {kind: holdout, share: 0.2}}\n"
        "learner: {passes: 6, threads: 1, report: true}\n"
    )
    code, told, _ = command("--config", "c.yaml", "--out", "run")
    assert code == 0 and "ndcg@10" in told and "recommended" in told and "alike" in told
    assert command("--config", "c.yaml", "--out", "part", "--set", "learner.passes=2")[0] == 0
    assert command("--config", "c.yaml", "--out", "part", "--resume", "auto")[0] == 0
    whole, part = bl.load("run"), bl.load("part")
    np.testing.assert_array_equal(part.row_state("users"), whole.row_state("users"))
    np.testing.assert_array_equal(part.parameter("items"), whole.parameter("items"))
    (tmp_path / "users.txt").write_text("u1\nu2\n")
    (tmp_path / "items.txt").write_text("i3\n")
    code, told, _ = command("recommend", "run", "--users", "users.txt", "--top", "3")
    assert code == 0 and told.startswith("u1: i")
    code, told, _ = command("similar", "run", "--items", "items.txt", "--top", "3")
    assert code == 0 and told.startswith("i3: i")
    (tmp_path / "new.csv").write_text("user,item\nnew,i1\nnew,i5\n")
    code, told, _ = command("recommend", "run", "--data", "new.csv", "--top", "2")
    assert code == 0 and told.startswith("new: i")
    (tmp_path / "held.csv").write_text("user,item\nu1,i3\nu2,i7\n")
    code, told, _ = command("evaluate", "run", "--data", "held.csv")
    assert code == 0 and "ndcg@10" in told and "above_random" in told
    (tmp_path / "pairs.csv").write_text("user,item\nu1,i3\nwho,i7\n")
    code, told, _ = command("predict", "run", "--pairs", "pairs.csv")
    assert code == 0 and "user unknown" in told
