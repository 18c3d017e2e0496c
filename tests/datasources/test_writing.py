"""Files written elsewhere are complete or absent, whatever the store does meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from blocklearn.datasources import DataError
from blocklearn.datasources.remote import (
    Patience,
    RemoteError,
    StoredPath,
    get_folder,
    place_of,
    put,
    put_folder,
)
from tests.support.web_servers import FakeHdfs, serving

DATA = np.random.default_rng(0).bytes(300_000)
QUICK = Patience(timeout=10.0, attempts=4, pause=0.001)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "file").write_bytes(DATA)
    return tmp_path / "file"


def stored(url: str) -> StoredPath:
    place = place_of(url, QUICK)
    assert isinstance(place, StoredPath)
    return place


# ------------------------------------------------------------- WebHDFS


@pytest.fixture
def hdfs() -> Iterator[FakeHdfs]:
    fake = FakeHdfs({"/d/a b": b"old"})
    with serving(fake) as server:
        fake.url = f"webhdfs://{server.address}"  # type: ignore[attr-defined]
        yield fake


@pytest.mark.parametrize(
    "faults", [[], ["500", "dead", "500"], ["half", "half"], ["none", "lost"]], ids=str
)
def test_webhdfs_has_the_file_in_the_end(hdfs: Any, file: Path, faults: list[str]) -> None:
    """Whether the datanode fails, or drops bytes, or the answer to the last step is lost."""
    hdfs.faults = faults
    put(file, stored(f"{hdfs.url}/d/a b"), QUICK)
    assert hdfs.files == {"/d/a b": DATA}


@pytest.mark.parametrize("fault", ["500", "half"])
def test_webhdfs_keeps_the_earlier_file_if_it_fails_always(
    hdfs: Any, file: Path, fault: str
) -> None:
    hdfs.faults = [fault] * 4
    with pytest.raises(RemoteError, match=r"/d/a b: .*tried 4 times"):
        stored(f"{hdfs.url}/d/a b").files.put(file, "/d/a b")
    assert hdfs.files == {"/d/a b": b"old"}
    with pytest.raises(PermissionError, match="HDFS does not allow it"):
        put(file, stored(f"{hdfs.url}/secret/a"), QUICK)


# ------------------------------------------------------------- any store


@pytest.fixture
def memory() -> Iterator[Any]:
    fsspec = pytest.importorskip("fsspec")
    store = fsspec.filesystem("memory")
    store.store.clear()
    yield store
    store.store.clear()


def test_what_arrives_damaged_is_sent_again(
    memory: Any, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shorter, or with another byte, or not at all; after the last try nothing is left."""
    faults: list[str] = []
    as_it_is = type(memory).put_file

    def put_file(self: Any, local: str, path: str, **given: Any) -> None:
        fault = faults.pop(0) if faults else "none"
        if fault == "error":
            raise OSError("the store is busy")
        as_it_is(self, local, path, **given)
        if fault == "half":
            self.pipe_file(path, DATA[: len(DATA) // 2])
        elif fault == "flipped":
            self.pipe_file(path, DATA[:-1] + bytes([DATA[-1] ^ 1]))

    monkeypatch.setattr(type(memory), "put_file", put_file)
    faults[:] = ["half", "error", "flipped"]
    put(file, stored("memory://d/e/f"), QUICK)
    assert memory.cat_file("/d/e/f") == DATA
    for fault in ("half", "flipped"):
        faults[:] = [fault] * 4
        with pytest.raises(RemoteError, match="d/e/f: .*tried 4 times"):
            put(file, stored("memory://d/e/f"), QUICK)
        assert not memory.exists("/d/e/f")


def test_a_folder_is_complete_or_has_no_manifest(
    memory: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every moment: the store fails for each of its files in turn."""
    folder, place = tmp_path / "folder", stored("memory://d/set")
    for version in ("one", "two"):
        folder.mkdir(exist_ok=True)
        for name in ("a", "b", "manifest", "old"):
            (folder / name).write_text(f"{name} {version}")
        if version == "one":
            put_folder(folder, place, "manifest", patience=QUICK)
    (folder / "old").unlink()
    as_it_is = type(memory).put_file
    for number in range(3):
        count = 0

        def put_file(self: Any, local: str, path: str, **given: Any) -> None:
            nonlocal count
            count += 1
            if count > number:  # noqa: B023
                raise OSError("the store is gone")
            as_it_is(self, local, path, **given)

        with monkeypatch.context() as patch:
            patch.setattr(type(memory), "put_file", put_file)
            with pytest.raises(RemoteError):
                put_folder(folder, place, "manifest", known=["old"], patience=QUICK)
        (tmp_path / f"none-{number}").mkdir()
        with pytest.raises(FileNotFoundError):
            get_folder(place, "manifest", tmp_path / f"none-{number}")
    put_folder(folder, place, "manifest", known=["old"], patience=QUICK)
    (tmp_path / "copy").mkdir()
    get_folder(place, "manifest", tmp_path / "copy")
    found = {path.name: path.read_text() for path in (tmp_path / "copy").iterdir()}
    assert found == {name: f"{name} two" for name in ("a", "b", "manifest")}


def test_a_web_server_takes_no_files(file: Path) -> None:
    with pytest.raises(DataError, match="files cannot be written to a web server"):
        put(file, stored("http://127.0.0.1:1/a"), QUICK)
