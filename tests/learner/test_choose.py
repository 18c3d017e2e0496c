"""Settings that are chosen by trials: `reg: auto`."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.datasources import BlockShape, IterableSource, MatrixSource, entry_filter
from blocklearn.learner.choosing import choose
from blocklearn.learner.choosing.choose import MARGIN, PASSES, moments_of
from blocklearn.learner.choosing.parts import PARTS, SHARE, STREAM, in_turn
from blocklearn.learner.configuration.yaml_tree import parse_file
from blocklearn.models import ALS, ValueMoments
from tests.support.learn_command import Learn
from tests.support.often import first_often

WEIGHTS = ("reg", "row_reg", "bias_reg")


def ratings(noise: float = 0.5, scale: float = 1.0) -> Any:
    """Ratings of planted rank 2 with biases, about 25 for each of 80 users."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(0, 1, (80, 2)), rng.normal(0, 1, (60, 2))
    clean = 10 + rng.normal(0, 0.5, (80, 1)) + rng.normal(0, 0.5, (1, 60)) + x @ y.T
    found = clean + rng.normal(0, noise, clean.shape)
    return sp.csr_array(scale * found * (rng.random(clean.shape) < 0.4))


def learner(X: Any, **settings: Any) -> bl.Learner:
    model = ALS(**({"rank": 3, "reg": "auto"} | settings))
    return bl.Learner(model, X, passes=8, threads=1, seed=3, verbose=False)


