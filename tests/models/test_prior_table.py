"""A prior for each word in each topic: arrays, files, saved models, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.learner.command_line.cli import main
from blocklearn.learner.results.predictions import prediction_names
from blocklearn.models.errors import ModelConfigError
from blocklearn.models.lda.prior_table import PriorTable
from blocklearn.models.lda.seeds import seed_table
from blocklearn.optimizers import StreamingAverage
from tests.support.corpora import planted

WORDS = [f"w{number}" for number in range(40)]  # ten of each planted topic
PRIOR = np.full((40, 4), 0.1, np.float32)
PRIOR[20:23, 0] = PRIOR[0:3, 1] = 50.0  # the third planted topic, the first


def source(X: Any) -> bl.datasources.MatrixSource:
    return bl.datasources.MatrixSource(X, block_rows=100, names=WORDS)


def learner_of(inference: Any = "cvb0", eta: Any = PRIOR, **options: Any) -> bl.Learner:
    X, _ = planted(400, 40, 4)
    model = bl.models.LDA(topics=4, inference=inference, eta=eta, **options)
    return bl.Learner(model, source(X), passes=5, threads=1).fit()


@pytest.mark.parametrize("inference", ["vb", "cvb0", "gibbs"])
def test_topics_are_those_of_their_priors(inference: Any) -> None:
    lam = learner_of(inference).parameter("lambda")
    shares = np.add.reduceat(lam / lam.sum(axis=0), range(0, 40, 10), axis=0)
    assert shares[2, 0] > 0.6 and shares[0, 1] > 0.6


@pytest.mark.parametrize("seeds", [{}, {"third": ["w20", "w25"]}])
def test_one_step_adds_the_prior_to_the_counts(seeds: Any) -> None:
    """A step of rate 1 without words leaves the prior, and the seeds' tokens."""
    model = bl.models.LDA(topics=4, inference="cvb0", eta=PRIOR, seeds=seeds, seed_weight=5.0)
    empty = source(sp.csr_array((100, 40), dtype=np.float32))
    step = StreamingAverage(tau0=1.0, kappa=0.0)
    found = bl.Learner(model, empty, passes=1, optimizer=step, threads=1).fit()
    wanted = PRIOR + seed_table(seeds, WORDS, 40, 4, 5.0)
    np.testing.assert_allclose(found.parameter("lambda"), wanted, rtol=1e-6)
    np.testing.assert_array_equal(found.parameter("eta"), wanted)


def test_equal_priors_are_that_of_one_number() -> None:
    """Beside the first values of lambda, a table of one number is this number."""
    X, _ = planted(400, 40, 4)
    step = StreamingAverage(tau0=1.0, kappa=0.0)  # forgets the first values
    found = [
        bl.Learner(
            bl.models.LDA(topics=1, inference="cvb0", eta=eta),
            source(X),
            passes=1,
            optimizer=step,
            threads=1,
        )
        .fit()
        .parameter("lambda")
        for eta in (0.3, np.full((40, 1), 0.3, np.float32))
    ]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5)


@pytest.mark.slow
def test_kept_assignments_take_it() -> None:
    kept = learner_of("gibbs", assignments="kept", warm_up=1, fresh_passes=0).parameter("lambda")
    assert kept[20:30, 0].sum() > 0.6 * kept[:, 0].sum()


def test_replicas_keep_it() -> None:
    X, _ = planted(400, 40, 4)
    model = bl.models.LDA(topics=4, inference="cvb0", eta=PRIOR)
    learner = bl.Learner(model, source(X), passes=2, replicas=3, threads=3).fit()
    np.testing.assert_array_equal(learner.parameter("eta"), PRIOR)  # merged, to the bit


def test_a_saved_model_needs_no_file(tmp_path: Path) -> None:
    np.save(tmp_path / "prior.npy", PRIOR)
    learner = learner_of(eta={"path": str(tmp_path / "prior.npy")})
    np.testing.assert_array_equal(learner.parameter("lambda"), learner_of().parameter("lambda"))
    bl.save(learner, tmp_path / "model")
    (tmp_path / "prior.npy").unlink()
    loaded, X = bl.load(tmp_path / "model"), planted(100, 40, 4, seed=1)[0]
    np.testing.assert_array_equal(loaded.parameter("eta"), PRIOR)
    np.testing.assert_array_equal(loaded.predict(X), learner.predict(X))
    loaded.fit(source(X))
    np.testing.assert_array_equal(loaded.parameter("eta"), PRIOR)
    with pytest.raises(FileNotFoundError):
        bl.Learner(loaded.model, source(X)).fit()


