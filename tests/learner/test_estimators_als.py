"""ALS as an estimator: factors, and the names and shapes of the library implicit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.datasources import DataError, Ids
from blocklearn.learner.estimators.recommenders import recommender
from tests.support.often import first_often, paired

pytest.importorskip("sklearn", reason="needs scikit-learn")

RNG = np.random.default_rng(0)
SEEN = sp.csr_array((RNG.random((40, 25)) < 0.2) * RNG.integers(1, 4, (40, 25)).astype(float))
RATINGS = sp.csr_array(SEEN * 1.0)


def implicit_als(**params: Any) -> Any:
    return bl.ALS(4, loss="implicit", max_iter=5, random_state=0, **params).fit(SEEN)


def plain_lists(scores: Any, left_out: Any, n: int) -> tuple[Any, Any]:
    """The n best of each row by a full sort, in float64."""
    scores = np.where(left_out, -np.inf, scores)
    ids = np.argsort(-scores, axis=1, kind="stable")[:, :n]
    found = np.take_along_axis(scores, ids, axis=1)
    return np.where(np.isinf(found), -1, ids), found


@pytest.mark.parametrize("loss", first_often(["explicit", "implicit"]))
def test_lists_are_those_of_a_full_sort(loss: Any) -> None:
    als = bl.ALS(4, loss=loss, max_iter=5, random_state=0).fit(RATINGS)
    scores = als.user_factors.astype(float) @ als.item_factors.T.astype(float) + als.mean_
    users = [7, 0, 39]
    liked = RATINGS[users].toarray() > 0
    none, some = np.zeros_like(liked), np.isin(np.arange(25), [3, 11])
    for options, left_out in [
        ({}, liked),
        ({"filter_already_liked_items": False}, none),
        ({"filter_items": [3, 11]}, liked | some),
        ({"items": [11, 3], "filter_already_liked_items": False}, none | ~some),
    ]:
        n = 2 if "items" in options else 6
        ids, found = als.recommend(users, RATINGS[users], N=6, **options)
        wanted = plain_lists(scores[users], left_out, n)
        np.testing.assert_array_equal(ids, wanted[0])
        np.testing.assert_allclose(found, wanted[1], rtol=1e-4, atol=1e-5)
        alone = als.recommend(7, RATINGS[[7]], N=6, **options)
        assert alone[0].tolist() == ids[0].tolist() and alone[1].shape == (n,)
        assert [each.shape for each in als.recommend([], RATINGS[[]], N=6, **options)] == [
            (0, n)
        ] * 2


def test_pairs_have_the_scores_of_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recommender, "PAIRS", 7)
    als = bl.ALS(4, max_iter=5, random_state=0).fit(RATINGS)
    scores = als.user_factors.astype(float) @ als.item_factors.T.astype(float) + als.mean_
    users, items = RNG.integers(0, 40, 30), RNG.integers(0, 25, 30)
    found = als.predict_pairs(users, items)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, scores[users, items], rtol=1e-5)
    np.testing.assert_allclose(als.predict_pairs(3, items), scores[3, items], rtol=1e-5)
    np.testing.assert_allclose(als.predict_pairs(users, [4]), scores[users, 4], rtol=1e-5)
    assert als.predict_pairs(3, 4) == pytest.approx(scores[3, 4], rel=1e-5)
    assert als.predict_pairs([], []).shape == (0,)
    with pytest.raises(DataError, match="user 40, but users are numbered from 0 to 39"):
        als.predict_pairs([40], [0])
    with pytest.raises(DataError, match="item -1"):
        als.predict_pairs([0], [-1])
    with pytest.raises(ValueError, match="2 users and 3 items"):
        als.predict_pairs([0, 1], [0, 1, 2])


def test_where_nothing_is_left_lists_end() -> None:
    als = implicit_als()
    everything = sp.csr_array(np.ones((1, 25)))
    ids, scores = als.recommend(3, everything, N=4)
    assert ids.tolist() == [-1] * 4 and np.isneginf(scores).all()
    ids, _ = als.recommend([3], everything, N=100, filter_already_liked_items=False)
    assert ids.shape == (1, 25)


def test_new_users_are_folded_in() -> None:
    als = implicit_als()
    ids, scores = als.recommend(999, SEEN[[5]], N=3, recalculate_user=True)
    products = als.transform(SEEN[[5]]) @ als.item_factors.T
    wanted = plain_lists(products, SEEN[[5]].toarray() > 0, 3)
    np.testing.assert_array_equal(ids, wanted[0][0])
    np.testing.assert_allclose(scores, wanted[1][0], rtol=1e-4)


@pytest.mark.parametrize("side", ["items", "users"])
def test_what_is_similar_is_so_by_cosine(side: str) -> None:
    als = bl.ALS(4, regularization=0.05, max_iter=5, random_state=0).fit(RATINGS)
    table = als.item_factors if side == "items" else als.user_factors
    similar = als.similar_items if side == "items" else als.similar_users
    rows = table[:, :4].astype(float)
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-30)
    cosines = rows @ rows.T
    ids, scores = similar([2, 9], N=5)
    np.testing.assert_allclose(scores, np.sort(-cosines[[2, 9]])[:, :5] * -1, rtol=1e-4)
    assert ids[:, 0].tolist() == [2, 9]
    alone = similar(2, 5, **{side: [8, 1, 2]})
    wanted = sorted([8, 1, 2], key=lambda i: -cosines[2, i])
    assert alone[0].tolist() == wanted and alone[1].shape == (3,)
    assert 7 not in similar(2, 25, **{f"filter_{side}": [7]})[0]


def test_similar_items_of_new_users_lists() -> None:
    als = implicit_als()
    ids, _ = als.similar_items(1, 3, recalculate_item=True, item_users=SEEN.T.tocsr()[[6]])
    factors = np.vstack([als.item_factors, als._predictions(SEEN.T.tocsr()[[6]], side=1)])
    factors /= np.linalg.norm(factors, axis=1, keepdims=True)
    assert ids.tolist() == np.argsort(-(factors[:25] @ factors[25]))[:3].tolist()


def test_users_and_items_that_come_later() -> None:
    als = bl.ALS(4, max_iter=5, random_state=0).fit(RATINGS)
    items = als.item_factors.copy()
    als.partial_fit_users([3, 42], RATINGS[[9, 5]])
    assert als.user_factors.shape == (43, 6)
    np.testing.assert_array_equal(als.user_factors[[3, 42]], als.transform(RATINGS[[9, 5]]))
    np.testing.assert_array_equal(als.user_factors[40], [0, 0, 0, 0, 0, 1])  # nothing is known
    np.testing.assert_array_equal(als.item_factors, items)
    ids, scores = als.recommend([40], N=25, filter_already_liked_items=False)
    np.testing.assert_allclose(scores[0], np.sort(als.mean_ + items[:, 5])[::-1], rtol=1e-5)

    longer = sp.csr_array(np.vstack([RATINGS.toarray(), np.zeros((3, 25))]).T)
    als.partial_fit_items([25], longer[[4]])
    assert als.n_features_in_ == len(als.item_factors) == 26
    assert als.transform(sp.csr_array((2, 26))).shape == (2, 6)
    assert als.recommend(0, sp.csr_array((1, 26)), N=26)[0].shape == (26,)


def test_items_with_names_cannot_become_more() -> None:
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    frame = pandas.DataFrame(RATINGS.toarray(), columns=[f"film{i}" for i in range(25)])
    als = bl.ALS(4, max_iter=2, random_state=0).fit(frame)
    als.partial_fit_items([3], RATINGS.T.tocsr()[[4]])
    with pytest.raises(ValueError, match="fitted with names"):
        als.partial_fit_items([25], RATINGS.T.tocsr()[[4]])


def test_what_does_not_fit_is_refused() -> None:
    als = implicit_als()
    with pytest.raises(ValueError, match="user_items=None: must be a SciPy sparse matrix"):
        als.recommend(0)
    with pytest.raises(ValueError, match="user_items: of shape"):
        als.recommend([0, 1], SEEN[[0]])
    with pytest.raises(ValueError, match="not both"):
        als.recommend(0, SEEN[[0]], items=[1], filter_items=[2])
    with pytest.raises(ValueError, match="no items left"):
        als.recommend(0, SEEN[[0]], items=[])
    with pytest.raises(ValueError, match="N=0: must be at least 1"):
        als.similar_users(0, N=0)
    with pytest.raises(ValueError, match="item 25, but items are numbered from 0 to 24"):
        als.similar_items(25)
    with pytest.raises(ValueError, match="whole numbers from 0"):
        als.partial_fit_users([-1], SEEN[[0]])


def test_score_is_of_entries_that_were_held_out() -> None:
    """A model of the right rank predicts the other half of new users' ratings."""
    users, items = RNG.normal(size=(300, 2)), RNG.normal(size=(2, 30))
    X = sp.csr_array(np.where(RNG.random((300, 30)) < 0.6, 3 + users @ items, 0))
    als = bl.ALS(2, regularization=1e-3, max_iter=20, random_state=0).fit(X[:250])
    mixed = X[250:].copy()
    RNG.shuffle(mixed.data)
    assert als.score(X[250:]) > -0.3 > -1.0 > als.score(mixed)
    assert als.score(X[250:].toarray().tolist()) == als.score(X[250:])
    with pytest.raises(ValueError, match="too few entries"):
        als.score(sp.csr_array((3, 30)))


