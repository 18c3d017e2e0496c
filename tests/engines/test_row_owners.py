"""Each worker has the states of its own rows, and all learn what replicas of one process learn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import blocklearn as bl
from blocklearn.datasources import HostBlock, MatrixSource
from blocklearn.learner.checkpoints import checkpoint
from blocklearn.learner.engines.crew import Crew
from blocklearn.learner.engines.exchange import Exchange
from blocklearn.learner.engines.row_pieces import RowPieces
from blocklearn.learner.engines.rows import SharedRows, gathered, hand_out
from blocklearn.learner.errors import DivergedError
from blocklearn.learner.training.teams import needed_states, trained_rows
from blocklearn.learner.training.teams.lane import Lane
from blocklearn.matcache import MatCache, ShapeError
from blocklearn.models import RowState, RowStore, TokenState
from blocklearn.models.states import rows_by_need, token_state
from blocklearn.models.states.row_share import RowShare
from tests.engines.test_workers import CASES, Stops, learnt, made, trained
from tests.support.model_variants import counts
from tests.support.often import crossed, first_often, paired, rarely
from tests.support.workers import as_workers, results
from tests.support.worse_first import worse_first

OWNED = ["nmf frobenius", "lda kept", "ranking softmax", "als rows of users", "als steps of items"]
"""Variants whose states of rows are no tables."""


def stored(learner: bl.Learner, workers: int | None = None) -> dict[str, int]:
    """Bytes of the states of rows, by name, as the plan says: for the first of so many workers."""
    ends = " (row state)"
    rows = [row for row in learner.plan(workers).rows if row.name.endswith(ends)]
    return {row.name.removesuffix(ends): row.nbytes for row in rows}


def arrays(path: Path) -> dict[str, bytes]:
    """The arrays of a checkpoint, each whole."""
    tensors = checkpoint.read(path).state.tensors
    return {
        name: (each.whole() if isinstance(each, RowPieces) else each).tobytes()
        for name, each in tensors.items()
    }


@paired(2, name=OWNED, workers=[2, 3, 4])
def test_the_states_of_rows_are_shared_out(name: str, workers: int) -> None:
    """Of nine blocks, the first worker has one more than the last. Arrays are as planned."""
    variant = CASES[name]
    whole = stored(trained(variant))

    def work(own: Exchange) -> dict[str, int]:
        learner = made(variant, engine=own)
        planned = stored(learner)
        learner.fit()
        arrays = {name: rows.nbytes for name, rows in learner._live.own_rows().items()}
        assert arrays == planned == stored(learner)
        return arrays

    found = results(workers, work)
    for state in whole:
        shares = [each[state] for each in found]
        assert sum(shares) == whole[state]
        assert max(shares) < 1.6 * whole[state] / workers


@pytest.mark.parametrize("fails", [False, True], ids=["well", "one fails"])
def test_rows_travel_while_the_next_blocks_train(
    fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where they are few; a failure of a worker meanwhile reaches all."""
    variant, begun = CASES["als explicit cg"], []
    expected = learnt(trained(variant, replicas=3))

    class Noted(Lane):
        def ask(self, *given: Any) -> Any:
            begun.append(self)
            if fails and len(begun) == 5:
                raise DivergedError("factors are not finite")
            return super().ask(*given)

    monkeypatch.setattr(trained_rows, "MANY", 0)
    monkeypatch.setattr(trained_rows, "Lane", Noted)
    found = as_workers(3, lambda own: learnt(trained(variant, engine=own)))
    if fails:
        kinds = sorted(type(each).__name__ for each in found)
        assert kinds == ["DivergedError", "WorkerError", "WorkerError"]
    else:
        assert found == [expected] * 3
        assert len(set(begun)) == 3


