"""Each worker writes its rows into a part of a checkpoint, which is whole or absent."""

from __future__ import annotations

import errno
import json
import logging
import shutil
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blocklearn as bl
from blocklearn.learner.checkpoints import checkpoint, parts
from blocklearn.learner.engines import shared_folder
from blocklearn.learner.engines.crew import Crew
from blocklearn.learner.engines.exchange import Exchange
from blocklearn.learner.engines.row_pieces import PartedRows
from blocklearn.learner.errors import DivergedError, ModelFolderError, WorkerError, WorkerLostError
from blocklearn.learner.storage.row_parts import Seal
from blocklearn.models.states.row_share import RowShare
from tests.engines.test_row_owners import OWNED, arrays
from tests.engines.test_workers import CASES, Stops, learnt, trained
from tests.support.often import crossed, first_often, paired
from tests.support.workers import as_workers, results

NAME = "nmf frobenius"  # the variant where the model makes no difference
PARTED = [*OWNED, "als explicit cg"]  # of the last, all workers have all rows
OPTIONS: dict[str, Any] = {"sync_every": 1}


def saved(folder: Path, own: Exchange, *before: bl.Hook, **settings: Any) -> list[bl.Hook]:
    """The hooks of a worker: worker 0 saves, also where a hook before it stops the run."""
    return [*before, bl.Checkpoints(folder, **settings)] if own.rank == 0 else []


def run(folder: Path, workers: int, *before: bl.Hook, name: str = NAME, **options: Any) -> Any:
    """What comes out of a run of several workers, the same on all."""

    def work(own: Exchange) -> dict[str, Any]:
        return learnt(trained(CASES[name], engine=own, hooks=saved(folder, own, *before),
                              **OPTIONS, **options))  # fmt: skip

    found = results(workers, work)
    assert all(each == found[0] for each in found)
    return found[0]


@cache
def expected(name: str = NAME, replicas: int = 3) -> dict[str, Any]:
    """What so many replicas of one process learn; tests share it."""
    return learnt(trained(CASES[name], replicas=replicas, **OPTIONS))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def files_of(workers: int) -> list[str]:
    return ["checkpoint.json", *(f"part-{w:04d}.safetensors" for w in range(workers)),
            "state.safetensors"]  # fmt: skip


@paired(2, name=PARTED, workers=[2, 3, 4])
def test_a_checkpoint_has_the_numbers_of_one_process(
    name: str, workers: int, tmp_path: Path
) -> None:
    """Within a pass and at its end. Of nine blocks, some workers have one more than others."""
    run(tmp_path / "several", workers, Stops(2 * workers), name=name)
    trained(CASES[name], replicas=workers, **OPTIONS,
            hooks=[Stops(2 * workers), bl.Checkpoints(tmp_path / "one")])  # fmt: skip
    assert names(tmp_path / "several") == names(tmp_path / "one")
    (path,) = (tmp_path / "several").iterdir()
    assert names(path) == files_of(workers)
    assert arrays(path) == arrays(tmp_path / "one" / path.name)


@pytest.mark.parametrize("name", first_often(PARTED, 2))
def test_any_number_of_workers_resumes(name: str, tmp_path: Path) -> None:
    """The same replicas, shared out otherwise, have the same bits; parts are read by all."""
    whole = expected(name, replicas=4)
    run(tmp_path / "saved", 4, Stops(4), name=name)
    for workers, replicas in [(4, 1), (2, 2), (1, 4)]:
        folder = shutil.copytree(tmp_path / "saved", tmp_path / f"of {workers}")
        assert run(folder, workers, name=name, replicas=replicas) == whole


def test_workers_resume_what_one_process_has_saved(tmp_path: Path) -> None:
    hooks = [Stops(6), bl.Checkpoints(tmp_path)]
    trained(CASES[NAME], replicas=3, hooks=hooks, **OPTIONS)
    assert names(tmp_path / "pass-0000-block-0000006") == files_of(0)
    assert run(tmp_path, 3) == expected()
    assert names(tmp_path / "pass-0003") == files_of(3)


