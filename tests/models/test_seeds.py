"""Seed words of LDA: the prior, names in outputs, refusals."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.fields import FieldError
from blocklearn.learner.page.topic_sections import topic_sections
from blocklearn.learner.reports.lines import prediction_lines, topic_lines, topics_json
from blocklearn.learner.results.predictions import predict_blocks, prediction_names
from blocklearn.learner.storage.export import export
from blocklearn.learner.storage.model_folder import load
from blocklearn.models.errors import ModelConfigError
from blocklearn.models.lda.seeds import problem, seed_table
from blocklearn.optimizers import StreamingAverage
from tests.support.corpora import planted

WORDS = [f"w{number}" for number in range(40)]  # ten of each planted topic
SEEDS = {"third": ["w20", "w25"], "first": ["w3"]}


def source(X: Any) -> bl.datasources.MatrixSource:
    return bl.datasources.MatrixSource(X, block_rows=100, names=WORDS)


def learner_of(inference: Any = "cvb0", **options: Any) -> bl.Learner:
    X, _ = planted(400, 40, 4)
    model = bl.models.LDA(topics=4, inference=inference, seeds=SEEDS, **options)
    return bl.Learner(model, source(X), passes=5, threads=1).fit()


def test_the_prior_has_tokens_of_seeds() -> None:
    table = seed_table(SEEDS, WORDS, 40, 4, 7.0)
    assert table.dtype == np.float32 and table.sum() == 21.0
    assert table[20, 0] == table[25, 0] == table[3, 1] == 7.0
    numbered = seed_table({"a": ["3", "3"]}, None, 5, 2, 2.0)
    assert numbered.tolist() == [[0, 0], [0, 0], [0, 0], [2, 0], [0, 0]]


def test_hashed_words_all_have_a_column() -> None:
    names = bl.datasources.HashedWords(4)
    table = seed_table({"net": ["socket"], "five": ["#5"]}, names, 16, 2, 2.0)
    assert np.argwhere(table).tolist() == sorted([[names.column("socket"), 0], [5, 1]])
    features = bl.datasources.HashedWords(4, ["price"])  # of a table: known by their names alone
    with pytest.raises(ModelConfigError, match="Write it as the data do"):
        seed_table({"net": ["socket"]}, features, 17, 1, 2.0)


@pytest.mark.parametrize("inference", ["vb", "cvb0", "gibbs"])
def test_seeded_topics_are_those_of_their_words(inference: Any) -> None:
    lam = learner_of(inference).parameter("lambda")
    shares = np.add.reduceat(lam / lam.sum(axis=0), range(0, 40, 10), axis=0)
    assert shares[2, 0] > 0.6 and shares[0, 1] > 0.6  # of planted topics: the third, the first


def test_one_step_adds_the_prior_to_the_counts() -> None:
    """A step of rate 1 without words leaves eta and the seeds' tokens."""
    model = bl.models.LDA(topics=4, inference="cvb0", seeds=SEEDS, seed_weight=5.0, eta=0.25)
    empty = source(sp.csr_array((100, 40), dtype=np.float32))
    step = StreamingAverage(tau0=1.0, kappa=0.0)
    found = bl.Learner(model, empty, passes=1, optimizer=step, threads=1).fit()
    wanted = 0.25 + seed_table(SEEDS, WORDS, 40, 4, 5.0)
    np.testing.assert_array_equal(found.parameter("lambda"), wanted)


def test_named_topics_keep_their_names(tmp_path: Any) -> None:
    learner = learner_of()
    bl.save(learner, tmp_path / "model")
    for each in (learner, bl.load(tmp_path / "model")):
        assert each.model.topic_names == ["third", "first", "2", "3"]
        heads = [line.split()[0] for line in topic_lines(each, 3)]
        assert heads == ["third", "first", "2", "3"]
        assert [t["name"] for t in json.loads(topics_json(each, 2))] == heads
        page = "".join(map(str, topic_sections(each, None)))
        assert "<h3>third<" in page and "<h3>topic 2<" in page and "topic 0" not in page
        assert "third: w2" in page  # on the map
        X = np.zeros((1, 40), np.float32)
        X[0, 20:30] = 5.0
        (line,) = prediction_lines(each, predict_blocks(each, source(sp.csr_array(X))))
        assert "% third (0)" in line
        assert prediction_names(each) == heads
    export(load(tmp_path / "model"), tmp_path / "lambda.csv", "lambda")
    first = (tmp_path / "lambda.csv").read_text().splitlines()[0]
    assert first == '"number","name","lambda.third","lambda.first","lambda.2","lambda.3"'
    plain = bl.Learner(bl.models.LDA(topics=4, inference="cvb0"), source(sp.csr_array(X)))
    assert prediction_names(plain.fit()) is None