@pytest.mark.parametrize("places", ["order", "shuffled", "files"])
def test_trained_rows_reach_all_wherever_they_lie(
    places: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whole blocks where these are the rows in order, in memory; otherwise with their numbers.

    There are several pieces, of whole blocks one of two rounds and one of one.
    """
    filled: list[Any] = []
    monkeypatch.setattr(trained_rows, "MANY", 0)
    monkeypatch.setattr(trained_rows, "PIECE", 1300)
    monkeypatch.setattr(
        Exchange,
        "fill",
        lambda own, room, fill=Exchange.fill: (filled.append(room), fill(own, room)),
    )

    def learner(name: str, **options: Any) -> bl.Learner:
        data = MatrixSource(counts(), block_rows=10, shuffle=places == "shuffled")
        folder = {"row_folder": tmp_path / name} if places == "files" else {}
        given: dict[str, Any] = {"passes": 2, "threads": 1, "sync_every": 3, **folder, **options}
        return bl.Learner(bl.models.ALS(rank=3), data, verbose=False, **given).fit()

    expected = learnt(learner("one", replicas=3))
    assert not filled
    assert results(3, lambda own: learnt(learner("all", engine=own))) == [expected] * 3
    assert {len(room.whole) for room in filled} == ({1, 2} if places == "order" else set())


def test_a_state_that_is_read_as_a_table_is_whole() -> None:
    variant = CASES["als explicit cg"]
    whole = stored(trained(variant))
    assert results(2, lambda own: stored(trained(variant, engine=own))) == [whole] * 2


@paired(2, name=[*OWNED, "als explicit cg", "als by need"], weight=[1.0, 0.5])
def test_a_stopped_run_resumes(name: str, weight: float, tmp_path: Path) -> None:
    """Within a pass, from a checkpoint with the numbers of one process."""
    variant, options = CASES[name], {"sync_every": 1, "sync_weight": weight}
    alone = [Stops(6), bl.Checkpoints(tmp_path / "one")]
    stopped = trained(variant, replicas=3, hooks=alone, **options)
    whole = learnt(trained(variant, replicas=3, **options))

    def work(own: Exchange) -> tuple[dict[str, Any], dict[str, Any]]:
        def hooks(*more: bl.Hook) -> list[bl.Hook]:
            return [*more, bl.Checkpoints(tmp_path / "three", keep=9)] if own.rank == 0 else []

        early = learnt(trained(variant, engine=own, hooks=hooks(Stops(6)), **options))
        return early, learnt(trained(variant, engine=own, hooks=hooks(), **options))

    for early, late in results(3, work):
        assert early == learnt(stopped)
        assert late == whole
    one, three = (tmp_path / name / "pass-0000-block-0000006" for name in ("one", "three"))
    assert arrays(three) == arrays(one)


@pytest.mark.parametrize("name", first_often([*OWNED, "als by need"], 2))
def test_another_number_of_workers_goes_on(name: str, tmp_path: Path) -> None:
    """Rows are dealt anew: it learns what so many replicas learn from there."""
    variant = CASES[name]
    expected = made(variant, replicas=2)
    expected.restore(trained(variant, replicas=3, hooks=[Stops(9)]).state())
    rows = learnt(expected.fit())["tensors"]

    def work(own: Exchange, *hooks: bl.Hook) -> dict[str, Any]:
        hooks = (bl.Checkpoints(tmp_path), *hooks) if own.rank == 0 else ()
        found: dict[str, Any] = learnt(trained(variant, engine=own, hooks=hooks))["tensors"]
        return found

    results(3, lambda own: work(own, Stops(9)))
    assert results(2, work) == [rows, rows]


@pytest.mark.parametrize("shuffle", [False, True])
def test_workers_resume_with_a_block_that_is_not_of_the_first(
    shuffle: bool, tmp_path: Path
) -> None:
    """After block 4 of 9, three workers resume with one of the second: it has the states."""
    X = sparse.random(90, 400, 0.05, format="csr", dtype=np.float32, random_state=0)
    data = MatrixSource(X, block_rows=10, shuffle=shuffle)
    model = {"kind": "nmf", "components": 3, "loss": "kullback-leibler"}

    def fit(state: Any = None, **given: Any) -> bl.Learner:
        learner = bl.Learner(
            model, data, X, passes=2, sync_every=2, seed=3, threads=1, verbose=False, **given
        )
        if state is not None:
            learner.restore(state)
        return learner.fit()

    expected = learnt(fit(fit(replicas=2, hooks=[Stops(4)]).state(), replicas=3))

    def work(own: Exchange, *more: bl.Hook) -> dict[str, Any]:
        hooks = [*more, bl.Checkpoints(tmp_path)] if own.rank == 0 else []
        return learnt(fit(engine=own, hooks=hooks))

    results(2, lambda own: work(own, Stops(4)))
    assert results(3, work) == [expected] * 3


WORSE: dict[str, Any] = {
    "nmf frobenius": "higher",
    "ranking softmax": "lower",
    "als by need": "higher",
}


@pytest.mark.parametrize("name", first_often(WORSE))
def test_the_best_model_has_the_rows_of_all(name: str) -> None:
    """The first evaluation is the best one, because worse scores count as better."""
    variant = CASES[name]
    metric = next(iter(trained(variant, passes=1).progress.scores))
    options: dict[str, Any] = {
        "evaluation": worse_first(metric, WORSE[name], every_blocks=4),
        "sync_every": 1,
    }
    expected = trained(variant, replicas=3, **options)
    assert expected.progress.best is not None
    assert expected.progress.best.position != (3, 0)
    assert (
        results(3, lambda own: learnt(trained(variant, engine=own, **options)))
        == [learnt(expected)] * 3
    )


@pytest.mark.parametrize("name", first_often(["nmf frobenius", "als by need"]))
def test_all_workers_save_one_model(name: str, tmp_path: Path) -> None:
    """Worker 0 writes the bytes of one process; so it does after `close`."""
    variant = CASES[name]
    bl.save(trained(variant, replicas=3), tmp_path / "one")

    def work(own: Exchange) -> None:
        learner = trained(variant, engine=own)
        bl.save(learner, tmp_path / "three")
        learner.close()
        bl.save(learner, tmp_path / "closed")

    results(3, work)
    file = "weights.safetensors"
    for other in ("three", "closed"):
        assert (tmp_path / other / file).read_bytes() == (tmp_path / "one" / file).read_bytes()


@pytest.mark.parametrize("name", ["nmf frobenius", "lda kept"])
def test_rows_in_files_are_those_of_the_worker(name: str, tmp_path: Path) -> None:
    variant = CASES[name]
    expected = learnt(trained(variant, replicas=2))

    def work(own: Exchange) -> dict[str, Any]:
        learner = trained(variant, engine=own, row_folder=tmp_path)
        (array,) = learner._live.own_rows().values()
        (file,) = (tmp_path / learner.crew.folder_name("learner")).glob("*.*[0-9]")
        assert file.stat().st_size == array.nbytes
        return learnt(learner)

    assert results(2, work) == [expected] * 2


def test_a_prior_is_learned_from_the_tokens_of_all_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some ranges of documents each: in the last round some workers have none."""
    monkeypatch.setattr(token_state, "PIECE", 500)
    model = {"kind": "lda", "topics": 3, "assignments": "kept", "warm_up": 0, "fresh_passes": 0}

    def fitted(**given: Any) -> bl.Learner:
        return bl.Learner(
            {**model, "alpha": "auto"}, counts(), block_rows=16, passes=3, seed=3, threads=1,
            engine=given.pop("engine", "local"), verbose=False, **given,
        ).fit()  # fmt: skip

    first = fitted(replicas=3)
    assert first.team is not None
    ranges = len(list(first.team.first.model.states["assignments"].ranges()))
    assert ranges > 3 and ranges % 3
    rooms = [[row.nbytes for row in first.plan(n).rows if "summed" in row.name] for n in (1, 3)]
    assert rooms[1] == [3 * rooms[0][0]]
    expected = learnt(first)
    assert results(3, lambda own: learnt(fitted(engine=own))) == [expected] * 3


def test_users_in_files_go_to_blocks_of_items(tmp_path: Path) -> None:
    variant = CASES["als by need"]
    expected = learnt(trained(variant, replicas=3))

    def work(own: Exchange) -> dict[str, Any]:
        learner = trained(variant, engine=own, row_folder=tmp_path)
        folder = tmp_path / learner.crew.folder_name("learner")
        sizes = {file.name.split(".")[0]: file.stat().st_size for file in folder.glob("*.*[0-9]")}
        assert sizes == {name: rows.nbytes for name, rows in learner._live.own_rows().items()}
        return learnt(learner)

    assert results(3, work) == [expected] * 3


def test_a_worker_trains_its_rows_further() -> None:
    """After `close` each has its own rows, from which `fit` trains further."""
    variant = CASES["nmf batch"]
    first = trained(variant, replicas=2, passes=1)
    expected = learnt(first.fit(first.data.given[0], passes=2))

    def work(own: Exchange) -> dict[str, Any]:
        learner = trained(variant, engine=own, passes=1)
        learner.close()
        return learnt(learner.fit(learner.data.given[0], passes=2))

    assert results(2, work) == [expected] * 2


class Reversed:
    """A source that visits its blocks in the other direction in odd passes."""

    def __init__(self, source: MatrixSource) -> None:
        self.source, self.shape, self.blocks = source, source.shape, source.blocks
        self.names, self.fingerprint = source.names, source.fingerprint

    def read(self, pass_: int, index: int, into: HostBlock) -> None:
        """Read a block."""
        place = self.blocks - 1 - index if pass_ % 2 else index
        self.source.read(0, place, into)
        into.pass_, into.index = pass_, index


@pytest.mark.parametrize("model", ["nmf", "als"])
def test_a_row_in_a_block_of_another_worker_is_an_error(model: str) -> None:
    X = sparse.csr_array(np.random.default_rng(0).poisson(1.0, (40, 12)).astype(np.float32))
    source = Reversed(MatrixSource(X, block_rows=10))

    def work(own: Exchange) -> None:
        bl.Learner(model, source, passes=2, engine=own, threads=1, verbose=False).fit()

    error = as_workers(2, work)[0]
    assert isinstance(error, ShapeError)
    assert "row 30: must be in a block of worker 1, which has its state" in str(error)


# ------------------------------------------------------------- users that blocks of items need


def sparse_ratings(users: int, items: int) -> sparse.csr_array:
    """Few ratings, none of some users and of some items."""
    rng = np.random.default_rng(0)
    R = sparse.random_array((users, items), density=0.004, rng=rng, dtype=np.float32, format="csr")
    R.data = rng.integers(1, 6, R.nnz).astype(np.float32)
    R.data[R.indptr[5] : R.indptr[6]] = 0
    R.eliminate_zeros()
    return R


RIDGES: dict[str, dict[str, Any]] = {
    "cg": {},
    "cholesky": {"solver": "cholesky"},
    "factors only": {"biases": False, "row_reg": 0.1},
    "implicit cg": {"loss": "implicit"},
    "implicit cholesky": {"loss": "implicit", "solver": "cholesky"},
}


SIZES = [(3, 600, 63), (2, 900, 700), (4, 450, 1)]
"""Workers, users and items."""
BROUGHT_OFTEN = [("cg", *SIZES[2]), ("implicit cholesky", *SIZES[1])]
BROUGHT = [("cg", *SIZES[1]), *((name, *SIZES[0]) for name in RIDGES)]


@pytest.mark.parametrize(
    "name, workers, users, items",
    [*BROUGHT_OFTEN, *rarely(*BROUGHT)],
)
def test_workers_bring_the_users_that_a_block_of_items_needs(
    name: str, workers: int, users: int, items: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has its own users only. Some workers may have no block of items; pieces are small."""
    monkeypatch.setattr(rows_by_need, "SAMPLE", 200)
    monkeypatch.setattr(needed_states, "RANGE", 70)
    monkeypatch.setattr(needed_states, "PIECE", 4 * 8 * 50 * workers)
    R = sparse_ratings(users, items)

    def als(passes: int = 3, **given: Any) -> bl.Learner:
        model = bl.models.ALS(rank=6, **RIDGES[name])
        own: dict[str, Any] = {"block_rows": 64, "threads": 1, "sync_every": 2, "verbose": False}
        return bl.Learner(model, R, R, passes=passes, **own, **given)

    expected = als(replicas=workers).fit()
    assert learnt(expected)["tensors"] == learnt(als().fit())["tensors"]

    def work(own: Exchange) -> dict[str, Any]:
        learner = als(engine=own)
        planned = stored(learner)
        assert planned == stored(learner.fit())
        share = 4 * expected.row_state("users").shape[1] * learner._live.owned["users"].share.count
        assert planned["users"] == share < 0.75 * expected.row_state("users").nbytes
        if own.rank == 0:
            assert planned == stored(als(), workers)
        learner.close()
        return learnt(learner.fit(R, R, passes=2))

    further = learnt(expected.fit(R, R, passes=2))
    assert results(workers, work) == [further] * workers


def test_new_items_need_a_saved_model(tmp_path: Path) -> None:
    """While workers have parts of the users, they cannot tell the factors of new items."""
    R = sparse_ratings(900, 700)

    def work(own: Exchange) -> None:
        learner = bl.Learner("als", R, engine=own, block_rows=64, threads=1, verbose=False).fit()
        with pytest.raises(ShapeError, match="each worker has the states of its own rows"):
            learner.predict(R.T.tocsr(), side=1)
        bl.save(learner, tmp_path / "model")

    results(2, work)
    assert len(bl.load(tmp_path / "model").predict(R.T.tocsr(), side=1)) == 700


@pytest.mark.parametrize("loss", ["explicit", "implicit"])
def test_a_run_resumes_among_blocks_of_items(loss: Any, tmp_path: Path) -> None:
    """Of 15 blocks of users and 11 of items 21 are done; as many replicas resume it, too."""
    R = sparse_ratings(900, 700)

    def als(own: Exchange | None, *hooks: bl.Hook, **given: Any) -> bl.Learner:
        fixed: dict[str, Any] = {"block_rows": 64, "passes": 2, "threads": 1, "sync_every": 1}
        model = bl.models.ALS(rank=6, loss=loss)
        engine = {} if own is None else {"engine": own}
        return bl.Learner(model, R, hooks=[*hooks], **fixed, **engine, **given, verbose=False)

    whole = learnt(als(None, replicas=2).fit())

    def work(own: Exchange, *more: bl.Hook) -> dict[str, Any]:
        kept = [bl.Checkpoints(tmp_path, keep=9)] if own.rank == 0 else []
        return learnt(als(own, *more, *kept).fit())

    stopped = results(2, lambda own: work(own, Stops(21)))
    again = als(None, replicas=2)
    again.restore(checkpoint.read(tmp_path / "pass-0000-block-0000021").state)
    assert learnt(again.fit()) == whole
    assert results(2, work) == [whole] * 2
    assert stopped[0]["position"] == (0, 21)


def product(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """R.T @ R in float64."""
    wide = rows.astype(np.float64)
    return wide.T @ wide


@crossed(firsts=[[0, 1], [0, 4, 8, 11], [0, 3, 3, 7, 8], [0, 40, 80, 101]], workers=[1, 2, 3, 6])
def test_a_product_of_all_rows_has_the_same_bits_for_any_workers(
    firsts: list[int], workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with ranges across blocks, ranges without rows, and workers without blocks."""
    monkeypatch.setattr(needed_states, "RANGE", 3)
    rows = np.random.default_rng(0).standard_normal((firsts[-1], 2)).astype(np.float32)
    rows *= 1e3 ** np.arange(2, dtype=np.float32)

    def work(own: Exchange) -> np.ndarray[Any, Any]:
        share = RowShare(np.array(firsts), own.rank, own.size)
        state = RowState(MatCache(threads=1), "rows", 0, rows.shape, 4, 0.0)
        mine = share.own(np.arange(len(rows)))
        state.connect(RowStore.of(rows[mine]), share, whole=False)
        return needed_states.gram_of(state, Crew(own), state.cache)

    alone = RowState(MatCache(threads=1), "rows", 0, rows.shape, 4, 0.0)
    alone.connect(RowStore.of(rows.copy()))
    expected = needed_states.gram_of(alone, Crew(), alone.cache)
    np.testing.assert_allclose(expected, product(rows), rtol=1e-6, atol=1e-4)
    for found in results(workers, work):
        np.testing.assert_array_equal(found, expected)


# ------------------------------------------------------------- the exchange itself


def states(share: RowShare, rows: int) -> list[RowState | TokenState]:
    """A state of rows and one of tokens, of which some rows have none."""
    cache = MatCache(threads=1)
    offsets = np.concatenate([[0], np.cumsum(np.arange(rows) % 3)])
    found: list[RowState | TokenState] = [
        RowState(cache, "rows", 0, (rows, 2), 4, 0.0),
        TokenState(cache, "tokens", offsets, 4, np.uint16),
    ]
    for state in found:
        store = RowStore(*state.stored(share), state.dtype)
        state.connect(store, share, whole=False)
    return found


@crossed(
    firsts=[[0, 1], [0, 4, 8, 11], [0, 3, 3, 7, 8], [0, 4, 8, 12, 16, 17]], workers=[1, 2, 3, 4, 6]
)
def test_rows_go_to_their_owners_and_back(
    firsts: list[int], workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one row only, blocks without rows, workers without blocks, and pieces of some rows."""
    for module in ("row_state", "token_state"):
        monkeypatch.setattr(f"blocklearn.models.states.{module}.PIECE", 16)
    rows = firsts[-1]
    tokens = int((np.arange(rows) % 3).sum())
    given = [
        np.random.default_rng(0).random((rows, 2)).astype(np.float32),
        np.random.default_rng(1).integers(0, 999, (tokens, 1)).astype(np.uint16),
    ]
    some = np.arange(rows)[::2][::-1].copy()

    def work(own: Exchange) -> list[Any]:
        crew = Crew(own)
        share = RowShare(np.array(firsts), own.rank, own.size)
        found = []
        for state, array in zip(states(share, rows), given, strict=True):
            if crew.leads:
                for ids in state.ranges():
                    mine = share.own(ids)
                    state.set_rows(mine, state.cut(array, mine))
            hand_out(state, array if crew.leads else None, crew)

            def fetch(ids: Any, state: Any = state) -> Any:
                return gathered(state, ids, crew, everywhere=True)

            np.testing.assert_array_equal(
                gathered(state, some, crew, everywhere=True).reshape(-1),
                state.cut(array, some).reshape(-1),
            )
            found.append(SharedRows(state, fetch).whole())
            alone = gathered(state, some, crew, everywhere=False)
            assert alone.size == (state.cut(array, some).size if crew.leads else 0)
        return [*found, share.count]

    shares = []
    for *found, count in results(workers, work):
        shares.append(count)
        for array, expected in zip(found, given, strict=True):
            np.testing.assert_array_equal(array, expected)
    assert sum(shares) == rows
    owners = [np.arange(len(firsts) - 1)[rank::workers] for rank in range(workers)]
    assert shares == [int(np.diff(firsts)[own].sum()) for own in owners]
