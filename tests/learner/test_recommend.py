"""Lists for users, of what is similar, and how well held-out items are ranked."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as parquet
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import blocklearn as bl
from blocklearn.datasources import DataError, Ids, MatrixSource
from blocklearn.learner.errors import ConfigError
from blocklearn.learner.recommendation import parts as in_parts
from blocklearn.learner.recommendation.factors import Factors, factors_of
from blocklearn.learner.recommendation.lists import Lists, Ranked
from blocklearn.learner.reports.factors import list_lines
from blocklearn.matcache import ShapeError
from blocklearn.matcache.cpu.backend import CPU
from blocklearn.models.ranking_metrics import ranking_scores
from blocklearn.models.score import values
from tests.support.model_variants import OneSided
from tests.support.often import paired

USERS, ITEMS = 37, 23
USER_IDS = [f'u"{i}, é' for i in range(USERS)]
ITEM_IDS = [f"item {i}" for i in range(ITEMS)]


def one_thread() -> CPU:
    return CPU(1)


def ratings(seed: int = 0) -> Any:
    """Ratings 1 to 5; user 4 has none, item 7 has none, user 5 has rated every other item."""
    rng = np.random.default_rng(seed)
    dense = rng.integers(1, 6, (USERS, ITEMS)) * (rng.random((USERS, ITEMS)) < 0.3)
    dense[5] = 3
    dense[4], dense[:, 7] = 0, 0
    return sp.csr_array(dense.astype(np.float32))


def train(loss: str = "explicit", *, named: bool = True, **settings: Any) -> Any:
    source = MatrixSource(
        ratings(),
        names=ITEM_IDS if named else None,
        row_names=USER_IDS if named else None,
        block_rows=8,
    )
    model = bl.models.ALS(rank=3, loss=loss)
    return bl.Learner(model, train=source, passes=3, threads=1, block_rows=8, **settings).fit()


@pytest.fixture(scope="module")
def explicit() -> Any:
    return train()


@pytest.fixture(scope="module")
def implicit() -> Any:
    return train("implicit", named=False)


def predictions(learner: Any) -> Any:
    """All of them, in float64."""
    factors = factors_of(learner)
    return factors.users.astype(np.float64) @ factors.items.T + factors.offset


def expected(scores: Any, seen: Any, n: int, items: Any = None) -> Any:
    """Lists by sorting everything."""
    scores = scores.copy()
    if seen is not None:
        stored = np.repeat(np.arange(seen.shape[0]), np.diff(seen.indptr)), seen.indices
        scores[stored] = -np.inf
    if items is not None:
        scores[:, np.setdiff1d(np.arange(scores.shape[1]), items)] = -np.inf
    order = np.argsort(-scores, axis=1, kind="stable")[:, :n]
    found = np.where(np.take_along_axis(scores, order, 1) > -np.inf, order, -1)
    return np.pad(found, ((0, 0), (0, n - found.shape[1])), constant_values=-1)


def joined(lists: Lists) -> tuple[Any, Any, Any]:
    blocks = list(lists)
    return tuple(np.concatenate(parts) for parts in zip(*blocks, strict=True))


# ---- lists ---------------------------------------------------------------------------------------


@paired(3, n=[1, 5, ITEMS, ITEMS + 9], kind=["explicit", "implicit"])
def test_lists_are_the_best_predictions(
    kind: str, n: int, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_parts, "BLOCK_ROWS", 10)
    learner = request.getfixturevalue(kind)
    scores = predictions(learner)
    for exclude, seen in ((True, ratings()), (False, None)):
        rows, ids, found = joined(bl.recommend(learner, n=n, exclude_seen=exclude))
        np.testing.assert_array_equal(rows, np.arange(USERS))
        best = expected(scores, seen, min(n, ITEMS))
        np.testing.assert_array_equal(ids[rows != 4], best[rows != 4])
        real = ids >= 0
        wanted = scores[np.nonzero(real)[0], ids[real]]
        np.testing.assert_allclose(found[real], wanted, rtol=1e-5, atol=1e-5)
        assert (found[~real] == -np.inf).all()
    assert (ids[4] >= 0).sum() == min(n, ITEMS)  # without a rating: items by their bias, or number


def test_a_choice_of_users_and_items(explicit: Any) -> None:
    scores = predictions(explicit)
    users, items = [9, 2, 30, 2], [11, 3, 20, 3]
    for given_users, given_items in (
        (users, items),
        ([USER_IDS[u] for u in users], [ITEM_IDS[i] for i in items]),
        (Ids(USER_IDS).take(np.array(users)), np.array(items, np.int32)),
    ):
        rows, ids, _ = joined(bl.recommend(explicit, given_users, 2, items=given_items))
        np.testing.assert_array_equal(rows, users)
        np.testing.assert_array_equal(ids, expected(scores, ratings(), 2, items)[users])
    rows, ids, _ = joined(bl.recommend(explicit, USER_IDS[9], 2))
    np.testing.assert_array_equal(ids, expected(scores, ratings(), 2)[[9]])
    assert list(bl.recommend(explicit, np.zeros(0, np.int64))) == []


def test_what_was_seen(explicit: Any) -> None:
    scores = predictions(explicit)
    other = ratings(seed=1)
    own = MatrixSource(other, block_rows=5)
    shuffled = sp.csr_array(other)
    shuffled.indices = shuffled.indices.copy()
    shuffled.data = shuffled.data.copy()
    for row in range(USERS):
        part = slice(*shuffled.indptr[row : row + 2])
        shuffled.indices[part] = shuffled.indices[part][::-1].copy()
    shuffled.has_sorted_indices = shuffled.has_canonical_format = False
    for seen in (other, other.tocoo(), shuffled, own):
        _, ids, _ = joined(bl.recommend(explicit, n=4, seen=seen))
        np.testing.assert_array_equal(ids, expected(scores, other, 4))
    with pytest.raises(ShapeError, match="Check the orientation"):
        bl.recommend(explicit, seen=other.T)
    with pytest.raises(ShapeError, match="37 users and 23 items"):
        bl.recommend(explicit, seen=MatrixSource(other.T.tocsr()))
    with pytest.raises(ShapeError, match="seen: ndarray: must be a SciPy sparse matrix"):
        bl.recommend(explicit, seen=other.toarray())


def test_seen_items_that_stream(explicit: Any) -> None:
    scores = predictions(explicit)
    source = OneSided(MatrixSource(ratings(), block_rows=6, shuffle=True))
    rows, ids, _ = joined(bl.recommend(explicit, n=4, seen=source))
    np.testing.assert_array_equal(np.sort(rows), np.arange(USERS))
    np.testing.assert_array_equal(ids, expected(scores, ratings(), 4)[rows])
    rows, ids, _ = joined(bl.recommend(explicit, [30, 2], 4, seen=source))
    assert sorted(rows) == [2, 30]
    np.testing.assert_array_equal(ids, expected(scores, ratings(), 4)[rows])


def test_parts_in_their_order_are_all_lists(explicit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all users, of chosen ones, of a source that streams, and of new users."""
    monkeypatch.setattr(in_parts, "BLOCK_ROWS", 4)
    stream = OneSided(MatrixSource(ratings(), block_rows=8))
    for users, options in [
        (None, {}),
        (None, {"exclude_seen": False}),
        ([5, 9, 3, 30, 31], {"seen": ratings()}),
        (None, {"seen": stream}),
        (ratings()[:11], {}),
    ]:
        whole = joined(bl.recommend(explicit, users, n=4, **options))
        parts = [
            joined(bl.recommend(explicit, users, n=4, part=(i, 3), **options)) for i in range(3)
        ]
        for expected, *found in zip(whole, *parts, strict=True):
            np.testing.assert_array_equal(np.concatenate(found), expected)
    with pytest.raises(ConfigError, match="^3 parts of 2 users: each must have one at least"):
        bl.recommend(explicit, [1, 2], part=(0, 3))


