"""Workers with tables in files, which fetch the rows that their blocks need; all are threads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blocklearn as bl
from blocklearn.datasources import MatrixSource
from blocklearn.learner.engines import given_rows, needed_rows, owned_rows
from blocklearn.learner.engines.exchange import Exchange
from blocklearn.learner.errors import ConfigError, DivergedError, PageError, WorkerError
from blocklearn.learner.files.table_files import TableFiles
from blocklearn.learner.training.replicas.replica import Replica
from blocklearn.optimizers import CombinationError
from tests.engines.test_workers import Stops
from tests.support.filed_workers import KEPT, MODELS, data_of, filed, made, whole
from tests.support.often import first_often, paired
from tests.support.workers import as_workers, results


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers give, merge, gather and write few rows at a time, and the last ones are fewer."""
    monkeypatch.setattr(given_rows, "piece_of", lambda workers: 100)
    monkeypatch.setattr(needed_rows, "PIECE", 350)
    monkeypatch.setattr(owned_rows, "PIECE", 350)


@pytest.mark.usefixtures("small_pieces")
@paired(8, name=MODELS, workers=[2, 3])
def test_workers_learn_what_replicas_learn_in_memory(
    name: str, workers: int, tmp_path: Path
) -> None:
    """Of two workers, one has no block in the last round of a pass. Merges have several pieces."""
    expected = whole(made(name, replicas=workers).fit())
    assert results(workers, lambda own: filed(name, tmp_path, own)) == [expected] * workers
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", first_often(["vb", "blocks"]))
def test_engines_that_keep_exchanges_to_one_thread_learn_the_same(
    name: str, tmp_path: Path
) -> None:
    def work(own: Exchange) -> dict[str, Any]:
        own.any_thread = False
        return filed(name, tmp_path, own)

    assert results(2, work) == [whole(made(name, replicas=2).fit())] * 2


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize(
    "name", first_often(["kept later", "factors", "vb", "blocks", "kmeans", "nmf", "kept"])
)
@pytest.mark.parametrize("blocks", [4, 8])
def test_a_checkpoint_of_worker_0_resumes_wherever_tables_lie(
    name: str, blocks: int, tmp_path: Path
) -> None:
    """Within a pass: after block 8 of 9, one worker has no block of this pass."""
    expected = whole(made(name, replicas=2).fit())
    where = tmp_path / "tables"

    def work(own: Exchange) -> tuple[dict[str, Any], ...]:
        def run(saved: str, stops: int = 99, folder: Path | None = where) -> dict[str, Any]:
            hooks = [bl.Checkpoints(tmp_path / saved, every_blocks=blocks), Stops(stops)]
            learner = made(
                name, engine=own, table_folder=folder, hooks=hooks if own.rank == 0 else []
            )
            with np.errstate(all="ignore"):
                found = whole(learner.fit())
            learner.close()
            return found

        stopped = run("a", blocks)
        run("b", blocks)
        return stopped, run("a"), run("b", folder=None)

    stopped = whole(made(name, replicas=2, hooks=[Stops(blocks)]).fit())
    assert results(2, work) == [(stopped, expected, expected)] * 2
    results(2, lambda own: _stopped(name, own, tmp_path / "c", where, blocks))
    one = made(name, replicas=2, checkpoint=tmp_path / "c").fit()
    assert whole(one) == expected


def _stopped(name: str, own: Exchange, saved: Path, where: Path, blocks: int) -> None:
    hooks = [bl.Checkpoints(saved, every_blocks=blocks), Stops(blocks)]
    made(name, engine=own, table_folder=where, hooks=hooks[: 2 * (own.rank == 0)]).fit().close()


def test_a_checkpoint_of_tables_in_memory_resumes_in_files(tmp_path: Path) -> None:
    expected = whole(made("vb", replicas=2).fit())
    made("vb", replicas=2, hooks=[bl.Checkpoints(tmp_path / "a", every_blocks=4), Stops(4)]).fit()

    def work(own: Exchange) -> dict[str, Any]:
        hooks = [bl.Checkpoints(tmp_path / "a")] if own.rank == 0 else []
        return whole(made("vb", engine=own, table_folder=tmp_path / "b", hooks=hooks).fit())

    assert results(2, work) == [expected] * 2


@pytest.mark.parametrize("name", first_often(["cvb0", "blocks", "kmeans", "nmf"]))
def test_workers_go_on_from_the_middle_of_a_pass_of_one(name: str, tmp_path: Path) -> None:
    """Rows rest in the checkpoint of one replica: all workers bring them up to date first."""
    made(name, hooks=[bl.Checkpoints(tmp_path / "a", every_blocks=4), Stops(4)]).fit()

    def work(own: Exchange) -> dict[str, Any]:
        hooks = [bl.Checkpoints(tmp_path / "a")] if own.rank == 0 else []
        return whole(made(name, engine=own, table_folder=tmp_path / "b", hooks=hooks).fit())

    one, other = results(2, work)
    assert one == other
    resumed = made(name, replicas=2, checkpoint=tmp_path / "a").fit()
    parameter = next(iter(one["parameters"]))
    found = np.frombuffer(one["parameters"][parameter], np.float32)
    wanted = resumed.parameter(parameter).ravel()
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)


