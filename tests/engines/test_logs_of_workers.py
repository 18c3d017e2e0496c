"""Each worker writes its own rows of tables in files into a checkpoint, and reads its own."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blocklearn as bl
from blocklearn.learner.checkpoints import checkpoint
from blocklearn.learner.engines.exchange import Exchange
from blocklearn.learner.engines.needed_rows import NeededRows
from blocklearn.learner.errors import WorkerError
from blocklearn.learner.files.table_files import TableFiles
from blocklearn.learner.storage import page_logs
from blocklearn.learner.storage.tensor_file import read_tensors
from tests.engines.test_parts import DAMAGES, apart, full  # noqa: F401
from tests.engines.test_workers import Stops
from tests.support.filed_workers import made, whole
from tests.support.often import crossed, first_often
from tests.support.workers import as_workers, results

NAMES = first_often(["factors", "vb", "blocks", "cvb0"])


def train(
    name: str, own: Exchange, saved: Path, *, stops: int = 99, tables: Path | None, **given: Any
) -> bl.Learner:
    """Train; worker 0 saves after each block, and stops after so many."""
    hooks = [bl.Checkpoints(saved, every_blocks=1, keep=9), Stops(stops)]
    given = {"hooks": hooks if own.rank == 0 else [], **given}
    with np.errstate(all="ignore"):
        return made(name, engine=own, table_folder=tables, **given).fit()


def learnt(name: str, own: Exchange, saved: Path, **given: Any) -> dict[str, Any]:
    learner = train(name, own, saved, **given)
    found = whole(learner)
    learner.close()
    return found


def saved_by(workers: int, name: str, folder: Path, stops: int = 99) -> None:
    def work(own: Exchange) -> None:
        train(name, own, folder / "saved", stops=stops, tables=folder / "tables").close()

    results(workers, work)


def rows_in(path: Path) -> dict[str, list[int]]:
    """The columns of the data in each log of a checkpoint."""
    logs = json.loads((path / "checkpoint.json").read_text())["pages"]["logs"]
    return {file: read_tensors(path / file, logs[file])["groups"].tolist() for file in logs}


@pytest.mark.parametrize("name", NAMES)
def test_each_worker_writes_its_own_rows(name: str, tmp_path: Path) -> None:
    """Within a pass and at its end. No other row is written, and none twice."""
    saved_by(2, name, tmp_path)
    for position in ("pass-0000-block-0000008", "pass-0001", "pass-0002"):
        found = rows_in(tmp_path / "saved" / position)
        assert list(found) == ["pages-0000-0000.safetensors", "pages-0001-0000.safetensors"]
        for rank, columns in enumerate(found.values()):
            assert columns == sorted(set(columns)) and {c % 2 for c in columns} == {rank}
        assert name in ("vb", "cvb0") or 0 < sum(map(len, found.values())) < 300


@pytest.mark.parametrize("name", NAMES)
@crossed(blocks=[4, 9], workers=[1, 2, 3])
def test_another_number_of_workers_resumes(
    name: str, blocks: int, workers: int, tmp_path: Path
) -> None:
    """In the middle of a pass, and at its end; as as many replicas of one process do, in memory."""
    saved_by(2, name, tmp_path, stops=blocks)
    state = checkpoint.newest(tmp_path / "saved")
    assert state is not None
    one = made(name, replicas=workers)
    one.restore(state.state)
    expected = whole(one.fit())

    def work(own: Exchange) -> dict[str, Any]:
        return learnt(name, own, tmp_path / "saved", tables=tmp_path / "tables")

    if workers > 1:
        assert results(workers, work) == [expected] * workers
    in_files = made(name, replicas=1, table_folder=tmp_path / "one")
    in_files.restore(state.state)
    found = whole(in_files.fit())
    assert workers > 1 or found["parameters"] == expected["parameters"]


def test_saving_gathers_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gather, calls = NeededRows.gather, list[int]()

    def counted(rows: NeededRows, tables: Any) -> None:
        calls.append(threading.get_ident())
        gather(rows, tables)

    monkeypatch.setattr(NeededRows, "gather", counted)

    def gathered(folder: str | None) -> int:
        def work(own: Exchange) -> None:
            hooks = [bl.Checkpoints(tmp_path / folder, every_blocks=1)] if folder else []
            hooks = hooks if own.rank == 0 else []
            made("blocks", engine=own, table_folder=tmp_path / "tables", hooks=hooks).fit().close()

        calls.clear()
        results(2, work)
        return len(calls)

    assert gathered("saved") == gathered(None)


def test_only_worker_0_reads_the_rows_of_others(tmp_path: Path) -> None:
    """They are old on the others until whole tables are read: by then, all have them."""
    saved_by(2, "factors", tmp_path)
    expected = whole(made("factors", replicas=2).fit())["parameters"]
    seen = []

    class Look(bl.Hook):
        def start(self, learner: bl.Learner, progress: bl.Progress) -> None:
            seen.append(learner.parameter("factors").tobytes())

    def work(own: Exchange) -> tuple[dict[str, Any], int]:
        hooks = [bl.Checkpoints(tmp_path / "saved"), Look()] if own.rank == 0 else []
        learner = made("factors", engine=own, table_folder=tmp_path / "tables", hooks=hooks)
        share = learner._live.share
        counts = []

        def shared(*given: Any) -> None:
            share(*given)
            files = learner.placed_tables
            assert isinstance(files, TableFiles)
            counts.append(files.places.count)

        learner._live.share = shared  # type: ignore[method-assign]
        learner.fit()
        return {n: learner.parameter(n).tobytes() for n in learner.model.parameters}, counts[0]

    (first, of_first), (second, of_second) = results(2, work)
    assert first == second == expected and seen == [expected["factors"]]
    assert of_first > 0 and of_second == 0


@crossed(damage=DAMAGES, workers=[1, 2])
def test_a_damaged_log_gives_way_to_the_checkpoint_before(
    damage: str, workers: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Any worker may check it. The warning names the file."""
    harm, said = DAMAGES[damage]
    saved_by(2, "blocks", tmp_path)
    harm(tmp_path / "saved" / "pass-0002" / "pages-0001-0000.safetensors")
    expected = whole(made("blocks", replicas=2).fit())

    def work(own: Exchange) -> dict[str, Any]:
        tables = tmp_path / "tables" if workers > 1 else None
        return learnt("blocks", own, tmp_path / "saved", tables=tables, replicas=2 // workers)

    assert results(workers, work) == [expected] * workers
    assert "pass-0002/pages-0001-0000.safetensors: " in caplog.text and said in caplog.text
    assert "trying the one before" in caplog.text


def test_a_worker_without_room_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checkpoint before stays, nothing of the new one is left, and the run resumes."""
    write = page_logs.write_tensors

    def write_or_fail(path: Path, given: Any) -> Any:
        late = path.parent.name.startswith(".pass-0001") and path.name.startswith("pages-0001")
        return full() if late else write(path, given)

    def work(own: Exchange, tables: str) -> dict[str, Any]:
        return learnt("blocks", own, tmp_path / "saved", tables=tmp_path / tables)

    with monkeypatch.context() as patch:
        patch.setattr(page_logs, "write_tensors", write_or_fail)
        first, second = as_workers(2, lambda own: work(own, "a"))
    assert isinstance(first, WorkerError) and (first.rank, first.code) == (1, 74)
    assert isinstance(second, OSError)
    assert not [path for path in (tmp_path / "saved").iterdir() if path.name.startswith(".")]
    assert not (tmp_path / "saved" / "pass-0001").exists()
    expected = whole(made("blocks", replicas=2).fit())
    assert results(2, lambda own: work(own, "b")) == [expected] * 2


@pytest.mark.parametrize("name", first_often(["factors", "vb"]))
def test_worker_0_writes_and_sends_all_rows_where_no_folder_is_shared(
    name: str,
    apart: Callable[[Exchange], None],  # noqa: F811
    tmp_path: Path,
) -> None:
    def work(own: Exchange, stops: int) -> dict[str, Any]:
        apart(own)
        return learnt(name, own, tmp_path / "saved", tables=tmp_path / "tables", stops=stops)

    results(2, lambda own: work(own, 4))
    path = tmp_path / "saved" / "pass-0000-block-0000004"
    assert list(rows_in(path)) == ["pages-0000-0000.safetensors"]
    expected = whole(made(name, replicas=2).fit())
    assert results(2, lambda own: work(own, 99)) == [expected] * 2