@pytest.mark.parametrize("name", ["nmf frobenius", "lda kept"])
def test_rows_in_files_go_to_parts_and_back(name: str, tmp_path: Path) -> None:
    """The digests of their pages are those of the rows that were read."""
    files = tmp_path / "files"
    run(tmp_path / "saved", 3, Stops(6), name=name, row_folder=files)
    assert run(tmp_path / "saved", 3, name=name, row_folder=files) == expected(name)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


DAMAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "missing": (Path.unlink, "missing, though the manifest lists it"),
    "short": (cut, "bytes, but "),
    "changed": (flip, "its digest does not match the manifest"),
}


@paired(3, damage=DAMAGES, workers=[1, 2, 3])
def test_a_damaged_part_gives_way_to_the_checkpoint_before(
    damage: str, workers: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Any worker may check it. The warning names the file and what to do."""
    harm, said = DAMAGES[damage]
    run(tmp_path, 3, passes=2)
    harm(tmp_path / "pass-0002" / "part-0001.safetensors")
    replicas = {"replicas": 3} if workers == 1 else {}
    whole = expected() if workers != 2 else None
    found = run(tmp_path, workers, **replicas)
    assert whole is None or found == whole
    assert "pass-0002/part-0001.safetensors: " in caplog.text and said in caplog.text
    assert "Take it from a copy of the checkpoint, or remove the folder" in caplog.text
    assert "trying the one before" in caplog.text


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_part_of_the_only_checkpoint_is_an_error(damage: str, tmp_path: Path) -> None:
    harm, said = DAMAGES[damage]
    run(tmp_path, 3, passes=1)
    harm(tmp_path / "pass-0001" / "part-0002.safetensors")
    first, *others = as_workers(3, lambda own: trained(
        CASES[NAME], engine=own, hooks=saved(tmp_path, own), **OPTIONS))  # fmt: skip
    assert isinstance(first, ModelFolderError)
    assert "pass-0001/part-0002.safetensors: " in str(first) and said in str(first)
    assert "No checkpoint is intact. Remove the folder" in str(first)
    assert all(isinstance(each, WorkerError) and each.rank == 0 for each in others)


def test_rows_that_are_not_those_of_the_blocks_are_an_error(tmp_path: Path) -> None:
    """Such as where a part is left out of the manifest, too."""
    run(tmp_path, 3, passes=1)
    path = tmp_path / "pass-0001"
    manifest = json.loads((path / "checkpoint.json").read_text())
    for key in ("parts", "files"):
        del manifest[key]["part-0002.safetensors"]
    del manifest["digest"]
    content = {k: v for k, v in manifest.items() if k not in ("format", "version", "files")}
    checkpoint.write_manifest(path, "checkpoint.json", format=checkpoint.PARTED, content=content,
                              files=manifest["files"])  # fmt: skip
    with pytest.raises(ModelFolderError, match=r"W has \[30, 30\] rows, which are not those of"):
        checkpoint.read(path)


# ------------------------------------------------------------- whole or absent


def full(*given: Any, **more: Any) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_worker_without_room_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checkpoint before stays valid, nothing of the new one is left, and the run resumes."""
    write = parts.write_tensors

    def write_or_fail(path: Path, given: Any) -> Any:
        late = path.parent.name.startswith(".pass-0002") and path.name == "part-0001.safetensors"
        return full() if late else write(path, given)

    with monkeypatch.context() as patch:
        patch.setattr(parts, "write_tensors", write_or_fail)
        found = as_workers(3, lambda own: run_alone(tmp_path, own))
    first, second, third = found
    assert isinstance(first, WorkerError) and (first.rank, first.code) == (1, 74)
    assert "worker 1: OSError: [Errno 28] No space left on device" in str(first)
    assert first.__notes__ == ["earlier checkpoints are intact; the same program resumes from them"]
    assert isinstance(second, OSError) and second.errno == errno.ENOSPC
    assert isinstance(third, WorkerError) and third.rank == 1
    assert names(tmp_path) == ["pass-0001"]
    assert run(tmp_path, 3) == expected()


def run_alone(folder: Path, own: Exchange, *before: bl.Hook) -> bl.Learner:
    return trained(CASES[NAME], engine=own, hooks=saved(folder, own, *before), **OPTIONS)


def test_the_leader_fails_between_parts_and_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        run(tmp_path, 3, passes=1)
        patch.setattr(checkpoint, "write_manifest", full)
        first, *others = as_workers(3, lambda own: run_alone(tmp_path, own))
    assert isinstance(first, OSError) and first.errno == errno.ENOSPC
    assert all(isinstance(each, WorkerError) and each.rank == 0 for each in others)
    assert names(tmp_path) == ["pass-0001"]
    assert run(tmp_path, 3) == expected()


def test_a_worker_is_lost_before_all_have_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it has left behind is removed, at once or by the next run."""
    write = parts.write_tensors

    class Lost(BaseException):
        """Ends a thread as a kill ends a process: without a word to the others."""

    def write_or_end(path: Path, given: Any) -> Any:
        found = write(path, given)
        if path.parent.name.startswith(".pass-0002") and path.name == "part-0002.safetensors":
            raise Lost
        return found

    with monkeypatch.context() as patch:
        patch.setattr(parts, "write_tensors", write_or_end)
        first, second, third = as_workers(3, lambda own: run_alone(tmp_path, own))
    assert isinstance(first, WorkerLostError) and isinstance(second, WorkerLostError)
    assert isinstance(third, Lost)
    left = tmp_path / ".pass-0002.saving"
    left.mkdir(exist_ok=True)
    (left / "part-0002.safetensors").write_bytes(b"half")
    assert run(tmp_path, 3) == expected()
    assert names(tmp_path) == ["pass-0002", "pass-0003"]


class Spoils(bl.Hook):
    """Makes a row infinite within the second pass."""

    def block(self, learner: bl.Learner, progress: bl.Progress) -> None:
        if (progress.pass_, progress.block) == (1, 3):
            learner._live.own_rows()["W"][0, 0] = np.nan


def test_a_part_that_is_not_finite_is_not_saved(tmp_path: Path) -> None:
    first, *_ = as_workers(3, lambda own: trained(
        CASES[NAME], engine=own, hooks=saved(tmp_path, own, Spoils(), every_blocks=1),
        **OPTIONS))  # fmt: skip
    assert isinstance(first, DivergedError) and str(first).startswith("W is not finite after")
    assert names(tmp_path) == ["pass-0000-block-0000006", "pass-0001"]


# ------------------------------------------------------------- folders that are not shared


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> Callable[[Exchange], None]:
    """Makes files invisible to workers but the first, which call it before they begin."""
    blind: set[int] = set()
    exists, fits = shared_folder.os.path.exists, Seal.fits

    def told(own: Exchange) -> None:
        (blind.add if own.rank else blind.discard)(threading.get_ident())

    def visible() -> bool:
        return threading.get_ident() not in blind

    monkeypatch.setattr(shared_folder.os.path, "exists", lambda path: visible() and exists(path))
    monkeypatch.setattr(Seal, "fits", lambda seal: visible() and fits(seal))
    return told


def test_worker_0_writes_all_rows_where_no_folder_is_shared(
    apart: Callable[[Exchange], None], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It says so once, and the files are those of one process."""

    def work(own: Exchange, *before: bl.Hook) -> dict[str, Any]:
        apart(own)
        return learnt(run_alone(tmp_path / "apart", own, *before))

    with caplog.at_level(logging.WARNING):
        results(3, lambda own: work(own, Stops(6)))
        assert results(3, work) == [expected()] * 3
    said = [text for text in caplog.messages if "not all workers see this folder" in text]
    assert len(said) == 2 and said[0].startswith(f"{tmp_path / 'apart'}: ")  # once in each run
    hooks = [bl.Checkpoints(tmp_path / "one")]
    trained(CASES[NAME], replicas=3, hooks=hooks, **OPTIONS)
    for file in files_of(0)[1:]:
        paths = [tmp_path / folder / "pass-0003" / file for folder in ("apart", "one")]
        assert paths[0].read_bytes() == paths[1].read_bytes()


@paired(2, name=PARTED, workers=[2, 3])
def test_worker_0_hands_out_parts_where_no_folder_is_shared(
    name: str, workers: int, apart: Callable[[Exchange], None], tmp_path: Path
) -> None:
    """Such as those of a copy that it has fetched from a store."""

    def work(own: Exchange) -> dict[str, Any]:
        apart(own)
        options = {**OPTIONS, "replicas": 6 // workers}
        return learnt(trained(CASES[name], engine=own, hooks=saved(tmp_path, own), **options))

    run(tmp_path, 6, Stops(6), name=name)
    assert results(workers, work) == [expected(name, replicas=6)] * workers


def test_worker_0_checks_the_parts_that_others_do_not_see(
    apart: Callable[[Exchange], None], tmp_path: Path
) -> None:
    run(tmp_path, 3, passes=1)
    flip(tmp_path / "pass-0001" / "part-0001.safetensors")

    def work(own: Exchange) -> None:
        apart(own)
        run_alone(tmp_path, own)

    first, *_ = as_workers(3, work)
    assert isinstance(first, ModelFolderError) and "part-0001.safetensors: damaged" in str(first)


# ------------------------------------------------------------- what travels


class Counted(bl.Hook):
    """Notes the bytes that its worker has given when training is over, and before."""

    def __init__(self, own: Exchange) -> None:
        self.given, swap = 0, own._swap

        def counting(given: Any, failed: bool) -> Any:
            self.given += sum(part.nbytes for i, part in enumerate(given) if i != own.rank)
            return swap(given, failed)

        setattr(own, "_swap", counting)  # noqa: B010


def test_no_rows_travel(tmp_path: Path) -> None:
    """A checkpoint costs messages of a few KB, for 16,000 rows as for none."""
    X = np.random.default_rng(0).poisson(0.2, (16_000, 12)).astype(np.float32)

    def given(folder: str | None) -> int:
        def work(own: Exchange) -> int:
            counted = Counted(own)
            hooks = saved(tmp_path / folder, own) if folder else []
            bl.Learner(bl.models.NMF(components=5), X, passes=1, block_rows=1000, engine=own,
                       hooks=hooks, threads=1, verbose=False).fit()  # fmt: skip
            return counted.given

        return sum(results(4, work))

    assert 0 < given("saved") - given(None) < 40_000  # the rows take 320,000
    assert names(tmp_path / "saved" / "pass-0001") == files_of(4)


# ------------------------------------------------------------- the parts themselves


@crossed(firsts=[[0, 1], [0, 4, 8, 11], [0, 3, 3, 7, 8], [0, 0, 0, 2, 2]], workers=[1, 2, 3, 4, 6])
def test_parts_are_read_as_the_whole(
    firsts: list[int], workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every run of rows, also where blocks have no rows, and workers no blocks."""
    monkeypatch.setattr("blocklearn.learner.engines.row_pieces.PIECE", 16)
    first_rows = np.array(firsts)
    array = np.random.default_rng(0).random((firsts[-1], 2)).astype(np.float32)
    shares = [RowShare(first_rows, rank, workers) for rank in range(workers)]
    found = PartedRows(
        first_rows,
        [np.concatenate([array[:0], *(array[a:b] for a, b in share.runs())]) for share in shares],
        None,
    )
    np.testing.assert_array_equal(found.whole(), array)
    assert (len(found), found.nbytes) == (len(array), array.nbytes)
    for begin in range(len(array)):
        for end in range(begin, len(array) + 1):
            np.testing.assert_array_equal(found[begin:end], array[begin:end])


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_each_part_is_checked_once(
    workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tmp_path, 4, passes=1)
    checked: list[str] = []
    check = parts.check_part

    def noted(folder: Path, file: str, manifest: Any) -> None:
        checked.append(file)
        check(folder, file, manifest)

    monkeypatch.setattr(parts, "check_part", noted)

    def work(own: Exchange) -> None:
        crew, path = Crew(own), tmp_path / "pass-0001"
        parts.check_parts(crew, path / "checkpoint.json" if crew.leads else None)

    results(workers, work)
    assert sorted(checked) == files_of(4)[1:-1]