def test_new_users(explicit: Any) -> None:
    """A new user with the ratings of a user of the training data gets almost the same factors."""
    new = ratings()[[3, 8]]
    factors = bl.fold_in(explicit, new)
    known = factors_of(explicit)
    scores = factors.astype(np.float64) @ known.items.T + known.offset
    for exclude in (True, False):
        rows, ids, _ = joined(bl.recommend(explicit, new, 5, exclude_seen=exclude))
        np.testing.assert_array_equal(rows, [0, 1])
        np.testing.assert_array_equal(ids, expected(scores, new if exclude else None, 5))
    items = bl.fold_in(explicit, ratings().T.tocsr()[[0, 1]], side="item")
    assert items.shape == (2, known.items.shape[1])
    with pytest.raises(ShapeError, match="must be a SciPy sparse matrix of 23 columns"):
        bl.fold_in(explicit, new[:, :5])
    for rows in (new.toarray(), [[5, 3]]):
        with pytest.raises(ShapeError, match=f"rows: {type(rows).__name__}: must be"):
            bl.fold_in(explicit, rows)


@pytest.mark.parametrize("kind", ["explicit", "implicit"])
def test_what_is_similar(kind: str, request: pytest.FixtureRequest) -> None:
    learner = request.getfixturevalue(kind)
    factors = factors_of(learner)
    for table, function in ((factors.items, bl.similar_items), (factors.users, bl.similar_users)):
        vectors = table[:, : factors.rank].astype(np.float64)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
        cosines = unit @ unit.T
        np.fill_diagonal(cosines, -np.inf)
        rows, ids, scores = joined(function(learner, n=3))
        np.testing.assert_allclose(scores, -np.sort(-cosines, axis=1)[:, :3], atol=1e-6)
        np.testing.assert_allclose(
            np.take_along_axis(cosines, ids.astype(np.int64), 1), scores, atol=1e-6
        )
        assert not (ids == rows[:, None]).any()


