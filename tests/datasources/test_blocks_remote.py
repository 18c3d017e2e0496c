"""Block datasets in stores: what is read is what was written, or an error says where and why."""

import threading
from pathlib import Path

import fsspec
import numpy as np
import pytest

from blocklearn.datasources import BlockSource, DataError, HostBlock, row_names
from blocklearn.datasources.blocks import BlocksData
from blocklearn.datasources.holdout.samples import Reading
from blocklearn.datasources.remote import Patience, RemoteError
from tests.support.block_datasets import Data, collect, folders, labelled, write
from tests.support.web_servers import FakeHdfs, FileServer, serving

QUICK = Patience(timeout=10.0, attempts=8, pause=0.001)


def folder_of(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


@pytest.fixture
def dataset(tmp_path: Path) -> tuple[Data, list[Path]]:
    data, paths = labelled(23), folders(tmp_path, 2)
    write(data, paths, both_orientations=False, names=[f"w{i}" for i in range(11)])
    return data, paths


def files_of(paths: list[Path], root: str = "") -> dict[str, bytes]:
    """The contents of all files, named `root`/diskI/data/FILE."""
    found = [file for path in paths for file in path.iterdir()]
    return {f"{root}/{folder_of(file.parent)}/{file.name}": file.read_bytes() for file in found}


def assert_same(source: BlockSource, data: Data) -> None:
    found = collect(source)
    np.testing.assert_array_equal(found.X, data.X.toarray())
    np.testing.assert_array_equal(found.targets, data.targets)
    assert list(row_names(source) or ()) == data.ids
    assert list(source.names or ())[:2] == ["w0", "w1"]


@pytest.fixture
def memory(tmp_path: Path) -> str:
    return f"memory://{tmp_path.name}"


@pytest.mark.parametrize("codec", ["raw", "lz4"])
def test_a_store_has_what_the_disk_has(tmp_path: Path, memory: str, codec: str) -> None:
    data, paths = labelled(23), folders(tmp_path, 2)
    write(data, paths, codec=codec, names=[f"w{i}" for i in range(11)])
    urls = [f"{memory}/{folder_of(path)}" for path in paths]
    for name, contents in files_of(paths, memory).items():
        with fsspec.open(name, "wb") as file:
            file.write(contents)
    with BlockSource(urls[::-1], patience=QUICK) as source:
        assert_same(source, data)
        assert source.fingerprint == BlockSource(paths).fingerprint
    kind = BlocksData(paths=urls)
    assert (kind.dense, list(kind.files())) == (False, [])
    assert_same(kind.open_source(Reading(4)), data)


def test_webhdfs_repeats_what_fails(dataset: tuple[Data, list[Path]]) -> None:
    data, paths = dataset
    fake = FakeHdfs(files_of(paths, "/data"))
    with serving(fake) as server:
        url = f"webhdfs://{server.address}/data"
        source = BlockSource([f"{url}/{folder_of(path)}" for path in paths], patience=QUICK)
        fake.faults = ["500", "short", "broken-off", "error-as-data", "retriable"]
        assert_same(source, data)
        assert not fake.faults


def test_http_reads_a_block_in_one_request(dataset: tuple[Data, list[Path]]) -> None:
    data, paths = dataset
    with serving(FileServer(files_of(paths))) as server:
        urls = [f"http://{server.address}/{folder_of(path)}?sig=secret" for path in paths]
        source = BlockSource(urls, patience=QUICK)
        assert source.readers == 4
        block, before = HostBlock(source.shape), len(server.asked)
        for index in range(source.blocks):
            source.read(0, index, block)
        assert len(server.asked) == before + source.blocks
        assert all("sig=secret" in request.path for request in server.asked)
        assert_same(source, data)


def test_threads_share_a_source(dataset: tuple[Data, list[Path]]) -> None:
    data, paths = dataset
    with serving(FileServer(files_of(paths))) as server:
        source = BlockSource(
            [f"http://{server.address}/{folder_of(p)}" for p in paths], patience=QUICK
        )
        found: list[Data] = []
        threads = [threading.Thread(target=lambda: found.append(collect(source))) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for one in found:
        np.testing.assert_array_equal(one.X, data.X.toarray())
    assert len(found) == 3


def test_damage_is_found_at_each_read(dataset: tuple[Data, list[Path]]) -> None:
    _, paths = dataset
    files = files_of(paths)
    with serving(FileServer(files)) as server:
        urls = [f"http://{server.address}/{folder_of(path)}" for path in paths]
        source = BlockSource(urls, patience=QUICK)
        block = HostBlock(source.shape)
        source.read(0, 2, block)
        name = next(name for name in files if "rows-0-of-2" in name)
        place = files[name].rindex(b"ARROW1") // 2
        contents = bytearray(files[name])
        contents[place] ^= 1
        files[name] = bytes(contents)
        with pytest.raises(DataError, match=r"http://.*rows-0-of-2.arrow, block .: damaged"):
            for index in range(source.blocks):
                source.read(1, index, block)
        files[name] = files[name][:-3]
        with pytest.raises(DataError, match=r"rows-0-of-2.arrow: .* bytes, but .* were written"):
            BlockSource(urls, patience=QUICK)
        with pytest.raises(RemoteError, match="rows-0-of-2.arrow"):
            for index in range(source.blocks):
                source.read(2, index, block)


def test_what_lacks_is_named(dataset: tuple[Data, list[Path]], memory: str) -> None:
    _, paths = dataset
    with serving(FileServer(files_of(paths))) as server:
        first = f"http://{server.address}/{folder_of(paths[0])}"
        with pytest.raises(DataError, match=r"has 2 stripes, but rows-1-of-2.arrow is in none"):
            BlockSource([first], patience=QUICK)
        with pytest.raises(FileNotFoundError, match=r"none/manifest.json"):
            BlockSource([f"http://{server.address}/none"], patience=QUICK)
    with pytest.raises(FileNotFoundError):
        BlockSource([memory])
    with pytest.raises(DataError, match="unknown file system"):
        BlockSource(["nosuch://x"])
