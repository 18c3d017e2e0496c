"""Places that cannot be written or read: devices, files instead of folders, URLs, links, locks."""

from __future__ import annotations

import os
from collections.abc import Callable
from inspect import signature
from itertools import product
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from blocklearn.durable import make_folder, write_file, write_folder
from blocklearn.learner.command_line.cli import COMMANDS
from blocklearn.learner.exit_codes import ExitCode, exit_code, message
from blocklearn.learner.files.lock import Lock
from blocklearn.learner.watch.tensorboard import TensorBoard
from tests.support.largest_file import largest_file
from tests.support.learn_command import Learn

CONFIG = "model: {kind: kmeans}\ndata: {train: {kind: time-zones}}\n"


def test_a_file_does_not_replace_a_pipe_or_a_device(tmp_path: Path) -> None:
    pipe = tmp_path / "page.html"
    os.mkfifo(pipe)
    with pytest.raises(FileExistsError, match="a device or a pipe") as error:
        write_file(pipe, b"page")
    assert pipe.is_fifo() and exit_code(error.value) == ExitCode.USAGE
    assert message(error.value).startswith(f"{pipe}: ")


def test_a_file_in_the_place_of_a_folder_is_named(tmp_path: Path) -> None:
    file, lost = tmp_path / "file", tmp_path / "lost"
    file.write_text("mine")
    lost.symlink_to("nowhere")
    writers: list[Callable[[Path], None]] = [
        lambda place: write_file(place / "a.csv", b""),
        lambda place: write_folder(place, lambda folder: None),
        lambda place: TensorBoard(place)({"event": "start", "rows": 0}),
    ]
    for place, write in product((file, lost), writers):
        with pytest.raises(NotADirectoryError) as error:
            write(place)
        assert exit_code(error.value) == ExitCode.NO_INPUT
        assert message(error.value).startswith(f"{place}: not a folder. Choose")
    assert file.read_text() == "mine" and sorted(tmp_path.iterdir()) == [file, lost]


def test_no_folder_is_named_after_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotADirectoryError, match="a URL, but this is written to a disk"):
        make_folder(Path("s3://bucket/run"))
    assert not list(tmp_path.iterdir())
    Path("a:").mkdir()
    make_folder(Path("a:/b"))
    make_folder(Path("c/s3:/d"))


@pytest.mark.parametrize("out", ["loop", "lost", "s3://bucket/run", "file/run"])
def test_a_run_that_has_no_folder(command: Learn, out: str) -> None:
    Path("loop").symlink_to("loop")
    Path("lost").symlink_to("nowhere")
    Path("file").touch()
    Path("run.yaml").write_text(CONFIG)
    code, _, err = command("--config", "run.yaml", "--out", out)
    assert code == ExitCode.NO_INPUT and err.startswith(f"learn: {Path(out)}: ")
    assert err.count("\n") == 1
    assert sorted(os.listdir()) == ["file", "loop", "lost", "run.yaml"]


@pytest.mark.parametrize("place", ["loop", "lost", "file/dataset"])
def test_a_dataset_that_has_no_folder(command: Learn, place: str) -> None:
    Path("loop").symlink_to("loop")
    Path("lost").symlink_to("nowhere")
    Path("file").touch()
    Path("rows.svm").write_text("1 1:2\n")
    code, _, err = command("convert", "rows.svm", place)
    assert code == ExitCode.NO_INPUT and err.startswith(f"learn: {place}: ")
    assert err.lower().count("not a") == 1 and err.count("\n") == 1


def test_a_full_disk_names_the_lock_and_the_events_of_tensorboard(tmp_path: Path) -> None:
    lock, board = Lock(tmp_path / "lock"), TensorBoard(tmp_path)
    with largest_file(1):
        with pytest.raises(OSError) as error:
            lock.write("this process")
        assert message(error.value) == f"{lock.path}: File too large"
        with pytest.raises(OSError) as error:
            board({"event": "start", "rows": 0})
        assert message(error.value) == f"{board.file}: File too large"
    lock.close()


def test_no_option_of_a_file_ends_with_the_code_of_usage_if_it_may_not_be_read() -> None:
    seen = 0
    for each in COMMANDS:
        hints = get_type_hints(each, include_extras=True)
        for name in signature(each).parameters:
            kind, *about = get_args(hints[name]) or (None,)
            if Path in (kind, *get_args(kind)):
                assert about[0].readable is False, (each.__name__, name)
                seen += 1
    assert seen > 20