def test_lists_are_no_longer_than_there_are_items(explicit: Any) -> None:
    _, ids, _ = joined(bl.recommend(explicit, [3], 10**12, exclude_seen=False))
    assert sorted(ids[0]) == list(range(ITEMS))
    _, ids, _ = joined(bl.similar_items(explicit, [3], 10**12))
    assert sorted(ids[0])[1:] == [item for item in range(ITEMS) if item != 3]
    for function in (bl.recommend, bl.similar_users):
        with pytest.raises(ValueError, match="n=0: must be at least 1"):
            function(explicit, n=0)


def test_ids_that_nobody_knows(explicit: Any, implicit: Any) -> None:
    with pytest.raises(DataError, match="2 of 3 users are unknown to the model: 'x', 'y'$"):
        bl.recommend(explicit, [USER_IDS[0], "x", "y"])
    with pytest.raises(DataError, match="7 of 7 items are unknown.*'0', '1', '2', '3', '4', ...$"):
        bl.similar_items(explicit, [str(i) for i in range(7)])
    with pytest.raises(DataError, match="item 23, but items are numbered from 0 to 22"):
        bl.recommend(explicit, items=[1, 23])
    with pytest.raises(DataError, match="user -1"):
        bl.recommend(explicit, [-1])
    with pytest.raises(TypeError, match="users of dtype float64"):
        bl.recommend(explicit, [1.5])
    _, by_text, _ = joined(bl.recommend(implicit, ["3"]))
    _, by_number, _ = joined(bl.recommend(implicit, [3]))
    np.testing.assert_array_equal(by_text, by_number)


def test_models_without_users() -> None:
    X = ratings()
    learner = bl.Learner(bl.models.LDA(topics=2), train=X, threads=1).fit()
    with pytest.raises(ConfigError, match="a model of kind LDA has no factors of users and items"):
        bl.recommend(learner)


