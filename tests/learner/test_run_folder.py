"""Run folders: nothing is overwritten by accident, nothing foreign is deleted, one writer."""

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from blocklearn.datasources import DataError
from blocklearn.learner.errors import ConfigError, RunFolderError
from blocklearn.learner.runs.old_run import OldRun
from blocklearn.learner.runs.run_folder import RunFolder
from blocklearn.models.errors import TargetRangeError


def test_a_new_run(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "runs" / "lda")
    assert not folder.exists
    with folder.opened(overwrite=False, resume=False):
        assert folder.exists
    mark = json.loads((folder.path / "run.json").read_text())
    assert mark["format"] == "blocklearn run" and mark["command"]


def test_an_old_run_is_refused_and_both_ways_out_are_named(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "lda")
    with folder.opened(overwrite=False, resume=False):
        folder.metrics.write_text("old")
    with pytest.raises(RunFolderError, match="--resume auto.*--overwrite"):
        folder.check(overwrite=False, resume=False)
    with folder.opened(overwrite=False, resume=True):
        assert folder.metrics.read_text() == "old"
    with folder.opened(overwrite=True, resume=False):
        assert not folder.metrics.exists()


def test_a_run_that_was_wrong_from_the_start_leaves_no_folder(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "lda")
    for error, recorded, stays in [
        (ConfigError(["model.topics: wrong"]), "start\n", False),
        (TargetRangeError("target 'y' is 2", 7), "start\n", False),
        (DataError("row 9 is wrong"), "start\ntrain\n", True),
        (OSError("broken"), "start\n", True),
    ]:
        opened = folder.opened(overwrite=folder.exists, resume=False)
        with pytest.raises(type(error)), opened:
            folder.metrics.write_text(recorded)
            raise error
        assert folder.path.exists() == folder.metrics.exists() == stays
    other = RunFolder(tmp_path / "other")
    with pytest.raises(DataError), other.opened(overwrite=False, resume=False):
        (other.path / "notes.txt").touch()
        raise DataError("empty")
    assert [path.name for path in other.path.iterdir()] == ["notes.txt"]


def contents(folder: RunFolder) -> dict[str, str]:
    """The files of a folder."""
    files = (path for path in folder.path.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(folder.path)): path.read_text() for path in files}


@pytest.fixture
def old(tmp_path: Path) -> RunFolder:
    """A finished run."""
    folder = RunFolder(tmp_path / "lda")
    with folder.opened(overwrite=False, resume=False):
        folder.metrics.write_text("start\ntrain\nend\n")
        folder.checkpoints.mkdir()
        (folder.checkpoints / "state").write_text("old")
        (folder.path / "model.json").write_text("old")
    return folder


def test_an_old_run_stays_until_the_first_pass_of_the_new_one_ends(old: RunFolder) -> None:
    before = contents(old)
    for recorded, trained in (("start\n", False), ("start\ntrain\n", False), ("start\n", True)):
        with pytest.raises(DataError), old.opened(overwrite=True, resume=False) as hook:
            old.metrics.write_text(recorded)
            assert not old.checkpoints.exists()
            if trained:
                hook.pass_end(None, None)  # type: ignore[arg-type]
                assert not (old.path / ".old").exists()
            raise DataError("row 9 is wrong")
        assert old.path.exists() != trained
        if not trained:
            assert contents(old) == before


