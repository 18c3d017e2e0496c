"""Saved models are used where they lie: in their files, whose pages are asked for if need be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.learner.files.paging import PAGE, pages_of
from blocklearn.learner.training.replicas.committing import in_lent
from blocklearn.models import ALS, GLM

FEATURES, ROWS = 3000, 200
WEIGHTS = "weights.safetensors"


def clicks() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = sp.random_array((ROWS, FEATURES), density=0.003, rng=rng, dtype=np.float32, format="csr")
    return X, (rng.random((ROWS, 2)) < 0.3).astype(np.float32)


def trained(model: Any = "glm", **settings: Any) -> bl.Learner:
    return bl.Learner(model, clicks(), block_rows=64, threads=2, verbose=False, **settings).fit()


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    bl.save(trained(), tmp_path / "model")
    return tmp_path / "model"


def small_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {"left in the control group": 1000}
    monkeypatch.setattr("blocklearn.learner.files.lent_tables.memory_limits", lambda: limits)


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("fits", [True, False])
def test_predictions_read_the_file(
    replicas: int, fits: bool, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the bits of the model that was saved, whether it fits into memory or not."""
    if not fits:
        small_memory(monkeypatch)
    before = (saved / WEIGHTS).read_bytes()
    learner, (X, Y) = bl.load(saved, replicas=replicas), clicks()
    assert learner.predict(X).tobytes() == trained().predict(X).tobytes()
    scores = learner.evaluate((X, Y))
    assert scores["log_loss"] == pytest.approx(trained().evaluate((X, Y))["log_loss"], rel=1e-6)
    weights = learner.state().tensors["W"]
    assert learner.team is not None
    for replica in learner.team.replicas:
        assert replica.model.parameters["W"].slot.array is weights
        assert replica.optimizer is None
        assert [len(table.array) for table in replica.lent.paged] == ([] if fits else [FEATURES])
    learner.parameter("W")[:] = 0.0  # a copy
    learner.team.first.model.parameters["W"].set(1.0)
    assert (saved / WEIGHTS).read_bytes() == before


def test_readers_ask_for_the_pages_of_blocks(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_memory(monkeypatch)
    asked: list[int] = []

    def fetch(tables: Any, rows: Any) -> None:
        asked.append(len(rows))

    monkeypatch.setattr("blocklearn.learner.files.lent_tables.fetch_rows", fetch)
    X, _ = clicks()
    sparse = bl.load(saved).predict(X)
    assert sum(asked) == X.nnz
    dense = bl.load(saved).predict(X.toarray())  # reads all rows: nothing is asked for
    assert sum(asked) == X.nnz
    np.testing.assert_allclose(dense, sparse, rtol=1e-5)


MODELS = [
    pytest.param({"kind": "lda", "topics": 5, "inference": "vb"}, id="vb"),
    pytest.param({"kind": "fm", "factors": 5}, id="fm"),
]
MORE = {
    "gibbs": {"kind": "lda", "topics": 5, "inference": "gibbs"},
    "nmf": {"kind": "nmf", "components": 5},
    "nmf of counts": {"kind": "nmf", "components": 5, "loss": "kullback-leibler"},
    "k-means": {"kind": "kmeans", "clusters": 5},
}
RARE = [pytest.param(model, id=name, marks=pytest.mark.slow) for name, model in MORE.items()]


@pytest.mark.parametrize("model", [*MODELS, *RARE])
def test_predictions_need_no_table_of_all_columns(model: Any, tmp_path: Path) -> None:
    """No memory beside the file holds as much as a column for each feature of two or more."""
    learner = trained(model, passes=2)
    bl.save(learner, tmp_path / "model")
    loaded, (X, Y) = bl.load(tmp_path / "model"), (part[:60] for part in clicks())
    assert loaded.predict(X).tobytes() == learner.predict(X).tobytes()
    given = (X, Y) if model["kind"] == "fm" else X
    assert loaded.evaluate(given) == learner.evaluate(given)
    assert loaded.team is not None
    replica = loaded.team.first
    own = {mat.slot.label for mat in in_lent(replica).values()}
    large = [each for each in replica.cache.plan() if each.shape[0] == FEATURES]
    assert all(each.shape[1] == 1 or each.label in own for each in large)


@pytest.mark.parametrize("model", MODELS)
def test_later_data_may_have_fuller_blocks(model: Any) -> None:
    learner, (X, _) = trained(model), clicks()
    before = learner.predict(X)
    rng = np.random.default_rng(1)
    full = sp.random_array((64, FEATURES), density=0.2, rng=rng, dtype=np.float32, format="csr")
    alone = trained(model).predict(full[:1])
    np.testing.assert_allclose(learner.predict(full)[:1], alone, rtol=1e-5)
    assert learner.predict(X).tobytes() == before.tobytes()


def test_a_model_is_trained_further_after_predictions(saved: Path) -> None:
    """Its position and the file stay as they were."""
    X, Y = clicks()
    used, fresh = bl.load(saved), bl.load(saved)
    used.predict(X)
    assert used.state().position == fresh.state().position
    used.close()
    used.predict(X)
    wanted = fresh.fit((X, Y)).parameter("W")
    assert used.fit((X, Y)).parameter("W").tobytes() == wanted.tobytes()
    assert np.abs(wanted - bl.load(saved).parameter("W")).max() > 0


def test_a_state_of_training_replaces_a_saved_model(saved: Path) -> None:
    """It has more arrays than predictions plan, so replicas are made anew."""
    X, _ = clicks()
    learner, other = bl.load(saved), trained(passes=2)
    learner.predict(X)
    learner.restore(other.state())
    assert learner.predict(X).tobytes() == other.predict(X).tobytes()


class Drawn(GLM):
    """Draws its weights by an assignment of its own, after it has made the parameter."""

    kind: Any = "drawn"

    def allocate(self, shapes: Any, rng: Any) -> None:
        super().allocate(shapes, rng)
        self.W <<= rng.normal(*self.W.shape)


def test_what_a_model_assigns_at_first_does_not_reach_the_file(tmp_path: Path) -> None:
    X, _ = clicks()
    learner = trained(Drawn())
    bl.save(learner, tmp_path / "model")
    loaded = bl.load(tmp_path / "model", Drawn)
    assert loaded.predict(X).tobytes() == learner.predict(X).tobytes()


def test_states_of_rows_lie_in_the_file(tmp_path: Path) -> None:
    X = abs(clicks()[0])
    learner = bl.Learner(ALS(rank=4), X, block_rows=64, threads=2, verbose=False).fit()
    bl.save(learner, tmp_path / "model")
    loaded = bl.load(tmp_path / "model")
    assert loaded.predict(X[:20]).tobytes() == learner.predict(X[:20]).tobytes()
    for name in ("users", "items"):
        assert loaded.row_state(name) is loaded.state().tensors[name]


def test_pages_of_parts_that_begin_within_a_page() -> None:
    """The file has a header, so rows may cross the borders of pages."""
    found = pages_of(np.array([0, 3, 7]), PAGE, 8 * PAGE, start=100)
    assert (found // PAGE).tolist() == [[0, 2], [3, 2], [7, 2]]
    last = pages_of(np.array([7]), PAGE, 8 * PAGE - 200, start=100)
    assert (last // PAGE).tolist() == [[7, 1]]