def test_a_closed_learner_trains_further_in_files(tmp_path: Path) -> None:
    """Every worker has all rows, and gets those of worker 0 again."""
    first = made("blocks", replicas=2, passes=1).fit()
    expected = whole(first.fit(data_of("blocks")))

    def work(own: Exchange) -> dict[str, Any]:
        learner = made("blocks", engine=own, passes=1, table_folder=tmp_path).fit()
        learner.close()
        return whole(learner.fit(data_of("blocks")))

    assert [found["parameters"] for found in results(2, work)] == [expected["parameters"]] * 2


@pytest.mark.parametrize("name", first_often(["blocks", "factors", "vb", "kmeans", "nmf"]))
def test_closed_workers_take_another_state_of_the_same_position(name: str, tmp_path: Path) -> None:
    """They have no rows left of what they learned before, in columns that it does not have."""
    (model, optimizer), data = MODELS[name], data_of(name)
    given: dict[str, Any] = {"optimizer": optimizer, "block_rows": 10, "seed": 3, "passes": 1}
    turned = (
        (data[0][:, ::-1].tocsr(), data[1]) if isinstance(data, tuple) else data[:, ::-1].tocsr()
    )
    other = bl.Learner(model, turned, table_folder=tmp_path / "a", **given).fit().state()
    in_memory = bl.Learner(model, turned, **given).fit().state()
    learner = made(name, replicas=2)
    learner.restore(in_memory)
    expected = whole(learner.fit())["parameters"]

    def work(own: Exchange) -> Any:
        learner = made(name, engine=own, passes=1, table_folder=tmp_path / "b").fit()
        learner.close()
        learner.passes = 2
        if own.rank == 0:
            learner.restore(other)
        return whole(learner.fit())["parameters"]

    assert results(2, work) == [expected] * 2


@pytest.mark.parametrize("passes", [1, 2])
def test_a_state_is_not_given_to_workers_that_have_trained(passes: int, tmp_path: Path) -> None:
    """Not even one of as many passes: tables would keep rows that the state does not have."""

    def work(own: Exchange) -> None:
        early = made("blocks", engine=own, passes=1, table_folder=tmp_path / "a").fit().state()
        learner = made("blocks", engine=own, passes=passes, table_folder=tmp_path / "b").fit()
        learner.passes = 2
        if own.rank == 0:
            learner.restore(early)
        learner.fit()

    found = as_workers(2, work)
    assert isinstance(found[1], ConfigError) and "make a new Learner" in str(found[1])
    assert isinstance(found[0], WorkerError)


def test_the_model_of_worker_0_is_that_of_replicas(tmp_path: Path) -> None:
    bl.save(made("factors", replicas=2).fit(), tmp_path / "expected")

    def work(own: Exchange) -> None:
        learner = made("factors", engine=own, table_folder=tmp_path / "tables").fit()
        if own.rank:
            learner.stand_by()
            return
        with learner.alone():
            bl.save(learner, tmp_path / "found")

    results(2, work)
    paths = [tmp_path / each / "weights.safetensors" for each in ("found", "expected")]
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_workers_that_an_engine_starts_get_the_folders(tmp_path: Path) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    assert made("blocks", table_folder=folders)._task().args[0]["table_folder"] == folders
    assert made("blocks")._task().args[0]["table_folder"] is None


def test_small_tables_stay_in_memory(tmp_path: Path) -> None:
    expected = whole(made("blocks", replicas=2).fit())

    def work(own: Exchange) -> dict[str, Any]:
        files = TableFiles([tmp_path], f"worker-{own.rank}", memory=2**20)
        learner = made("blocks", engine=own, table_folder=files).fit()
        assert not files.tables
        return whole(learner)

    assert results(2, work) == [expected] * 2


def test_a_page_that_changes_between_merges_is_found(tmp_path: Path) -> None:
    """A whole table is compared before it is read, on the worker that reads it."""

    def work(own: Exchange) -> None:
        learner = made("blocks", engine=own, table_folder=tmp_path).fit()
        if own.rank == 1:
            files = learner.placed_tables
            assert files is not None
            files.tables["W"].array[3] += 1
            with pytest.raises(PageError, match="of 'W'.*damaged"):
                learner.parameter("W")
        else:
            learner.parameter("W")

    results(2, work)


