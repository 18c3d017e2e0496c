"""Training data in real services on this machine: HDFS that loses a datanode, S3 that fails.

Skipped, with the reason, where Java, Maven, a package or the network is missing.
"""

import getpass
import gzip
import importlib.util
import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from blocklearn import load, save
from blocklearn.datasources import (
    BlockSource,
    DataError,
    DataSource,
    HostBlock,
    ParquetSource,
    Sparse,
    write_blocks,
)
from blocklearn.datasources.remote import Patience, RemoteError, StoredPath, place_of
from blocklearn.datasources.remote import put as put_file
from blocklearn.learner.hooks import Hook
from blocklearn.learner.learner import Learner
from blocklearn.models import LDA
from tests.support.learn_command import Learn
from tests.support.stores import Between
from tests.support.web_servers import closed_port, serving

pytestmark = pytest.mark.services
ROOT = Path(__file__).parents[2]
FEATURES = Sparse("words", "counts", 5000)


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files of 4 MB or so, in row groups of 0.5 MB."""
    folder = tmp_path_factory.mktemp("corpus")
    rng = np.random.default_rng(5)
    for number in range(2):
        lengths = rng.integers(20, 80, 12_000)
        ends = np.concatenate([[0], np.cumsum(lengths)])
        words = pa.ListArray.from_arrays(
            pa.array(ends, pa.int32()), pa.array(rng.integers(0, 5000, ends[-1]), pa.int32())
        )
        counts = pa.ListArray.from_arrays(
            pa.array(ends, pa.int32()), pa.array(rng.integers(1, 9, ends[-1]), pa.float32())
        )
        table = pa.table({"words": words, "counts": counts})
        path = folder / f"part-{number}.parquet"
        pq.write_table(table, path, row_group_size=1500, compression="none", use_dictionary=False)
    return folder


def blocks_of(source: DataSource, visit: Callable[[int], None] = lambda index: None) -> list:
    """Everything in the blocks of a pass; visit: called before each block is read."""
    block, found = HostBlock(source.shape), []
    for index in range(source.blocks):
        visit(index)
        source.read(0, index, block)
        found += [block.indptr.copy(), block.indices[: block.nnz].copy(),
                  block.values[: block.nnz].copy()]  # fmt: skip
    return found


def assert_same(found: list, expected: list) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def lines_of(process: subprocess.Popen) -> SimpleQueue:
    """What a process prints, and "" when it has ended."""
    lines: SimpleQueue[str] = SimpleQueue()

    def read() -> None:
        for line in process.stdout:
            lines.put(line)
        lines.put("")

    Thread(target=read, daemon=True).start()
    return lines


# ------------------------------------------------------------- HDFS


class Hdfs:
    """scripts/hdfs-up, running."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [ROOT / "scripts" / "hdfs-up"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.lines = lines_of(self.process)
        try:
            line = self.lines.get(timeout=150)
        except Empty:
            self.stop()
            pytest.fail("HDFS was not up after 150 seconds")
        if not line:
            self.stop()
            pytest.skip("scripts/hdfs-up: no JDK, no Maven or no network to get Hadoop from")
        self.ports = json.loads(line)

    def do(self, command: str) -> None:
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        assert self.lines.get(timeout=60) == "ok\n"

    def url(self, scheme: str) -> str:
        port = self.ports["http" if scheme == "webhdfs" else "rpc"]
        return f"{scheme}://127.0.0.1:{port}"

    def stop(self) -> None:
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()


@pytest.fixture(scope="module")
def hdfs(local: Path) -> Iterator[Hdfs]:
    cluster = Hdfs()
    try:
        for path in sorted(local.iterdir()):
            cluster.do(f"put {path} /corpus/{path.name}")
        yield cluster
    finally:
        cluster.stop()


def open_hdfs(cluster: Hdfs, scheme: str, path: str = "/corpus") -> ParquetSource:
    if scheme == "hdfs" and importlib.util.find_spec("hdfs_native") is None:
        pytest.skip("hdfs-native is not installed: pip install 'blocklearn[services]'")
    driver = "hdfs-native" if scheme == "hdfs" else None
    return ParquetSource(cluster.url(scheme) + path, FEATURES, block_rows=1000, hdfs=driver)


@pytest.mark.parametrize("scheme", ["webhdfs", "hdfs"])
def test_hdfs_has_what_the_disk_has(hdfs: Hdfs, local: Path, scheme: str) -> None:
    expected = blocks_of(ParquetSource(local, FEATURES, block_rows=1000))
    for path in ("/corpus", "/corpus/part-*.parquet"):
        assert_same(blocks_of(open_hdfs(hdfs, scheme, path)), expected)
    with pytest.raises(FileNotFoundError, match="/corpus/none"):
        open_hdfs(hdfs, scheme, "/corpus/none")