def two_subjects() -> Any:
    """Return counts of 300 documents: 20 words of each of one or two of three subjects."""
    rng = np.random.default_rng(1)
    X = np.zeros((300, 30), np.float32)
    for row in X:
        for subject in rng.permutation(3)[: rng.integers(1, 3)]:
            np.add.at(row, 10 * subject + rng.integers(0, 10, 20), 1)
    return sp.csr_array(X)


@pytest.mark.parametrize("seed", range(4))
def test_topics_that_are_kept_are_those_of_their_seeds(seed: int) -> None:
    """With drawn topics from the first pass on, some of these runs lost them."""
    model = bl.models.LDA(topics=3, seeds={"last": ["w28"], "first": ["w3"]})
    data = bl.datasources.MatrixSource(two_subjects(), names=WORDS[:30])
    learner = bl.Learner(model, data, passes=60, seed=seed, threads=1).fit()
    assert (learner.model.warm_up, learner.model.fresh_passes) == (1, 7)
    lam = learner.parameter("lambda")
    shares = np.add.reduceat(lam / lam.sum(axis=0), range(0, 30, 10), axis=0)
    assert shares[2, 0] > 0.7 and shares[0, 1] > 0.7


def test_seeds_choose_a_first_pass_of_cvb0() -> None:
    seeds = {"a": ["1"]}
    assert [bl.models.LDA(topics=k, seeds=seeds).warm_up for k in (2, 300)] == [1, 1]
    model = bl.models.LDA(topics=2, seeds=seeds)
    assert model.for_run(60).warm_up == model.for_run(5).warm_up == 1
    assert bl.models.LDA(topics=2, seeds=seeds, warm_up=0).for_run(60).warm_up == 0
    begun = {"warm_up": 0, "assignments": "auto"}  # of an earlier version
    assert model.for_run(60, begun).warm_up == 0
    long = bl.datasources.MatrixSource(two_subjects() * 20, names=WORDS[:30])
    assert model.for_run(5).for_data(long, 5).warm_up == 1


@pytest.mark.parametrize(
    "seeds, message",
    [
        ({"a": ["x"], "b": ["x"], "c": ["x"]}, "seeds has 3 topics, but there are 2"),
        ({" ": ["x"]}, "must be a name"),
        ({"a\x1b[1m": ["x"]}, r"seeds\.'a\\x1b\[1m': must be a name"),
        ({"a": []}, r"seeds\.a: must be words"),
        ({"1": ["x"]}, r"seeds\.1: must be a name: another topic has this number"),
    ],
)
def test_seeds_that_make_no_sense(seeds: Any, message: str) -> None:
    with pytest.raises(FieldError, match=message):
        bl.models.LDA(topics=2, seeds=seeds)


@pytest.mark.parametrize("names", [["1", "0"], ["in\u00a0print", "\u0645\u06cc\u200c\u062e"]])
def test_names_that_are_no_words(names: list[str]) -> None:
    """Numbers of topics that have names, too; spaces and joiners that are not printed."""
    assert problem({name: ["x"] for name in names}, 3) is None


def test_many_topics_take_no_time_to_check() -> None:
    assert problem({"a": ["x"], "1": ["y"], "01": ["z"], "²": ["x"]}, 2**62) is None
    assert "seeds.77: must be a name" in str(problem({"77": ["x"]}, 2**62))


def test_a_seed_that_names_two_columns() -> None:
    with pytest.raises(ModelConfigError, match="'w3': must name one column, and several have"):
        seed_table(SEEDS, [*WORDS[:-1], "w3"], 40, 4, 5.0)
    seed_table(SEEDS, [*WORDS[:-1], "w4"], 40, 4, 5.0)  # not a seed


def test_a_seed_that_the_data_do_not_have() -> None:
    model = bl.models.LDA(topics=2, inference="cvb0", seeds={"a": ["w1", "wx"]})
    X, _ = planted(100, 40, 4)
    with pytest.raises(ModelConfigError, match=r"seeds\.a='wx': must be a word of the data"):
        bl.Learner(model, source(X)).fit()
    with pytest.raises(ModelConfigError, match="'w1': must be a column's number below 40"):
        bl.Learner(model, X).fit()
