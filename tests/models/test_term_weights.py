"""term_weights: models read weighed counts everywhere, and keep the weights of columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.datasources import DataError, MatrixSource, WeightedSource
from blocklearn.learner.command_line.cli import main
from blocklearn.models.lda.settings import MANY_PASSES
from tests.support.model_variants import counts, labels

MODELS = [
    bl.models.LDA(topics=3, inference="cvb0", inner_iterations=3, term_weights="idf"),
    bl.models.NMF(components=3, term_weights="tf-idf"),
    bl.models.GLM(term_weights="pmi"),
    bl.models.KMeans(clusters=3, spherical=True, term_weights="tf-idf"),
]
OPTIONS: Any = {"passes": 2, "block_rows": 30, "threads": 1}


def data_for(model: Any) -> Any:
    return (counts(), labels()) if model.needs_targets else counts()


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.kind)
def test_training_scores_and_predictions_read_weighed_counts(model: Any) -> None:
    kind, targets = model.term_weights, labels() if model.needs_targets else None
    data = MatrixSource(counts(), targets=targets, block_rows=30)
    learner = bl.Learner(model, data, eval=data, **OPTIONS).fit()
    source = WeightedSource(data, kind)
    plain = model.model_copy(update={"term_weights": "none"})
    other = bl.Learner(plain, source, eval=source, **OPTIONS).fit()
    for name in other.model.parameters:
        np.testing.assert_array_equal(learner.parameter(name), other.parameter(name))
    assert learner.progress.scores == other.progress.scores
    new = MatrixSource(counts()[:7], block_rows=30)
    np.testing.assert_array_equal(
        learner.predict(counts()[:7]), other.predict(WeightedSource(new, kind, source.weights))
    )
    assert "term_weights" not in other.model.parameters
    np.testing.assert_array_equal(learner.parameter("term_weights")[:, 0], source.weights)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.kind)
def test_a_saved_model_keeps_its_weights(model: Any, tmp_path: Path) -> None:
    learner = bl.Learner(model, data_for(model), **OPTIONS).fit()
    weights = learner.parameter("term_weights")
    bl.save(learner, tmp_path / "m")
    loaded = bl.load(tmp_path / "m")
    new = counts()[::-1][:9]
    np.testing.assert_array_equal(loaded.predict(new), learner.predict(new))
    half = (counts()[:40], labels()[:40]) if model.needs_targets else counts()[:40]
    for further in (loaded, learner):
        further.fit(half)
        np.testing.assert_array_equal(further.parameter("term_weights"), weights)
    fresh = bl.Learner(loaded.model, half, **OPTIONS).fit()  # a new model of the same settings
    assert (fresh.parameter("term_weights") != weights).any()


def test_replicas_and_shares_have_the_weights_of_the_training_part() -> None:
    model = bl.models.NMF(components=3, term_weights="idf")
    learner = bl.Learner(model, counts(), eval=0.2, passes=2, replicas=2, threads=2, block_rows=16)
    learner.fit()
    wanted = WeightedSource(learner.train._source, "idf").weights  # type: ignore[union-attr]
    np.testing.assert_array_equal(learner.parameter("term_weights")[:, 0], wanted)
    assert learner.progress.scores["explained"] > 0


def test_kept_assignments_need_whole_numbers() -> None:
    options: Any = {"topics": 3, "sweeps": 2, "term_weights": "idf"}
    many = OPTIONS | {"passes": MANY_PASSES}
    auto = bl.Learner(bl.models.LDA(**options), counts(), **many).fit()
    assert "drawn afresh" in auto.team.first.model.notes[0]  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="counts must be whole numbers"):
        bl.Learner(bl.models.LDA(assignments="kept", **options), counts(), **OPTIONS).fit()


def test_what_has_no_weights_is_refused() -> None:
    model = bl.models.NMF(components=3, term_weights="tf-idf")
    with pytest.raises(DataError, match="tf-idf: the data are dense"):
        bl.Learner(model, counts().toarray())
    with pytest.raises(ValueError, match="nothing is trained or loaded yet"):
        bl.Learner(model).predict(counts())
    with pytest.raises(ValueError, match="term_weights='bm25': must be 'none'"):
        bl.models.NMF(term_weights="bm25")  # type: ignore[arg-type]


def test_the_command_weighs_new_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text("ship storm sail\nbread butter\nship ship bread\nstorm sail\n" * 9)
    Path("run.yaml").write_text(
        "model: {kind: nmf, components: 2, term_weights: tf-idf}\n"
        "data: {train: {kind: file, path: a.txt}}\n"
    )
    for line in (
        ["--config", "run.yaml", "--out", "run", "-q"],
        ["predict", "run", "--data", "a.txt", "--out", "p.npy"],
    ):
        with pytest.raises(SystemExit) as stop:
            main(line)
        assert stop.value.code == 0
    learner = bl.load("run")
    texts = Path("a.txt").read_text().splitlines()
    np.testing.assert_array_equal(np.load("p.npy"), learner.predict(texts))
    word = list(learner.names or ()).index("butter")
    assert learner.parameter("term_weights")[word, 0] == pytest.approx(np.log(37 / 10) + 1)


def test_a_matrix_that_was_weighed_elsewhere_is_taken_as_it_is() -> None:
    weighed = sp.csr_array(counts() * np.float32(0.5))
    learner = bl.Learner(bl.models.NMF(components=3), weighed, **OPTIONS).fit()
    assert "term_weights" not in learner.model.parameters
