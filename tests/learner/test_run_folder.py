"""Run folders: nothing is overwritten by accident, nothing foreign is deleted, one writer."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from blocklearn.datasources import DataError
from blocklearn.learner.errors import ConfigError, RunFolderError
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
    (folder.path / "notes.txt").touch()
    with pytest.raises(DataError), folder.opened(overwrite=True, resume=False):
        raise DataError("empty")
    assert [path.name for path in folder.path.iterdir()] == ["notes.txt"]


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