@settings(max_examples=30, deadline=None)
@given(
    users=st.integers(1, 30),
    items=st.integers(1, 20),
    n=st.integers(1, 25),
    block=st.integers(1, 12),
    seed=st.integers(0, 50),
)
def test_any_sizes(users: int, items: int, n: int, block: int, seed: int) -> None:
    """Factors of few different numbers: many ties, which go to the lower item."""
    rng = np.random.default_rng(seed)
    factors = Factors(
        rng.integers(-1, 2, (users, 2)).astype(np.float32),
        rng.integers(-1, 2, (items, 2)).astype(np.float32),
        0.5,
        2,
        None,
        None,
    )
    seen = sp.csr_array((rng.random((users, items)) < rng.random()).astype(np.float32))
    chosen = np.flatnonzero(rng.random(items) < 0.6)
    scores = factors.users.astype(np.float64) @ factors.items.T
    parts = np.array_split(np.arange(users), -(-users // block))
    entries = max(1, int(np.diff(seen.indptr).max())) * int(rng.integers(1, 4))
    for some in (None, chosen):
        blocks = in_parts.Blocks(block, entries, iter([(part, seen[part]) for part in parts]))
        found = list(in_parts.lists_of(factors, factors.users, blocks, n, some, one_thread))
        ids = np.concatenate([block.ids for block in found])
        np.testing.assert_array_equal(ids, expected(scores, seen, n, some))


def test_rows_are_cut_where_their_entries_are_too_many_for_an_int32() -> None:
    """Neither the room for entries, nor an offset and the room together, need fit into one."""
    ends = np.array([0, 2**30, 2**30 + 5, 2**30 + 7, 2**30 + 9], np.int32)
    for room, cuts in ((2**31, [(0, 4)]), (2**30 + 6, [(0, 2), (2, 4)])):
        assert list(in_parts.cuts(ends, 4, room)) == cuts


def test_memory_does_not_grow_with_the_number_of_users() -> None:
    rng = np.random.default_rng(0)
    items = rng.normal(size=(300, 16)).astype(np.float32)

    def peak(count: int) -> int:
        users = rng.normal(size=(count, 16)).astype(np.float32)
        factors = Factors(users, items, 0.0, 16, None, None)
        numbers = np.arange(count)
        tracemalloc.start()
        blocks = in_parts.of_matrix(numbers, None)
        rows = sum(
            len(block.rows)
            for block in in_parts.lists_of(factors, users, blocks, 10, None, one_thread)
        )
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert rows == count
        return most

    peak(4096)
    few, many = peak(8192), peak(16 * 8192)
    assert many < few + 200_000  # one list of 10 for each of the other users would be 9.8 MB


# ---- files ---------------------------------------------------------------------------------------


def test_lists_as_a_file(explicit: Any, implicit: Any, tmp_path: Path) -> None:
    path = tmp_path / "new" / "top.parquet"
    assert bl.write_lists(path, bl.recommend(explicit, n=4)) == parquet.read_table(path).num_rows
    _, ids, scores = joined(bl.recommend(explicit, n=4))
    rows = parquet.read_table(path).to_pylist()
    lines = [
        (USER_IDS[u], ITEM_IDS[item], rank + 1, scores[u, rank])
        for u in range(USERS)
        for rank, item in enumerate(ids[u])
        if item >= 0
    ]
    assert [tuple(row.values()) for row in rows] == lines
    assert list(rows[0]) == ["user", "item", "rank", "score"]

    bl.write_lists(path, bl.similar_items(implicit, [1], 2))
    table = parquet.read_table(path)
    assert [str(field.type) for field in table.schema] == ["int64", "int64", "int32", "float"]
    assert table.column_names == ["item", "similar_item", "rank", "score"]
    assert table["item"].to_pylist() == [1, 1] and table["rank"].to_pylist() == [1, 2]


def test_a_file_is_there_completely_or_not_at_all(explicit: Any, tmp_path: Path) -> None:
    def broken() -> Iterator[Ranked]:
        yield next(iter(bl.recommend(explicit)))
        raise DataError("the disk is gone")

    path = tmp_path / "top.parquet"
    path.write_text("old")
    with pytest.raises(DataError, match="gone"):
        bl.write_lists(path, Lists(broken(), ("user", "item"), None, None))
    assert [file.name for file in tmp_path.iterdir()] == ["top.parquet"]
    assert path.read_text() == "old"


def test_lists_as_lines(explicit: Any) -> None:
    lines = list(bl.recommend(explicit, [5, 2], 2).lines())
    _, ids, scores = joined(bl.recommend(explicit, [2], 2))
    assert lines[0].startswith(f"{USER_IDS[5]}: item 7 (")  # the only one that he has not rated
    assert lines[1] == f"{USER_IDS[2]}: " + ", ".join(
        f"{ITEM_IDS[item]} ({score:.4g})" for item, score in zip(ids[0], scores[0], strict=True)
    )
    first = json.loads(next(bl.recommend(explicit, [2], 2).json_lines()))
    assert first["user"] == USER_IDS[2]
    assert [list(item.values()) for item in first["items"]] == [
        [ITEM_IDS[item], float(score)] for item, score in zip(ids[0], scores[0], strict=True)
    ]
    similar = json.loads(next(bl.similar_users(explicit, [2], 1).json_lines()))
    assert similar.keys() == {"user", "users"}


def test_a_saved_model_gives_the_same_lists(explicit: Any, tmp_path: Path) -> None:
    bl.save(explicit, tmp_path / "m")
    loaded = bl.load(tmp_path / "m")
    assert loaded.row_names == USER_IDS and loaded.names == ITEM_IDS
    with pytest.raises(ValueError, match="does not know what its users have seen"):
        bl.recommend(loaded, [USER_IDS[3]])
    for ours, theirs in zip(
        joined(bl.recommend(explicit, USER_IDS[:7])),
        joined(bl.recommend(loaded, USER_IDS[:7], seen=ratings())),
        strict=True,
    ):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(
        bl.fold_in(loaded, ratings()[:3]), bl.fold_in(explicit, ratings()[:3])
    )


def test_a_closed_learner_still_has_its_factors() -> None:
    learner = train()
    before = joined(bl.recommend(learner))
    learner.close()
    for ours, theirs in zip(before, joined(bl.recommend(learner)), strict=True):
        np.testing.assert_array_equal(ours, theirs)


# ---- ranking of what was held out ----------------------------------------------------------------


@pytest.mark.parametrize("least", [None, 4.0])
def test_ranking_is_scored_at_each_evaluation(least: float | None) -> None:
    held = ratings(seed=1)
    held.data[::5] = 0
    seen_scores: list[dict[str, float]] = []

    class Keep(bl.Hook):
        def evaluated(self, learner: Any, progress: Any) -> None:
            seen_scores.append(dict(progress.scores))

    hooks = [bl.RankingEvaluation(top=3, relevant=least), Keep()]
    learner = train("implicit", named=False, eval=held, hooks=hooks)
    relevant = held.copy()
    relevant.data = (held.data > 0 if least is None else held.data >= least).astype(np.float32)
    relevant.eliminate_zeros()
    lists = expected(predictions(learner), ratings(), 3)
    wanted = values(ranking_scores(lists, relevant, 3, ratings()))
    assert len(seen_scores) == 3
    assert {name: seen_scores[-1][name] for name in wanted} == pytest.approx(wanted)
    assert "rmse" in seen_scores[0] and seen_scores[0]["ndcg@3"] != seen_scores[-1]["ndcg@3"]


def test_a_sample_of_users_is_the_same_at_each_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    held = ratings(seed=1)
    hook = bl.RankingEvaluation(users=9)
    users, relevant = hook.sample(MatrixSource(held, block_rows=4), seed=5)
    assert users.size == 9 and (np.diff(users) > 0).all() and 4 not in users
    np.testing.assert_array_equal(relevant.toarray(), held[users].toarray() > 0)
    again, _ = hook.sample(OneSided(MatrixSource(held, block_rows=4, shuffle=True)), seed=5)  # type: ignore[arg-type]
    np.testing.assert_array_equal(users, again)
    other, _ = hook.sample(MatrixSource(held), seed=6)
    assert set(other) != set(users)
    with pytest.raises(ValueError, match="top=0"):
        bl.RankingEvaluation(top=0)


def test_items_without_factors_are_alike_in_no_order(
    explicit: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert next(iter(list_lines(explicit))) == "alike"
    list(bl.similar_items(explicit, [0]))
    assert not caplog.messages
    state = explicit.row_state("items").copy()
    state[:, :3] = 0
    monkeypatch.setattr(explicit, "row_state", {"items": state, "users": state}.__getitem__)
    assert not list(list_lines(explicit))
    list(bl.similar_items(explicit, [0]))
    assert caplog.messages == [
        "all factors of items are 0, so no two are alike: lists are in no order"
    ]
