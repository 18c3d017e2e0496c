"""The estimator of word vectors: texts in, vectors and neighbours out."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import blocklearn as bl

pytest.importorskip("sklearn", reason="needs scikit-learn")

from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

GROUPS = ["sun moon star sky", "salt pepper bread soup", "red green blue grey"]


def texts() -> tuple[list[str], list[int]]:
    """Texts of 20 words of one group each, and the numbers of their groups."""
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 3, 400)
    return [" ".join(rng.choice(GROUPS[g].split(), 20)) for g in groups], groups.tolist()


def words(**options: Any) -> bl.WordVectors:
    known = {"window": 3, "sample": 0, "learning_rate": 0.2, "max_iter": 3, "random_state": 0}
    return bl.WordVectors(4, **known | options)


def test_words_of_the_same_texts_are_neighbours() -> None:
    X, _ = texts()
    model = words().fit(X)
    assert model.vectors_.shape == model.contexts_.shape == (12, 4)
    assert model.vectors_.dtype == np.float32 and model.n_iter_ == 3
    for group in GROUPS:
        for word in group.split():
            near = model.most_similar(word, topn=3)
            assert {word, *(other for other, _ in near)} == set(group.split())
    other = words().fit([text.upper().split(" ") for text in X])
    assert set(other.vocabulary_) == {word.upper() for word in model.vocabulary_}
    np.testing.assert_array_equal(other.vectors_, model.vectors_)  # ids of words change nothing


def test_analogies_are_sums_of_directions() -> None:
    model = words().fit(texts()[0])
    unit = model.vectors_.astype(np.float64)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    asked = unit[[model.vocabulary_[word] for word in ("sun", "red", "salt")]]
    wanted = asked[0] + asked[1] - asked[2]
    cosines = unit @ wanted / np.linalg.norm(wanted)
    found = model.most_similar(["sun", "red"], "salt", topn=100)
    assert len(found) == 9 and not {"sun", "red", "salt"} & {word for word, _ in found}
    for word, cosine in found:
        assert cosine == pytest.approx(cosines[model.vocabulary_[word]], abs=1e-5)
    assert [cosine for _, cosine in found] == sorted((c for _, c in found), reverse=True)


def test_texts_become_means_of_vectors() -> None:
    model = words().fit(texts()[0])
    found = model.transform([["sun", "red", "sun"], "", "Red, and UNKNOWN words", []])
    sun, red = (model.vectors_[model.vocabulary_[word]] for word in ("sun", "red"))
    expected = [(2 * sun + red) / 3, 0 * red, red, 0 * red]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert found.dtype == np.float32
    assert model.get_feature_names_out().tolist() == [f"wordvectors{i}" for i in range(4)]


@pytest.mark.slow
def test_vectors_are_features_of_texts() -> None:
    X, y = texts()
    pipeline = make_pipeline(words(n_jobs=1), LogisticRegression()).fit(X[:300], y[:300])
    assert pipeline.score(X[300:], y[300:]) == 1.0
    model = pipeline[0]
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.transform(X[:5]), model.transform(X[:5]))
    np.testing.assert_array_equal(clone(model).fit(X[:300]).vectors_, model.vectors_)


def test_a_model_folder_has_the_words(tmp_path: Path) -> None:
    model = words().fit(texts()[0])
    bl.save(model.to_learner(), tmp_path / "m")
    loaded = bl.load(tmp_path / "m")
    assert list(loaded.names) == list(model.vocabulary_)
    np.testing.assert_array_equal(loaded.parameter("vectors"), model.vectors_)


def test_what_cannot_be() -> None:
    with pytest.raises(NotFittedError):
        words().transform(["sun"])
    with pytest.raises(TypeError, match="a frame: must be a list of texts. Pass the column"):
        words().fit(pd.DataFrame({"text": ["sun and moon"] * 9}))
    with pytest.raises(
        bl.datasources.DataError, match="text 1 is bytes: must be a list of words. Decode it"
    ):
        words().fit(["sun and moon", b"sun and moon"])
    with pytest.raises(TypeError, match="one string: must be a list of texts"):
        words().fit("sun and moon")
    with pytest.raises(bl.datasources.DataError, match="min_count=9"):
        words(min_count=9).fit(["sun moon"])
    with pytest.raises(ValueError, match="WordVectors: window=0: must be"):
        words(window=0).fit(texts()[0])
    with pytest.raises(KeyError, match="'mars' has no vector"):
        words().fit(texts()[0]).most_similar("mars")
