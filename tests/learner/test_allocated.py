"""Mapped files own their space from the start: a disk that fills later cannot end the process."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from blocklearn.learner.files.allocated import new_file, new_npy
from blocklearn.learner.results.predictions import Predicted, write_predictions
from blocklearn.learner.storage.export import write_npy
from tests.support.small_disk import run_on_small_disk

MB = 2**20


def on_disk(path: Path) -> int:
    """Bytes of a file that have their place on the disk."""
    return path.stat().st_blocks * 512


def without_reserving(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "posix_fallocate", refuse)


@pytest.mark.parametrize("code", [None, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS])
def test_all_space_is_there_before_the_first_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int | None
) -> None:
    """Reserved, or written out where the file system cannot reserve."""
    if code is not None:
        without_reserving(monkeypatch, code)
    new_file(tmp_path / "a", 2_800_000)
    assert on_disk(tmp_path / "a") >= 2_800_000 == (tmp_path / "a").stat().st_size
    assert not np.fromfile(tmp_path / "a", np.float32).any()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_too_little_room_is_refused_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    without_reserving(monkeypatch, code)
    with pytest.raises(OSError, match=r"4,000 bytes are needed, [\d,]+ bytes are free") as caught:
        new_file(tmp_path / "a", 4000)
    assert caught.value.errno == code and caught.value.filename == str(tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_there_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("mine")
    with pytest.raises(FileExistsError):
        new_file(tmp_path / "a", 40)
    assert (tmp_path / "a").read_text() == "mine"


@pytest.mark.parametrize("dtype, shape", [("<f4", (3, 5)), ("<f8", (7,)), ("<i8", (0, 4))])
def test_npy_files_have_the_bytes_that_numpy_writes(
    tmp_path: Path, dtype: str, shape: tuple[int, ...]
) -> None:
    array = new_npy(tmp_path / "a.npy", dtype, shape)
    array[...] = expected = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    np.save(tmp_path / "b.npy", expected)
    assert (tmp_path / "a.npy").read_bytes() == (tmp_path / "b.npy").read_bytes()


def predictions() -> Iterator[Predicted]:
    yield Predicted(np.arange(10), ["row"] * 10, np.ones((10, 1), np.float32))


def test_predictions_that_do_not_fit_are_refused_before_the_first_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_reserving(monkeypatch, errno.ENOSPC)
    with pytest.raises(OSError, match=r"168 bytes are needed") as caught:
        write_predictions(tmp_path / "p.npy", predictions(), 10)
    assert caught.value.filename == str(tmp_path / "p.npy")
    assert list(tmp_path.iterdir()) == []


def test_tensors_that_do_not_fit_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_reserving(monkeypatch, errno.ENOSPC)
    with pytest.raises(OSError, match=r"168 bytes are needed"):
        write_npy(tmp_path / "t.npy", np.ones((10, 1), np.float32))


def test_a_disk_that_fills_later(tmp_path: Path) -> None:
    """Without its space, the process dies of SIGBUS."""
    code = """
import sys
from pathlib import Path
import numpy as np
from blocklearn.learner.files.allocated import new_file, new_npy

folder = Path(sys.argv[1])
new_file(folder / "a", 2_000_000)
mapped = np.memmap(folder / "a", "<f4", "r+")
arrays = mapped, new_npy(folder / "b.npy", "<f4", (500_000,))
try:
    (folder / "other").write_bytes(bytes(8 * 2**20))
except OSError:
    print("full")
for array in arrays:
    array[:] = 1.0
    print(array.sum())
"""
    done = run_on_small_disk(tmp_path, 6 * MB, code, str(tmp_path))
    assert done.stdout.split() == ["full", "500000.0", "500000.0"], done
