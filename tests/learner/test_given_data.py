"""Data as users have them: texts, gensim corpora, frames, Arrow tables, classes, shares."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.datasources import DataError, MatrixSource, split_rows
from blocklearn.datasources.given import samples_of

TEXTS = ["A ship, a storm and a sail.", "", "bread with butter", "storm! storm over bread"]
WORDS = ["bread", "butter", "sail", "ship", "storm"]
COUNTS = [[0, 0, 1, 1, 1], [0, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 0, 0, 0, 2]]
COLUMNS = {"b": [1.0, 2.0, 3.0], "a": [4, 5, 6], "yes": [True, False, True]}
TABLE = [[1.0, 4.0, 1.0], [2.0, 5.0, 0.0], [3.0, 6.0, 1.0]]
FRAMES = {
    "pandas": pd.DataFrame(COLUMNS, index=[7, 8, 9]),
    "polars": pl.DataFrame(COLUMNS),
    "arrow": pa.table(COLUMNS),
    "batch": pa.RecordBatch.from_pydict(COLUMNS),
    "sparse": pd.DataFrame(COLUMNS).astype(pd.SparseDtype("float64", 0.0)),
}


def dense(X: Any) -> Any:
    return X.toarray().tolist() if sp.issparse(X) else X.tolist()


# ---- documents -----------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [list, np.array, pd.Series, pl.Series])
def test_texts_become_counts_with_words(make: Any) -> None:
    found = samples_of(make(TEXTS))
    assert found.names == WORDS and dense(found.X) == COUNTS


def test_words_and_pairs_become_the_same_counts() -> None:
    split = [[WORDS[w] for w, n in enumerate(row) for _ in range(n)] for row in COUNTS]
    assert dense(samples_of(split).X) == COUNTS
    pairs = [[(w, n) for w, n in enumerate(row) if n] for row in COUNTS]
    pairs[3] = [(4, 1), (0, 1), (4, 1)]  # a word twice, out of order
    found = samples_of(pairs)
    assert found.names is None and dense(found.X) == COUNTS
    assert samples_of(pairs, columns=7).X.shape == (4, 7)


def test_new_texts_are_counted_over_the_words_of_the_model() -> None:
    learner = bl.Learner(bl.models.LDA(topics=2), TEXTS, passes=1, threads=1).fit()
    assert list(learner.names or ()) == WORDS
    new = ["ship of bread and unknowns"]
    np.testing.assert_array_equal(
        learner.predict(new), learner.predict(sp.csr_array([[1.0, 0, 0, 1, 0]]))
    )
    for wrong in (["unknowns only"], [["unknowns"]]):
        with pytest.raises(DataError, match=r"1 documents without a word; the model knows none"):
            learner.predict(wrong)
    with pytest.raises(DataError, match="word number 5, but the model knows 5 words"):
        learner.predict([[(5, 1)]])


@pytest.mark.parametrize(
    "wrong, told",
    [
        (["a text", 3], "document 1 is '3' .int.: must be a text"),
        ([["word"], ["word", 3]], "document 1 .* must be a list of words"),
        ([[(0, 1)], [3]], "document 1: must be a list of pairs"),
        ([[(0.5, 1)]], "document 0: numbers of words must be 0, 1"),
        ([[(-1, 1)]], "document 0: numbers of words must be 0, 1"),
        (["", "--"], "2 documents without a word"),
    ],
)
def test_damaged_documents_are_named(wrong: Any, told: str) -> None:
    with pytest.raises(DataError, match=told):
        samples_of(wrong)


def test_texts_for_a_model_of_unnamed_columns_are_refused() -> None:
    learner = bl.Learner(bl.models.LDA(topics=2), np.ones((4, 3)), threads=1).fit()
    with pytest.raises(DataError, match="X has texts, but the model does not know the words"):
        learner.predict(["to be"])


# ---- frames --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", FRAMES)
def test_frames_keep_their_names(kind: str) -> None:
    found = samples_of(FRAMES[kind])
    assert found.names == ["b", "a", "yes"] and dense(found.X) == TABLE
    chosen = samples_of(FRAMES[kind], names=["yes", "b"])
    assert dense(chosen.X) == [[row[2], row[0]] for row in TABLE]


def test_a_pandas_frame_is_left_as_it_is() -> None:
    frame = pd.DataFrame([[1.0, 2.0]], columns=[3, 5])
    assert samples_of(frame).names == ["3", "5"] and list(frame.columns) == [3, 5]


@pytest.mark.parametrize(
    "frame, told",
    [
        (pd.DataFrame({"a": [1.0, None]}), "row 1, column 'a' is empty: must be a number"),
        (pl.DataFrame({"a": [1, None]}), "row 1, column 'a' is empty: must be a number"),
        (pl.DataFrame({"n": [1], "t": ["x"]}), "texts in the column 't': must be numbers. Leave"),
        (pd.DataFrame({"d": pd.to_datetime(["2020-01-01"])}), "timestamp.* in the column 'd'"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "column 'a' twice"),
        (pd.DataFrame(index=[1, 2]), "without columns"),
    ],
)
def test_columns_that_are_no_numbers_are_named(frame: Any, told: str) -> None:
    with pytest.raises(DataError, match=told):
        samples_of(frame)


def test_a_missing_column_of_the_model_is_named() -> None:
    with pytest.raises(DataError, match="lacks the column 'c' and 1 more that the model"):
        samples_of(FRAMES["polars"], names=["a", "c", "d"])


# ---- targets -------------------------------------------------------------------------------------


def test_classes_as_texts_become_targets_in_the_order_of_the_model() -> None:
    for labels in (["no", "yes", "no"], pd.Series(["no", "yes", "no"], dtype="category")):
        found = samples_of((np.eye(3), labels))
        assert found.target_names == ["no", "yes"]
        assert dense(found.targets) == [[1, 0], [0, 1], [1, 0]]
    found = samples_of((np.eye(1), ["yes"]), target_names=["yes", "no"])
    assert dense(found.targets) == [[1, 0]]
    with pytest.raises(DataError, match="Y: row 1 has the class 'maybe', but the model knows 'no'"):
        samples_of((np.eye(2), ["no", "maybe"]), target_names=["no", "yes"])


def test_series_and_frames_name_their_targets() -> None:
    frame = FRAMES["pandas"]
    assert samples_of((frame[["b"]], frame["a"])).target_names == ["a"]
    assert samples_of((frame[["b"]], frame[["a", "b"]])).target_names == ["a", "b"]
    assert samples_of((np.eye(2), [0, 1])).target_names is None
    assert samples_of((np.eye(2), pa.chunked_array([[0, 1]]))).targets.tolist() == [0, 1]


def test_a_classifier_of_a_frame_knows_its_names() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, 2)), columns=["left", "right"])
    y = pd.Series(np.where(X["left"] > 0, "high", "low"))
    learner = bl.Learner("glm", (X, y), eval=0.2, passes=5, optimizer="adagrad", threads=1).fit()
    assert learner.names == ["left", "right"] and learner.target_names == ["high", "low"]
    turned = X[["right", "left"]].assign(other=1.0)  # columns are found by their names
    np.testing.assert_array_equal(learner.predict(turned), learner.predict(X))
    best = learner.predict(X).argmax(axis=1)
    assert (np.array(learner.target_names)[best] == y).mean() > 0.8
    assert learner.evaluate((X, y)).keys() == learner.progress.scores.keys()


# ---- shares --------------------------------------------------------------------------------------


def test_a_share_of_the_rows_is_held_out() -> None:
    X = np.random.default_rng(0).poisson(1.0, (200, 5)) + 1.0
    train, held = split_rows(200, 0.1, seed=4)
    for data in (X, sp.csc_array(X), MatrixSource(X, block_rows=1024)):
        learner = bl.Learner(bl.models.LDA(topics=2), data, eval=0.1, seed=4)
        assert learner.train is not None and learner.eval is not None
        assert learner.train.shape.total_rows == len(train)
        assert learner.eval.shape.total_rows == len(held)
    with pytest.raises(DataError, match=r"share=1.5: must lie between 0 and 1"):
        bl.Learner(bl.models.LDA(topics=2), X, eval=1.5)


def test_a_share_of_the_entries_is_held_out_of_ratings() -> None:
    ratings = sp.random_array((50, 20), density=0.5, rng=np.random.default_rng(0), format="coo")
    learner = bl.Learner(bl.models.ALS(rank=2), ratings, eval=0.2)
    assert learner.train is not None and learner.eval is not None
    parts = [source.entries(np.arange(50)) for source in (learner.train, learner.eval)]  # type: ignore[attr-defined]
    assert 0.1 < parts[1].nnz / ratings.nnz < 0.3
    np.testing.assert_allclose((parts[0] + parts[1]).toarray(), ratings.toarray(), rtol=1e-6)


# ---- names as strings ----------------------------------------------------------------------------


def test_models_optimizers_and_scores_have_names() -> None:
    X = np.ones((4, 3))
    learner = bl.Learner(
        {"kind": "glm", "l2": 0.5},
        (X, X[:, :1]),
        (X, X[:, :1]),
        optimizer={"kind": "adam", "rate": 0.5},
        evaluation="log_loss",
    )
    assert isinstance(learner.model, bl.models.GLM) and learner.model.l2 == 0.5
    assert isinstance(learner.optimizer, bl.optimizers.Adam) and learner.optimizer.rate == 0.5
    assert learner.evaluation.metric == "log_loss"
    with pytest.raises(ValueError, match=r"optimizer='adm': must be one of .* mean 'adam'\?"):
        bl.Learner("glm", (X, X), optimizer="adm")
    with pytest.raises(ValueError, match=r"model='matrix_factorization': .* mean 'als'\?"):
        bl.Learner("matrix_factorization", X)
    with pytest.raises(TypeError, match=r"optimizer=Adam: must be an optimizer, not its class"):
        bl.Learner("glm", (X, X), optimizer=bl.optimizers.Adam)  # type: ignore[arg-type]