@pytest.mark.parametrize("few", [False, True])
def test_the_best_of_the_trials_is_chosen(few: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores are those of trainings by hand, on parts of the entries that the seed decides."""
    X = ratings()
    made = learner(X)
    parts: list[Any]
    if few:
        parts = in_turn(MatrixSource(X), 3)
    else:
        monkeypatch.setattr(choose, "FEW", X.nnz - 1)
        source = MatrixSource(X)
        parts = [entry_filter(source, SHARE, 3 + STREAM, held=held) for held in (False, True)]
    choice = bl.choose(made)
    assert choice is not None and choice.metric == "rmse" and choice.passes == PASSES
    assert choice.parts == (PARTS if few else 1)
    for tried in (choice.tried[0], choice.tried[-1]):
        model = ALS(rank=3, **tried.settings)  # type: ignore[arg-type]
        by_hand = bl.Learner(model, *parts, passes=PASSES, threads=1, seed=3, verbose=False).fit()
        assert by_hand.progress.scores["rmse"] == tried.score
    best = min(choice.tried, key=lambda tried: tried.score)
    assert choice.settings == best.settings
    assert {name: getattr(made.model, name) for name in WEIGHTS} == best.settings
    assert made.model.undecided is None and bl.choose(made) is None
    chosen = ALS(rank=3, **best.settings)  # type: ignore[arg-type]
    given = bl.Learner(chosen, X, passes=8, threads=1, seed=3, verbose=False).fit()
    np.testing.assert_array_equal(made.fit().row_state("users"), given.row_state("users"))


def test_few_entries_are_each_held_out_once() -> None:
    """Copy p of the users and items lacks part p of the entries; empty ones have no copy."""
    X = ratings()
    X = sp.csr_array((X.data, X.indices, np.append(X.indptr, X.nnz)), shape=(81, 60))
    train, held = in_turn(MatrixSource(X, block_rows=16), 3)
    assert train.shape == held.shape == (PARTS * 80, PARTS * 60)
    found = (train + held).tocoo()
    assert (found.row // 80 == found.col // 60).all()
    copies = [(train + held)[80 * p : 80 * p + 80, 60 * p : 60 * p + 60] for p in range(PARTS)]
    assert all((copy != X[:80].astype(np.float32)).nnz == 0 for copy in copies)
    once = sum(held[80 * p : 80 * p + 80, 60 * p : 60 * p + 60] for p in range(PARTS))
    assert (once != X[:80].astype(np.float32)).nnz == 0
    sizes = [held[80 * p : 80 * p + 80].nnz for p in range(PARTS)]
    assert max(sizes) - min(sizes) <= 1
    other = in_turn(MatrixSource(X, block_rows=7), 3)
    assert all((a != b).nnz == 0 for a, b in zip((train, held), other, strict=True))


def test_copies_in_one_matrix_train_like_matrices_of_their_own() -> None:
    """Only the mean of all ratings, and the first random numbers, are others."""
    X = ratings()
    train, held = in_turn(MatrixSource(X), 3)
    model = ALS(rank=3, reg=0.1, bias_reg=2.0, solver="cholesky")
    errors = []
    for p in range(PARTS):
        part = np.s_[80 * p : 80 * p + 80, 60 * p : 60 * p + 60]
        own = bl.Learner(model, train[part], held[part], passes=30, threads=1, verbose=False).fit()
        errors.append(own.progress.scores["rmse"])
    whole = bl.Learner(model, train, held, passes=30, threads=1, verbose=False).fit()
    wanted = np.mean(np.square(errors)) ** 0.5
    assert whole.progress.scores["rmse"] == pytest.approx(wanted, rel=0.02)


def test_few_ratings_keep_biases_alone_unless_others_are_clearly_better() -> None:
    """Factors of small ratings explain less of them than the margin; larger ones more."""
    rng = np.random.default_rng(4)
    factors = rng.normal(0, 1, (80, 1)) @ rng.normal(0, 1, (1, 60))
    noise, known = rng.normal(0, 1, (80, 60)), rng.random((80, 60)) < 0.6
    clean = 5 + rng.normal(0, 1, (80, 1)) + rng.normal(0, 1, (1, 60))
    for size, alone in [(0.15, True), (1.0, False)]:
        choice = bl.choose(learner(sp.csr_array((clean + size * factors + noise) * known), rank=2))
        assert choice is not None
        safest, best = choice.tried[6], min(choice.tried, key=lambda tried: tried.score)
        assert safest.settings["row_reg"] > 1000  # type: ignore[operator]
        assert best is not safest and (safest.score < best.score * (1 + MARGIN)) == alone
        assert choice.settings == (safest if alone else best).settings


def test_noise_alone_leaves_biases_alone() -> None:
    """Ratings without any factor or bias get a penalty that leaves nothing of the factors."""
    rng = np.random.default_rng(1)
    X = sp.csr_array((5 + rng.normal(0, 1, (150, 120))) * (rng.random((150, 120)) < 0.2))
    choice = bl.choose(learner(X))
    assert choice is not None
    assert choice.settings == choice.tried[-1].settings
    assert choice.settings["row_reg"] > 1000 and choice.settings["bias_reg"] == 8.0  # type: ignore[operator]


def test_noisy_ratings_have_biases_with_a_larger_weight() -> None:
    """Twelve ratings a user, whose biases vary by a third of the noise or by three times it."""
    rng = np.random.default_rng(2)
    users, items = np.repeat(np.arange(300), 12), rng.integers(0, 60, 3600)
    noise, users_own, items_own = rng.normal(size=3600), rng.normal(size=300), rng.normal(size=60)
    for size, noisy in [(1 / 3, True), (3.0, False)]:
        rated = 3.0 + size * users_own[users] + 0.3 * items_own[items] + noise
        choice = bl.choose(learner(sp.csr_array((rated, (users, items)), (300, 60))))
        assert choice is not None and (choice.settings["bias_reg"] == 8.0) == noisy


def test_candidates_follow_the_scale_of_the_values() -> None:
    """Multiplied ratings have multiplied weights of factors, and the same choice."""
    one, ten = (
        bl.choose(learner(ratings(scale=scale), init_scale=0.01 * scale**0.5))
        for scale in (1.0, 10.0)
    )
    assert one is not None and ten is not None
    assert ten.settings["reg"] == pytest.approx(10 * one.settings["reg"], rel=0.01)  # type: ignore[operator]
    assert ten.settings["bias_reg"] == one.settings["bias_reg"] == 1.0
    for a, b in zip(one.tried, ten.tried, strict=True):
        assert b.score == pytest.approx(10 * a.score, rel=0.02)


@pytest.mark.parametrize(
    "fields",
    first_often(
        [
            {"loss": "implicit", "alpha": 5.0},
            {"weighted": False},
            {"biases": False},
            {"loss": "implicit", "weighted": False},
        ],
        2,
    ),
    ids=str,
)
def test_every_kind_of_penalty_has_candidates(fields: Any) -> None:
    X = abs(ratings())
    made = learner(X, **fields)
    choice = bl.choose(made)
    implicit = fields.get("loss") == "implicit"
    assert choice is not None and choice.metric == ("ndcg@10" if implicit else "rmse")
    scores = [tried.score for tried in choice.tried]
    best = max(scores) if implicit else min(scores)
    assert scores[[tried.settings for tried in choice.tried].index(choice.settings)] == best
    assert len({json.dumps(dict(tried.settings)) for tried in choice.tried}) == len(scores) >= 5
    assert (choice.settings["bias_reg"] is None) == (not made.model.has_biases)  # type: ignore[attr-defined]
    made.fit()


def test_moments() -> None:
    X = ratings()
    found = moments_of(MatrixSource(X, block_rows=16))
    wanted = ValueMoments(X.nnz, X.data.std(), abs(X.data).mean())
    assert found == pytest.approx(wanted, rel=1e-5)


def test_ratings_that_are_all_equal() -> None:
    """Every setting predicts them without any error, so none is better than biases alone."""
    X = sp.csr_array(np.eye(30) + np.eye(30, k=1))
    choice = bl.choose(learner(X))
    assert choice is not None and {tried.score for tried in choice.tried} == {0.0}
    assert choice.tried[0].settings["reg"] > 0  # type: ignore[operator]
    assert choice.settings == choice.tried[6].settings


@pytest.mark.parametrize("loss", ["explicit", "implicit"])
def test_too_few_entries_to_hold_any_out_take_the_first_candidate(loss: str) -> None:
    made = learner(sp.csr_array(np.eye(2)), loss=loss)
    choice = bl.choose(made)
    assert choice is not None and choice.settings == choice.tried[0].settings
    made.fit()


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="row_reg=2: must be left out with reg: auto"):
        ALS(reg="auto", row_reg=2.0)
    with pytest.raises(ValueError, match="bias_reg=1: must be left out with reg: auto"):
        ALS(reg="auto", bias_reg=1.0)
    with pytest.raises(ValueError, match="ALS: reg=auto: must be chosen before training"):
        learner(ratings()).fit()
    X = ratings()
    shape = BlockShape(rows=80, columns=60, nnz=X.nnz, total_rows=80)
    once = IterableSource(lambda pass_: [X], shape)
    with pytest.raises(ValueError, match="reg=auto: needs data whose rows keep their order"):
        bl.choose(learner(once))
    with pytest.raises(ValueError, match="reg=auto: needs data to try settings on"):
        bl.choose(learner(None))


def test_the_estimator_shows_what_it_tried() -> None:
    pytest.importorskip("sklearn", reason="needs scikit-learn")
    X = ratings()
    als = bl.ALS(3, random_state=3, max_iter=8, n_jobs=1).fit(X)
    assert als.chosen_ in [{k: v for k, v in t.items() if k != "score"} for t in als.tried_]
    assert set(als.chosen_) == {"regularization", "row_regularization", "bias_regularization"}
    given = bl.ALS(3, random_state=3, max_iter=8, n_jobs=1, **als.chosen_).fit(X)
    assert given.chosen_ == {} and given.tried_ == []
    np.testing.assert_array_equal(als.user_factors_, given.user_factors_)
    copy = pickle.loads(pickle.dumps(als))
    np.testing.assert_array_equal(copy.transform(X[:5]), given.transform(X[:5]))
    assert als.to_learner().model.reg == als.chosen_["regularization"]
    again = als.set_params(regularization=0.5).fit(X)
    assert again.chosen_ == {} and again.to_learner().model.reg == 0.5


CONFIG = """\
model: {kind: als, rank: 3, reg: auto}
data:
  train: {kind: ratings, path: r.npz}
  eval: {kind: holdout, share: 0.1}
  block_rows: 32
  shuffle: false
learner: {passes: 4, threads: 1, report: true}
"""


def test_runs_keep_what_they_chose(command: Learn, tmp_path: Path) -> None:
    """Numbers are in the run's files; a resumed run has the bits of one that never stopped."""
    X = ratings().tocoo()
    np.savez(tmp_path / "r.npz", user=X.row, item=X.col, rating=X.data)
    (tmp_path / "a.yaml").write_text(CONFIG)
    code, _, told = command("--config", "a.yaml", "--out", "whole")
    assert code == 0 and "chosen among 10 settings: reg=" in told and "rmse" in told
    tried = json.loads((tmp_path / "whole/tried.json").read_text())
    assert len({each["score"] for each in tried["tried"]} - {None}) == 10  # other than eval's tenth
    assert len(tried["tried"]) == 10 and tried["metric"] == "rmse"
    settings = parse_file(tmp_path / "whole/config.yaml").plain()["model"]
    assert {name: settings[name] for name in WEIGHTS} == tried["settings"]
    assert "Chosen settings" in (tmp_path / "whole/report.html").read_text()
    whole = bl.load("whole")
    assert whole.model.reg == tried["settings"]["reg"]  # type: ignore[attr-defined]

    short = ("--set", "learner.passes=2")
    assert command("--config", "a.yaml", "--out", "part", *short)[0] == 0
    assert json.loads((tmp_path / "part/tried.json").read_text())["passes"] == 2
    again = (
        "--set",
        f"model.reg={settings['reg']}",
        "--set",
        f"model.row_reg={settings['row_reg']}",
    )
    bias = ("--set", f"model.bias_reg={settings['bias_reg']}")
    assert command("--config", "a.yaml", "--out", "given", *short, *again, *bias)[0] == 0
    assert not (tmp_path / "given/tried.json").exists()
    code, _, told = command("--config", "a.yaml", "--out", "given", "--resume", "auto")
    assert code == 0 and "chosen among" not in told
    np.testing.assert_array_equal(bl.load("given").row_state("users"), whole.row_state("users"))


def test_a_dry_run_chooses_nothing(command: Learn, tmp_path: Path) -> None:
    X = ratings().tocoo()
    np.savez(tmp_path / "r.npz", user=X.row, item=X.col, rating=X.data)
    (tmp_path / "a.yaml").write_text(CONFIG)
    code, told, _ = command("--config", "a.yaml", "--dry-run")
    assert code == 0 and "reg=auto: chosen when the run starts" in told