def test_tables_name_their_words(tmp_path: Path) -> None:
    names = {"word": ["w3", "elsewhere", "w1"], "sea": [2.0, 9.0, 3], "land": [0.5, 9.0, 1.5]}
    text = "word,sea,land\nw3,2,0.5\nelsewhere,9,9\nw1,3,1.5\n"
    (tmp_path / "p.csv").write_text(text)
    (tmp_path / "p.tsv").write_text(text.replace(",", "\t"))
    pq.write_table(pa.table(names), tmp_path / "p.parquet")
    wanted = [[0.25, 0.25], [3, 1.5], [0.25, 0.25], [2, 0.5]]
    for kind in ("csv", "tsv", "parquet"):
        prior = PriorTable(path=str(tmp_path / f"p.{kind}"), other=0.25)
        assert prior.numbers(["w0", "w1", "w2", "w3"], 4, 2).tolist() == wanted
    (tmp_path / "n.csv").write_text("word,a,b\n1,2,3\n")
    numbered = PriorTable(path=str(tmp_path / "n.csv"), other=1.0)
    assert numbered.numbers(None, 3, 2).tolist() == [[1, 1], [2, 3], [1, 1]]


@pytest.mark.parametrize(
    "prior, message",
    [
        (PRIOR.T, r"\[4, 40\]: must be numbers \[words x topics\], here \[40, 4\]. Transpose it"),
        (PRIOR - 0.1, r"word 0, topic 0 has 0.0: must be numbers above 0"),
        (np.where(PRIOR > 1, np.nan, PRIOR), r"word 0, topic 1 has nan: must be numbers above 0"),
        ("word,a,b,c\nw1,1,1,1\n", r"p.csv: 3 columns beside 'word': must be 4"),
        ("word,a,b,c,d\nw1,1,1,1,1\nw1,1,1,1,1\n", r"the word 'w1' has two rows"),
        ("word,a,b,c,d\nx,1,1,1,1\n", r"none of its 1 words is in the data"),
        ("word,a,b,c,d\nw1,1,,1,1\n", r"word 1, topic 1 has nan: must be numbers above 0"),
        ("name,a,b,c,d\nw1,1,1,1,1\n", r"p.csv: 5 columns beside 'word': must be 4"),
    ],
)
def test_what_is_no_prior_is_refused(tmp_path: Path, prior: Any, message: str) -> None:
    if isinstance(prior, str):
        (tmp_path / "p.csv").write_text(prior)
        table = PriorTable(path=str(tmp_path / "p.csv"))
    else:
        table = PriorTable.of(prior)
    with pytest.raises(ModelConfigError, match=message):
        table.numbers(WORDS, 40, 4)
    with pytest.raises(ModelConfigError, match="eta.path=null: must be a file"):
        PriorTable().numbers(WORDS, 40, 4)


def test_a_configuration_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sp.save_npz("docs.npz", planted(60, 40, 4)[0])
    Path("vocab.txt").write_text("\n".join(WORDS))
    Path("prior.csv").write_text("word,a,b,c,d\nw3,9,1,1,1\n")
    Path("run.yaml").write_text(
        "model: {kind: lda, topics: 4, inference: cvb0, eta: {path: prior.csv, other: 0.1}}\n"
        "data: {train: {kind: file, path: docs.npz}}\n"
    )
    with pytest.raises(SystemExit) as stop:
        main(["--config", "run.yaml", "--out", "run", "-q"])
    assert stop.value.code == 0
    eta = bl.load("run").parameter("eta")
    assert bl.load("run").model.topic_names == ["a", "b", "c", "d"]
    with pytest.raises(SystemExit) as stop:
        main(["--config", "run.yaml", "--out", "run", "-q", "--resume", "auto", "--set",
              "learner.passes=2"])  # fmt: skip
    assert stop.value.code == 0
    Path("prior.csv").unlink()
    again = bl.load("run")
    assert again.model.topic_names == prediction_names(again) == ["a", "b", "c", "d"]
    assert eta[3].tolist() == [9, 1, 1, 1] and (np.delete(eta, 3, axis=0) == np.float32(0.1)).all()


def test_the_estimator_takes_topics_by_words(tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason="needs scikit-learn")
    X, _ = planted(400, 40, 4)
    lda = bl.LatentDirichletAllocation(
        4, inference="cvb0", topic_word_prior=PRIOR.T, random_state=0, n_jobs=1, max_iter=3
    ).fit(X)
    assert lda.components_[0, 20:30].sum() > 0.6 * lda.components_[0].sum()
    np.testing.assert_allclose(lda.transform(X).sum(axis=1), 1.0, rtol=1e-5)
    lda.partial_fit(X)
    bl.save(lda.to_learner(), tmp_path / "model")
    np.testing.assert_array_equal(bl.load(tmp_path / "model").parameter("eta"), PRIOR)