@pytest.mark.parametrize("name", first_often(["blocks", "factors", "cvb0", "kmeans", "nmf"], 3))
def test_between_merges_tables_have_the_rows_of_their_blocks_alone(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So blocks touch few pages. Only those who read whole tables wait for them: scores do."""
    begin_anew, places = TableFiles.begin_anew, list[tuple[str, int]]()

    def counted(files: TableFiles) -> None:
        places.append((files.folders[0].path.name, files.places.count))
        begin_anew(files)

    monkeypatch.setattr(TableFiles, "begin_anew", counted)
    data = data_of(name)
    X, y = data if isinstance(data, tuple) else (data, None)

    def work(own: Exchange) -> None:
        model, optimizer = MODELS[name]
        bl.Learner(
            model, MatrixSource(X, targets=y, block_rows=10), optimizer=optimizer, passes=2,
            sync_every=2, threads=1, engine=own, table_folder=tmp_path, verbose=False,
        ).fit()  # fmt: skip

    results(2, work)
    columns = [set(X[i : i + 10].indices.tolist()) for i in range(0, 90, 10)]
    for rank, worker in enumerate(["learner-tables", "learner-worker-1-tables"]):
        own = columns[rank::2]
        stretches = [len(set().union(*own[i : i + 2])) for i in (0, 2, 4)]
        found = [count for folder, count in places if folder == worker]
        assert found == [0, *stretches, *stretches]  # at last, all rows come


def test_a_page_that_changes_before_the_next_block_is_found(tmp_path: Path) -> None:
    """Training takes its own rows out of tables, and may not take damaged ones."""

    def work(own: Exchange) -> None:
        learner = made("factors", engine=own, table_folder=tmp_path).fit()
        if own.rank == 1:
            files = learner.placed_tables
            assert files is not None
            files.tables["factors"].array[3] += 1
        learner.fit(data_of("factors"))

    found = as_workers(2, work)
    assert isinstance(found[1], PageError) and "of 'factors'" in str(found[1])
    assert isinstance(found[0], WorkerError)


def test_a_number_that_is_not_finite_is_found_after_any_block_of_a_stretch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not only after the last one, whose rows may be others."""
    train = Replica.train

    def broken(replica: Replica, host: Any, *given: Any) -> None:
        train(replica, host, *given)
        if (host.pass_, host.index) == (1, 1):
            replica.model.parameters["W"].slot.array[replica.occurring[0]] = np.nan

    monkeypatch.setattr(Replica, "train", broken)
    found = as_workers(2, lambda own: made("ftrl", engine=own, table_folder=tmp_path).fit())
    assert isinstance(found[1], DivergedError) and "W is not finite" in str(found[1])


def test_sums_of_lambda_follow_it_from_pass_to_pass(tmp_path: Path) -> None:
    """Kept topics change it at the end of a pass, whose launches are repeated without its code."""

    class Look(bl.Hook):
        def __init__(self) -> None:
            self.seen: list[Any] = []

        def block(self, learner: bl.Learner, progress: bl.Progress) -> None:
            wanted = learner.parameter("lambda").sum(axis=0, keepdims=True, dtype=np.float64)
            assert learner.team is not None
            sums = learner.team.first.model.column_sums["lambda"].numpy()
            self.seen.append((sums.copy(), wanted))

    def work(own: Exchange) -> None:
        hooks = [Look()] if own.rank == 0 else []
        made("kept", engine=own, passes=5, table_folder=tmp_path, hooks=hooks).fit()
        for look in hooks:
            assert len(look.seen) == 3 * 5
            for found, wanted in look.seen:
                np.testing.assert_allclose(found, wanted, rtol=1e-6)

    results(2, work)


@pytest.mark.parametrize(
    "model, given, remedy",
    [
        ({"kind": "glm", "l1": 1e-3}, {}, "Leave out penalties"),
        ("glm", {"sync_weight": 0.5}, "a sync_weight below 1"),
        ("glm", {"optimizer": {"kind": "adagrad", "average_from": 3}}, "averages"),
        ({"kind": "lda", "topics": 3, "eta": [0.1] * 400}, {}, "priors of single words"),
        ({**KEPT, "eta": [0.1] * 400}, {}, "priors of single words"),
    ],
    ids=["penalty", "apart", "average", "words", "words, kept"],
)
def test_what_changes_rows_that_no_block_reads_is_refused(
    model: Any, given: dict[str, Any], remedy: str, tmp_path: Path
) -> None:
    X, y = data_of("blocks")
    X.data[:] = 1.0
    train = X if model != "glm" and model["kind"] == "lda" else (X, y)

    def work(own: Exchange) -> None:
        learner = bl.Learner(
            model, train, block_rows=10, threads=1, engine=own, table_folder=tmp_path, **given
        )
        with pytest.raises(CombinationError, match=f"files of several workers.*{remedy}"):
            learner.plan()
        with pytest.raises(CombinationError, match=f"files of several workers.*{remedy}"):
            learner.fit()

    results(2, work)
    assert list(tmp_path.iterdir()) == []


def test_the_plan_has_own_rows_in_memory_and_tables_in_files(tmp_path: Path) -> None:
    plan = made("blocks", table_folder=tmp_path).plan(4)
    held = {row.name: row.held for row in plan.rows}
    assert held["own rows of tables, as merged"] == 400 // 4 * 8
    assert held["W"] == held["optimizer.W.G"] == 0
    assert plan.table_files["W.float32"] == 4 * 400