def test_names_shapes_and_numbers_are_those_of_implicit() -> None:
    library = pytest.importorskip("implicit.cpu.als", reason="needs implicit")
    settings = {"regularization": 0.5, "random_state": 0}
    peer = library.AlternatingLeastSquares(factors=4, num_threads=1, **settings)
    confidence = sp.csr_matrix(SEEN)
    confidence.data = 1 + 3 * confidence.data  # what implicit takes for its values
    peer.fit(confidence, show_progress=False)
    als = bl.ALS(4, loss="implicit", alpha=3.0, weighted=False, max_iter=1, **settings).fit(SEEN)
    als.user_factors_, als.item_factors_ = peer.user_factors.copy(), peer.item_factors.copy()

    def compare(found: Any, wanted: Any) -> None:
        for mine, theirs in zip(found, wanted, strict=True):
            assert mine.shape == theirs.shape and mine.dtype.kind == theirs.dtype.kind
            np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)

    users, rows = [3, 8, 1], sp.csr_matrix(SEEN)[[3, 8, 1]]
    compare(als.recommend(users, rows, N=5), peer.recommend(users, rows, N=5))
    compare(als.recommend(3, rows[0], N=5), peer.recommend(3, rows[0], N=5))
    options = {"items": [4, 2, 9], "filter_already_liked_items": False}
    compare(als.recommend(3, rows[0], **options), peer.recommend(3, rows[0], **options))
    new = {"recalculate_user": True, "N": 5}
    compare(als.recommend(0, rows[0], **new), peer.recommend(0, confidence[3], **new))
    compare(als.similar_items([2, 5], N=4), peer.similar_items([2, 5], N=4))
    compare(als.similar_users(7, N=4), peer.similar_users(7, N=4))
    als.partial_fit_users([0, 44], rows[:2])
    peer.partial_fit_users([0, 44], confidence[[3, 8]])
    compare([als.user_factors], [peer.user_factors])
    als.partial_fit_items([6], sp.csr_matrix((1, 45)))
    peer.partial_fit_items([6], sp.csr_matrix((1, 45)))
    compare([als.item_factors], [peer.item_factors])


