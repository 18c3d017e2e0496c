"""Data as users have them: texts, gensim corpora, frames, Arrow tables, classes, shares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.datasources import DataError, MatrixSource, split_rows
from blocklearn.datasources.given import Known, Reads, samples_of

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
    assert samples_of(pairs, Known(columns=7)).X.shape == (4, 7)


def test_new_texts_are_counted_over_the_words_of_the_model() -> None:
    learner = bl.Learner(bl.models.LDA(topics=2), TEXTS, passes=1, threads=1).fit()
    assert list(learner.names or ()) == WORDS
    new = ["ship of bread and unknowns"]
    np.testing.assert_array_equal(
        learner.predict(new), learner.predict(sp.csr_array([[1.0, 0, 0, 1, 0]]))
    )
    for wrong in (["unknowns only"], [["unknowns"]]):
        with pytest.raises(DataError, match=r"no words in its 1 documents; the model knows none"):
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
        (["", "--"], "no words in its 2 documents"),
    ],
)
def test_damaged_documents_are_named(wrong: Any, told: str) -> None:
    with pytest.raises(DataError, match=told):
        samples_of(wrong)


@pytest.mark.parametrize("model", [bl.models.LDA(topics=2), bl.models.NMF(components=2)])
def test_topics_are_lists_of_words(model: Any, tmp_path: Path) -> None:
    learner = bl.Learner(model, TEXTS, passes=1, threads=1).fit()
    found = learner.topics(top=3)
    assert [len(words) for words in found] == [3, 3] and found[0][0][0] in WORDS
    assert [[(WORDS.index(word), share) for word, share in words] for words in found] == (
        learner.model.topic_words(3)
    )
    bl.save(learner, tmp_path / "m")
    rarer = learner.model.topic_words(1, 0.2)[0][0]
    learner.close()
    assert learner.topics(1, relevance=0.2)[0][0] == (WORDS[rarer[0]], rarer[1])
    assert learner.topics(3) == bl.load(tmp_path / "m").topics(3) == found
    numbered = bl.Learner(model, np.eye(3), threads=1).fit()
    assert {word for word, _ in numbered.topics(3)[0]} == {"0", "1", "2"}
    other = bl.Learner("als", sp.csr_array(np.eye(3)), threads=1).fit()
    with pytest.raises(ValueError, match="Learner.topics: model=ALS: must be a model with topics"):
        other.topics()


def test_texts_for_a_model_of_unnamed_columns_are_refused() -> None:
    learner = bl.Learner(bl.models.LDA(topics=2), np.ones((4, 3)), threads=1).fit()
    with pytest.raises(DataError, match="X has texts, but the model does not know the words"):
        learner.predict(["to be"])


# ---- frames --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", FRAMES)
def test_frames_keep_their_names(kind: str) -> None:
    found = samples_of(FRAMES[kind])
    assert found.names == ["b", "a", "yes"] and dense(found.X) == TABLE
    chosen = samples_of(FRAMES[kind], Known(names=["yes", "b"]))
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
        samples_of(FRAMES["polars"], Known(names=["a", "c", "d"]))


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_a_column_of_the_frame_may_be_the_targets(make: Any) -> None:
    frame = {"size": [1.0, 2.0, 8.0], "colour": ["red", "blue", "red"], "kind": ["s", "s", "b"]}
    features = make({"size": frame["size"], "colour": frame["colour"]})
    read = Reads(categories=True)
    wanted = samples_of((features, frame["kind"]), reads=read)
    found = samples_of((make(frame), "kind"), reads=read)
    assert found.names == wanted.names == ["size", "colour=blue", "colour=red"]
    assert list(found.target_names or ()) == list(wanted.target_names or ()) == ["b", "s"]
    assert dense(found.X) == dense(wanted.X) and dense(found.targets) == dense(wanted.targets)
    assert dense(samples_of((make(COLUMNS), "b")).targets) == [[1.0], [2.0], [3.0]]
    with pytest.raises(DataError, match="Y='king': must be targets, or the name of a column of X"):
        samples_of((make(frame), "king"))


# ---- lists ---------------------------------------------------------------------------------------


def test_sources_must_have_the_columns_of_the_model() -> None:
    X, turned = np.eye(3), MatrixSource(np.eye(3), names=["a", "c", "b"])
    learner = bl.Learner(bl.models.KMeans(clusters=2), MatrixSource(X, names=["a", "b", "c"]))
    told = "column 1 is 'c', but in the training data it is 'b'"
    with pytest.raises(DataError, match=told):
        learner.fit().predict(turned)
    with pytest.raises(DataError, match=told):
        bl.Learner(bl.models.KMeans(clusters=2), MatrixSource(X, names=["a", "b", "c"]), turned)


def test_lists_of_numbers_are_matrices() -> None:
    found = samples_of(([[0, 1.5], [2, 3]], [0, 1]))
    assert dense(found.X) == [[0.0, 1.5], [2.0, 3.0]] and found.targets.tolist() == [0, 1]
    learner = bl.Learner("nmf", [[0, 1.5], [2, 3], [4, 5]], passes=1, threads=1).fit()
    np.testing.assert_array_equal(
        learner.predict([[1, 2.0]]), learner.predict(np.array([[1, 2.0]]))
    )


@pytest.mark.parametrize(
    "wrong, told",
    [
        ([[1, 2], [3]], "X: row 1 has 1 numbers, and row 0 has 2: must be as many"),
        ([[None, 2], [3, 4]], "X is a list of object: must be numbers, a list of texts"),
        ([1, 2, 3], r"X has the shape .3,.: must be rows x columns. .* train=.X, Y."),
        (np.ones((2, 2, 2)), r"X has the shape .2, 2, 2.: must be rows x columns"),
    ],
)
def test_lists_that_are_no_matrix_are_refused(wrong: Any, told: str) -> None:
    with pytest.raises(DataError, match=told):
        bl.Learner("nmf", wrong)


# ---- frames with categories ----------------------------------------------------------------------

CATEGORIES = {
    "kind": ["b", "a", None, "b"],
    "size": [1.5, 2, 0, 4],
    "on": [True, False, True, True],
}


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_columns_of_texts_become_columns_of_categories(make: Any) -> None:
    found = samples_of(make(CATEGORIES), reads=Reads(categories=True))
    assert found.names == ["kind=a", "kind=b", "size", "on"]
    assert dense(found.X) == [[0, 1, 1.5, 1], [1, 0, 2, 0], [0, 0, 0, 1], [0, 1, 4, 1]]
    other = make({"size": [7.0, 8], "kind": ["new", "a"], "more": ["x", "y"], "on": [0, 1]})
    same = samples_of(other, Known(names=found.names), Reads(categories=True))
    assert same.names == found.names and dense(same.X) == [[0, 0, 7, 0], [1, 0, 8, 1]]
    with pytest.raises(DataError, match="lacks the column 'kind=a' and 1 more"):
        samples_of(make({"size": [1.0], "on": [1]}), found_names(found), Reads(categories=True))


def found_names(found: Any) -> Known:
    return Known(names=found.names)


def test_names_with_equal_signs_are_columns_first() -> None:
    frame = pd.DataFrame({"a=b": [1.0, 2.0], "a": ["b", "c"]}).astype({"a": "category"})
    with pytest.raises(DataError, match="column 'a=b' twice"):
        samples_of(frame, reads=Reads(categories=True))


def test_texts_that_are_no_categories_are_refused() -> None:
    long = pd.DataFrame({"t": ["one two three four five six", "six five four three two one"] * 3})
    many = pd.DataFrame({"t": [f"name {i}" for i in range(60)]})
    for frame, told in ((long, "2 different texts in the 6 rows"), (many, "60 different")):
        with pytest.raises(DataError, match=rf"{told}.* X.drop\(columns=\['t'\]\)"):
            bl.Learner("glm", (frame, np.zeros(len(frame))))
    with pytest.raises(DataError, match=r"texts in the column 't'.* train=list\(X\['t'\]\)"):
        bl.Learner("lda", long)


# ---- frames of ratings ---------------------------------------------------------------------------

STARS = {"User ID": ["b", "a", "b"], "movie": [7, 7, 5], "stars": [4.0, 1, 2], "when": [1, 2, 3]}


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_users_items_and_ratings_are_found_by_their_names(make: Any) -> None:
    found = samples_of(make(STARS), reads=Reads(ratings=True))
    assert list(found.names or ()) == ["5", "7"] and list(found.row_names or ()) == ["a", "b"]
    assert dense(found.X) == [[0, 1], [2, 4]]
    known = Known(names=["7", "9"], row_names=["b"])
    assert dense(samples_of(make(STARS), known, Reads(ratings=True)).X) == [[4, 0]]


def test_a_learner_of_ratings_keeps_ids() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"user": [f"u{i}" for i in range(40)] * 3, "item": rng.permutation(120) % 7}
    )
    frame = frame.drop_duplicates().assign(rating=1.0)
    learner = bl.Learner(bl.models.ALS(rank=2), frame, eval=0.2, passes=2, threads=1).fit()
    assert learner.row_names is not None and learner.row_names[1] == "u1"
    lists = next(iter(bl.recommend(learner, ["u3"], n=2)))
    assert lists.ids.shape == (1, 2) and set(learner.progress.scores) >= {"rmse"}
    assert learner.evaluate(frame.head(9)).keys() == learner.progress.scores.keys()
    assert learner.predict(frame.head(1)).shape == (1, 4)


@pytest.mark.parametrize(
    "frame, told",
    [
        (
            {"user": ["a", "a"], "item": [1, 1], "rating": [1, 2]},
            "row 1: user 'a' .* frame.groupby",
        ),
        ({"user": ["a", None], "item": [1, 2], "rating": [1, 2]}, "X: row 1: the user is missing"),
        ({"user": [0.5, 1], "item": [1, 2], "rating": [1, 2]}, "ids must be text or whole"),
        ({"user": [None, 1], "item": [1, 2], "rating": [1, 2]}, "Leave out rows without an id"),
        ({"user": ["a"], "item": [1], "rating": ["x"]}, "ratings must be numbers"),
        ({"user": ["a"], "item": [1]}, "must have one of ratings, .* write loss='implicit'"),
        ({"who": ["a"], "item": [1]}, "columns 'who', 'item': must have one of users .* Rename"),
    ],
)
def test_frames_of_ratings_that_are_wrong(frame: Any, told: str) -> None:
    for learn in (lambda X: bl.Learner("als", X), bl.ALS().fit):
        with pytest.raises(DataError, match=told):
            learn(pd.DataFrame(frame))


def test_events_count_as_one_each() -> None:
    clicks = pd.DataFrame({"user": ["a", "a", "b"], "item": ["x", "x", "y"]})
    assert dense(samples_of(clicks, reads=Reads(ratings=True)).X) == [[2, 0], [0, 1]]
    plays = clicks.assign(plays=[3, 4, 5])
    assert dense(samples_of(plays, reads=Reads(ratings=True)).X) == [[7, 0], [0, 5]]


# ---- targets -------------------------------------------------------------------------------------


def test_classes_as_texts_become_targets_in_the_order_of_the_model() -> None:
    for labels in (["no", "yes", "no"], pd.Series(["no", "yes", "no"], dtype="category")):
        found = samples_of((np.eye(3), labels))
        assert found.target_names == ["no", "yes"]
        assert dense(found.targets) == [[1, 0], [0, 1], [1, 0]]
    found = samples_of((np.eye(1), ["yes"]), Known(target_names=["yes", "no"]))
    assert dense(found.targets) == [[1, 0]]
    with pytest.raises(DataError, match="Y: row 1 has the class 'maybe', but the model knows 'no'"):
        samples_of((np.eye(2), ["no", "maybe"]), Known(target_names=["no", "yes"]))


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
    for data in (X, sp.csc_array(X), MatrixSource(sp.csr_array(X), block_rows=1024)):
        learner = bl.Learner(bl.models.LDA(topics=2), data, eval=0.1, seed=4)
        assert learner.train is not None and learner.eval is not None
        assert learner.train.shape.total_rows == len(train)
        assert learner.eval.shape.total_rows == len(held)
    for share in (True, 0, 1, 1.5, np.float32(2)):
        with pytest.raises(ValueError, match=rf"eval={share}: must be data, or a share above 0"):
            bl.Learner(bl.models.LDA(topics=2), X, eval=share)
    with pytest.raises(ValueError, match=r"eval=0.1: must come with data"):
        bl.Learner(bl.models.LDA(topics=2), eval=0.1)
    with pytest.raises(ValueError, match=r"fit: eval=0.1: must be data"):
        bl.Learner(bl.models.LDA(topics=2), X).fit(X, eval=0.1)


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