@pytest.mark.parametrize("scheme", ["webhdfs", "hdfs"])
def test_hdfs_notices_another_file(hdfs: Hdfs, local: Path, scheme: str) -> None:
    hdfs.do(f"put {local}/part-0.parquet /{scheme}/a.parquet")
    hdfs.do(f"put {local}/part-1.parquet /{scheme}/b.parquet")
    source = open_hdfs(hdfs, scheme, f"/{scheme}/a.parquet")

    def replace(index: int) -> None:
        if index == 3:
            hdfs.do(f"move /{scheme}/b.parquet /{scheme}/a.parquet")

    with pytest.raises(DataError, match=f"{scheme}/a.parquet"):
        blocks_of(source, replace)


@pytest.mark.parametrize("scheme", ["webhdfs", "hdfs"])
def test_hdfs_takes_files(
    hdfs: Hdfs, local: Path, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In place of an earlier one, too; and a folder that does not exist yet."""
    monkeypatch.setenv("HADOOP_USER_NAME", getpass.getuser())  # who has started HDFS
    if scheme == "hdfs" and importlib.util.find_spec("hdfs_native") is None:
        pytest.skip("hdfs-native is not installed: pip install 'blocklearn[services]'")
    place = place_of(f"{hdfs.url(scheme)}/new {scheme}/of/p.parquet", Patience(30, 5))
    assert isinstance(place, StoredPath)
    for number in (0, 1):
        put_file(local / f"part-{number}.parquet", place)
        assert place.read_bytes() == (local / f"part-{number}.parquet").read_bytes()
    assert [child.path for child in place.files.children(f"/new {scheme}/of")] == [place.path]
    place.files.remove(place.path)
    place.files.remove(place.path)
    assert not place.exists()


@pytest.mark.parametrize("scheme", ["webhdfs", "hdfs"])
def test_hdfs_takes_and_has_what_commands_write(
    hdfs: Hdfs, tmp_path: Path, scheme: str, command: Learn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Block datasets, of texts, rows and Parquet; models; predictions."""
    monkeypatch.setenv("HADOOP_USER_NAME", getpass.getuser())  # who has started HDFS
    if scheme == "hdfs" and importlib.util.find_spec("hdfs_native") is None:
        pytest.skip("hdfs-native is not installed: pip install 'blocklearn[services]'")
    home, near = f"{hdfs.url(scheme)}/of {scheme}", tmp_path / "near"
    texts = [f"word{'abcdefgh'[i % 8]} word{'aceg'[i % 4]} wordy" for i in range(400)]
    files = {
        "t.txt": "\n".join(texts).encode(),
        "t.jsonl": "\n".join(json.dumps({"text": text}) for text in texts).encode(),
        "s.svm.gz": gzip.compress(
            b"".join(b"%d %d:1 9:0.5\n" % (i % 2, 1 + i % 7) for i in range(400))
        ),
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
        hdfs.do(f"put {tmp_path / name} /in-{scheme}/{name}")
        far = f"{hdfs.url(scheme)}/in-{scheme}/{name}"
        for source, target in (str(tmp_path / name), str(near / name)), (far, f"{home}/{name}"):
            assert command("convert", source, target, "--block-rows", "50")[0] == 0
        there, here = BlockSource([f"{home}/{name}"]), BlockSource([near / name])
        assert there.fingerprint == here.fingerprint
        assert list(there.names or ()) == list(here.names or ())
        assert_same(blocks_of(there), blocks_of(here))

    found = []
    for place in (str(near), home):
        data = BlockSource([f"{place}/t.txt"])
        model = Learner(LDA(topics=3), data, passes=2, seed=3, threads=1, verbose=False).fit()
        save(model, f"{place}/lda")
        data_of = ["--data", f"{place}/t.txt"]
        assert (
            command("predict", str(near / "lda"), *data_of, "--out", f"{place}/p.parquet")[0] == 0
        )
        tensors = load(f"{place}/lda", threads=1).state().tensors
        shares = pq.read_table(
            pa.BufferReader(place_of(f"{place}/p.parquet", Patience(30, 5)).read_bytes())
        )
        found.append((tensors["lambda"].tobytes(), shares))
    assert found[0][0] == found[1][0] and found[0][1].equals(found[1][1])


def test_a_namenode_that_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("hdfs_native", reason="hdfs-native is not installed")
    monkeypatch.setattr("blocklearn.datasources.remote.native_hdfs.LONGEST_PAUSE", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"hdfs://127.0.0.1:{silent.getsockname()[1]}/a.parquet"
        with pytest.raises(RemoteError, match="a.parquet: no answer within 2 seconds"):
            ParquetSource(url, FEATURES, hdfs="hdfs-native", patience=Patience(0.5, 2))
    with pytest.raises(RemoteError, match="a.parquet: Connection refused"):
        url = f"hdfs://{closed_port()}/a.parquet"
        ParquetSource(url, FEATURES, hdfs="hdfs-native", patience=Patience(5, 2))


class At(Hook):
    """Does something once, after some blocks of training."""

    def __init__(self, block: int, what: Callable[[], None]) -> None:
        self.left, self.what = block, what

    def block(self, learner: object, progress: object) -> None:
        self.left -= 1
        if self.left == 0:
            self.what()


def topics(source: ParquetSource, hook: Hook) -> np.ndarray:
    learner = Learner(LDA(topics=4, inference="cvb0"), source, passes=2, hooks=[hook], seed=3)
    return learner.fit().state().tensors["lambda"]


def test_training_goes_on_when_a_datanode_dies(hdfs: Hdfs, local: Path, tmp_path: Path) -> None:
    """Comes last: the datanode stays dead. Block datasets are read from the other one, too."""
    write_blocks(ParquetSource(local, FEATURES, block_rows=1000), [tmp_path])
    for path in tmp_path.iterdir():
        hdfs.do(f"put {path} /blocks/{path.name}")
    expected = topics(ParquetSource(local, FEATURES, block_rows=1000), Hook())
    half = blocks_of(ParquetSource(local, FEATURES, block_rows=1000))
    native = open_hdfs(hdfs, "hdfs")
    sources = [BlockSource([f"{hdfs.url(scheme)}/blocks"]) for scheme in ("webhdfs", "hdfs")]
    killed = At(5, lambda: hdfs.do("kill 0"))
    found = topics(open_hdfs(hdfs, "webhdfs"), killed)
    assert killed.left < 0
    np.testing.assert_array_equal(found, expected)
    for source in (native, *sources):
        assert_same(blocks_of(source), half)


# ------------------------------------------------------------- S3


@pytest.fixture(scope="module")
def keys() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "testing")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        yield


@pytest.fixture(scope="module")
def s3(local: Path, keys: None) -> Iterator[str]:
    """The address of moto's server, with the files in the bucket `corpus`."""
    if importlib.util.find_spec("moto") is None or importlib.util.find_spec("flask_cors") is None:
        pytest.skip("moto is not installed: pip install 'blocklearn[services]'")
    address = closed_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", address.split(":")[1]]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        for _ in range(300):
            try:
                socket.create_connection(("127.0.0.1", int(address.split(":")[1])), 5).close()
                break
            except OSError:
                time.sleep(0.1)
        for path in sorted(local.iterdir()):
            put(address, f"corpus/a b/{path.name}", path.read_bytes())
        yield address
    finally:
        process.terminate()
        process.wait(30)


def put(address: str, path: str, body: bytes) -> None:
    store = fs.S3FileSystem(
        region="us-east-1", scheme="http", endpoint_override=address, allow_bucket_creation=True
    )
    store.create_dir(path.partition("/")[0])
    with store.open_output_stream(path) as stream:
        stream.write(body)


def open_s3(address: str, path: str = "a b") -> ParquetSource:
    url = f"s3://corpus/{path}?region=us-east-1&scheme=http&endpoint_override={address}"
    return ParquetSource(url, FEATURES, block_rows=1000, patience=Patience(10, 8))


@pytest.mark.parametrize("fault", ["503", "broken-off"])
def test_s3_that_fails_now_and_then(s3: str, local: Path, fault: str) -> None:
    expected = blocks_of(ParquetSource(local, FEATURES, block_rows=1000))
    assert_same(blocks_of(open_s3(s3, "a b/part-*.parquet")), expected)
    between = Between(s3, fault, every=5)
    with serving(between) as server:
        assert_same(blocks_of(open_s3(server.address)), expected)
    assert between.failed >= 3


def test_s3_that_fails_always(s3: str) -> None:
    with serving(Between(s3, "503", every=1)) as server:
        with pytest.raises(OSError, match="corpus"):
            url = f"s3://corpus/a b?region=us-east-1&scheme=http&endpoint_override={server.address}"
            ParquetSource(url, FEATURES, patience=Patience(2, 2))


def test_s3_notices_another_file(s3: str, local: Path) -> None:
    one, other = ((local / f"part-{i}.parquet").read_bytes() for i in (0, 1))
    put(s3, "corpus/new/x.parquet", one)
    source = open_s3(s3, "new/x.parquet")

    def replace(index: int) -> None:
        if index == 3:
            put(s3, "corpus/new/x.parquet", other)

    with pytest.raises(DataError, match=r"s3://corpus/new/x.parquet"):
        blocks_of(source, replace)
    with pytest.raises(FileNotFoundError, match="s3://corpus/none"):
        open_s3(s3, "none")


@pytest.mark.parametrize("fault", ["503", "broken-off"])
def test_s3_has_block_datasets(s3: str, local: Path, tmp_path: Path, fault: str) -> None:
    write_blocks(ParquetSource(local, FEATURES, block_rows=1000), [tmp_path])
    for path in tmp_path.iterdir():
        put(s3, f"corpus/blocks/{path.name}", path.read_bytes())
    between = Between(s3, fault, every=5)
    with serving(between) as server:
        options = f"region=us-east-1&scheme=http&endpoint_override={server.address}"
        url = f"s3://corpus/blocks?{options}"
        assert_same(
            blocks_of(BlockSource([url], patience=Patience(10, 8))),
            blocks_of(BlockSource([tmp_path])),
        )
    assert between.failed >= 3