@pytest.mark.parametrize("step", range(12))
def test_a_kill_while_an_old_run_is_set_aside(
    old: RunFolder, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """The next process finds it whole, or another run begun in its place."""
    before, real, moves = contents(old), os.rename, 0

    def rename(path: Path, to: Path) -> None:
        nonlocal moves
        moves += 1
        if moves > step:
            raise KeyboardInterrupt
        real(path, to)

    with monkeypatch.context() as patch, suppress(KeyboardInterrupt, DataError):
        patch.setattr(os, "rename", rename)
        patch.setattr(OldRun, "forget", lambda self: None)  # nor does it clean up
        with old.opened(overwrite=True, resume=False):
            raise DataError("row 9 is wrong")
    assert moves == min(step + 1, 8)
    with pytest.raises(DataError), old.opened(overwrite=True, resume=False):
        old.metrics.write_text("start\n")
        raise DataError("row 9 is wrong")
    assert contents(old) == before
    with old.opened(overwrite=False, resume=True):
        assert old.checkpoints.exists()
    assert not (old.path / ".old").exists()


def test_a_run_that_was_killed_before_it_recorded_anything_resumes(
    old: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(OldRun, "forget", lambda self: None)
        with old.opened(overwrite=True, resume=False):
            old.metrics.write_text("new\n")
            raise KeyboardInterrupt
    with old.opened(overwrite=False, resume=True):
        assert old.metrics.read_text() == "new\n" and not old.checkpoints.exists()
    assert not (old.path / ".old").exists()


def test_resume_without_a_run_starts_one(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "lda")
    with folder.opened(overwrite=False, resume=True):
        assert folder.exists


def test_overwriting_deletes_only_what_a_run_writes(tmp_path: Path) -> None:
    folder, elsewhere = RunFolder(tmp_path / "lda"), tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").touch()
    with folder.opened(overwrite=False, resume=False):
        for name in ("model.json", "notes.txt"):
            (folder.path / name).touch()
        (folder.path / "mine").mkdir()
        folder.checkpoints.symlink_to(elsewhere)
    with folder.opened(overwrite=True, resume=False):
        assert not folder.checkpoints.is_symlink()
    left = {path.name for path in folder.path.iterdir()}
    assert left == {"run.json", ".lock", "notes.txt", "mine"}
    assert (elsewhere / "precious").exists()


@pytest.mark.parametrize("overwrite, resume", [(False, False), (True, False), (False, True)])
def test_a_folder_that_is_not_ours_is_never_touched(
    tmp_path: Path, overwrite: bool, resume: bool
) -> None:
    (tmp_path / "model.json").write_text("mine")
    folder = RunFolder(tmp_path)
    opened = folder.opened(overwrite=overwrite, resume=resume)
    with pytest.raises(RunFolderError, match="not a run folder"), opened:
        raise AssertionError
    assert [path.name for path in tmp_path.iterdir()] == ["model.json"]


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    """Of the mark, before there was one; and of other files, later on."""
    folder = RunFolder(tmp_path)
    left, other = tmp_path / ".run.json.4711", tmp_path / ".run.json.old"
    left.write_text("{")
    (tmp_path / ".lock").write_text("process 4711 on vm\n")
    other.write_text("")
    with pytest.raises(RunFolderError, match="not empty and not a run folder"):
        folder.check(overwrite=False, resume=True)
    other.unlink()
    with folder.opened(overwrite=False, resume=True):
        assert folder.exists and not left.exists()
    (tmp_path / ".done").mkdir()
    (tmp_path / ".plan.json.4711").write_text("[")
    with folder.opened(overwrite=False, resume=True):
        assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "run.json"]


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    with pytest.raises(RunFolderError, match="a file"):
        RunFolder(tmp_path / "x").check(overwrite=True, resume=False)


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    with RunFolder(tmp_path).opened(overwrite=False, resume=False):
        pass


HOLD = """
import sys
from pathlib import Path
from blocklearn.learner.runs.run_folder import RunFolder
with RunFolder(Path(sys.argv[1])).opened(overwrite=False, resume=True):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_two_processes_cannot_write_into_one_folder(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "lda")
    command = [sys.executable, "-c", HOLD, str(folder.path)]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout and holder.stdin
    try:
        assert holder.stdout.readline() == "held\n"
        opened = folder.opened(overwrite=True, resume=False)
        with pytest.raises(RunFolderError, match=f"process {holder.pid} on .* is writing"), opened:
            raise AssertionError
    finally:
        holder.kill()  # and a process that dies leaves no lock behind
        holder.wait()
        holder.stdin.close()
        holder.stdout.close()
    with folder.opened(overwrite=True, resume=False):
        pass