def test_similar_items_are_drawn_with_their_names(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    X = sp.csr_array(np.kron(np.eye(2), np.ones((8, 3))))  # two groups of three items
    als = bl.ALS(2, loss="implicit", random_state=0, n_jobs=1).fit(X)
    names = ["$a", "b", "c", "d", "e", "f"]
    figure = als.plot_similar_items([0, 4], 2, item_names=names, path=tmp_path / "s.png")
    shown = {
        axes.get_title(): {label.get_text() for label in axes.get_yticklabels()}
        for axes in figure.axes
    }
    assert shown == {"\\$a": {"b", "c"}, "e": {"d", "f"}}
    assert (tmp_path / "s.png").stat().st_size > 1000
    assert len(als.plot_similar_items([1]).axes[0].get_yticklabels()) == 5


def test_a_frame_of_ratings_is_fitted_and_lists_have_its_ids() -> None:
    rng = np.random.default_rng(0)
    X = sp.random_array((30, 20), density=0.4, rng=rng, format="coo", dtype=np.float32)
    users, items = X.coords
    frame = pd.DataFrame(
        {"user": [f"u{u:02}" for u in users], "item": 100 + items, "rating": X.data}
    )
    settings = {"n_components": 3, "regularization": 0.1, "max_iter": 3, "random_state": 0}
    named, plain = bl.ALS(**settings).fit(frame), bl.ALS(**settings).fit(X.tocsr())
    np.testing.assert_array_equal(named.item_factors_, plain.item_factors_)
    assert named.user_ids_[3] == "u03" and named.item_ids_.dtype == np.int64

    ids, scores = named.recommend("u03", N=4)
    numbers, same = plain.recommend(3, X.tocsr()[[3]], N=4)
    assert (ids - 100 == numbers).all() and (scores == same).all()
    assert not set(ids) & set(frame.item[frame.user == "u03"])
    ids, _ = named.recommend(["u03", "u04"], N=2, items=[101, 102, 103])
    assert ids.shape == (2, 2) and set(ids.ravel()) <= {-1, 101, 102, 103}
    assert named.similar_items(105, N=3)[0][0] == 105
    assert named.similar_users("u07", N=3)[0][0] == "u07"
    found = named.predict_pairs("u03", [105, 106])
    np.testing.assert_array_equal(found, plain.predict_pairs(3, [5, 6]))

    assert named.score(frame) == plain.score(X.tocsr())
    np.testing.assert_array_equal(named.transform(frame), plain.transform(X.tocsr()))
    learner = named.to_learner()
    assert learner.row_names is not None and learner.row_names[3] == "u03"
    with pytest.raises(DataError, match="unknown to the model: 'u99'"):
        named.recommend("u99")
    with pytest.raises(
        ValueError, match="users were fitted with ids, so they cannot be changed by number"
    ):
        named.partial_fit_users([0], X.tocsr()[[0]])
    with pytest.raises(ValueError, match="user_items=None: .* filter_already_liked_items=False"):
        plain.recommend(3)
    with pytest.raises(ValueError, match="X is a frame of users and items: must be a matrix"):
        plain.transform(frame)
    assert not hasattr(named.fit(X.tocsr()), "item_ids_")


def test_ids_are_numbers_only_if_all_are() -> None:
    for ids, kind in (
        (["3", "12"], "i"),
        (["3", "x"], "U"),
        (["03", "12"], "U"),
        (["9" * 30], "U"),
    ):
        assert recommender.id_array(Ids(ids)).dtype.kind == kind


def test_parameters_that_were_changed_after_fit_say_so() -> None:
    als = bl.ALS(4, max_iter=1, random_state=0).fit(RATINGS)
    als.set_params(n_components=7)
    with pytest.raises(ValueError, match="ALS: .* changed after fit. Call fit again"):
        als.transform(RATINGS)
    assert als.set_params(n_components=4).transform(RATINGS).shape[0] == 40


@paired(2, dtype=["float16", ">f8"], kind=[bl.ALS, bl.Ranking, bl.LatentDirichletAllocation])
def test_dense_numbers_of_any_type_are_taken(kind: Any, dtype: str) -> None:
    dense = RATINGS.toarray()
    found, same = (kind(2, random_state=0).fit(each) for each in (dense.astype(dtype), dense))
    np.testing.assert_array_equal(found.transform(RATINGS[:3]), same.transform(RATINGS[:3]))


def test_digits_of_other_scripts_are_ids_of_their_own() -> None:
    found = recommender.id_array(Ids(["٣", "3", "4"]))
    assert found.tolist() == ["٣", "3", "4"]


def test_lists_are_of_the_factors_that_were_fitted() -> None:
    """A parameter that is set afterwards is one of the next fit."""
    als = bl.ALS(4, max_iter=2, regularization=0.1, random_state=0).fit(RATINGS)
    items, users = als.similar_items(0, N=3), als.similar_users(0, N=3)
    lists = als.recommend(0, RATINGS[[0]], N=3)
    for number in (2, 9):
        als.set_params(n_components=number)
        np.testing.assert_array_equal(als.similar_items(0, N=3), items)
        np.testing.assert_array_equal(als.similar_users(0, N=3), users)
        np.testing.assert_array_equal(als.recommend(0, RATINGS[[0]], N=3), lists)


@pytest.mark.parametrize("length", [1.5, None, 0, "3", True])
def test_a_length_of_lists_that_is_none_is_named(length: Any) -> None:
    als = bl.ALS(4, max_iter=1, regularization=0.1, random_state=0).fit(RATINGS)
    for call in (
        lambda: als.recommend(0, RATINGS[[0]], N=length),
        lambda: als.similar_items(0, N=length),
        lambda: als.similar_users(0, N=length),
    ):
        with pytest.raises(ValueError, match=f"^N={length!r}: must be at least 1, a whole number"):
            call()


def test_ids_are_a_list_of_numbers_that_exist() -> None:
    als = bl.ALS(4, max_iter=1, regularization=0.1, random_state=0).fit(RATINGS)
    for call in (
        lambda: als.recommend([[0, 1]], RATINGS[[0, 1]]),
        lambda: als.similar_items([[0, 1]]),
        lambda: als.predict_pairs([[0, 1]], [[1, 2]]),
    ):
        with pytest.raises(ValueError, match=r"(users|items) of shape \(1, 2\): must be one id"):
            call()
    for huge in (2**70, np.uint64(2**63 + 5)):
        with pytest.raises(bl.datasources.DataError, match="item 1,180,591.*|item 9,223,372,036,8"):
            als.similar_items(huge)
    for ids in ([2**40], [2**70], [[0, 1]]):
        with pytest.raises(ValueError, match="must be one or more whole numbers from 0 to 2"):
            als.partial_fit_users(ids, RATINGS[[0]])
