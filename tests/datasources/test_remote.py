"""Files elsewhere: every byte arrives as it is, or there is an error that says where and why."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from blocklearn.datasources import DataError, HostBlock, ParquetSource
from blocklearn.datasources.remote import DriverMissingError, Patience, RemoteError, find, resolve
from blocklearn.datasources.remote.files import RangeFile
from blocklearn.datasources.remote.filesystems import ArrowFiles
from tests.support.web_servers import FakeHdfs, FileServer, Handler, closed_port, serving

DATA = np.random.default_rng(0).bytes(300_000)
QUICK = Patience(timeout=10.0, attempts=4, pause=0.001)
SHORT = Patience(timeout=1.0, attempts=4, pause=0.001)  # with servers that say nothing
LONG = Patience(timeout=1.0, attempts=10, pause=0.001)  # and that are slow where all is well
ENDINGS = (".parquet",)


def read(url: str, offset: int = 0, length: int | None = None, patience: Patience = QUICK) -> bytes:
    """Bytes of the file at a URL."""
    files, path, _ = resolve(url, patience)
    with files.open(files.status(path)) as file:
        file.seek(offset)
        return bytes(file.read() if length is None else file.read(length))


def names(url: str) -> list[str]:
    """The files that a URL means."""
    files, path, wild = resolve(url, QUICK)
    return [files.name(status.path) for status in find(files, path, ENDINGS, wild)]


# ------------------------------------------------------------- WebHDFS


@pytest.fixture
def hdfs():
    fake = FakeHdfs({"/d/a b.parquet": DATA, "/d/sub/c.parquet": b"c", "/d/_SUCCESS": b""})
    with serving(fake) as server:
        fake.url = f"webhdfs://{server.address}"
        fake.server = server
        yield fake


def test_webhdfs_reads_what_is_there(hdfs):
    url = hdfs.url + "/d/a b.parquet"
    assert read(url) == DATA
    assert read(url, 1234, 77) == DATA[1234:1311]
    assert read(url, len(DATA) - 5, 100) == DATA[-5:]


def test_webhdfs_lists(hdfs):
    a, c = f"{hdfs.url}/d/a b.parquet", f"{hdfs.url}/d/sub/c.parquet"
    assert names(f"{hdfs.url}/d") == [a, c]
    assert names(f"{hdfs.url}/d/*.parquet") == [a]
    assert names(f"{hdfs.url}/*/[s]ub/*") == [c]
    with pytest.raises(DataError, match="no file matches"):
        names(f"{hdfs.url}/d/*.csv")


FAULTS = (
    "500 short broken-off never stalls dead error-as-data namenode-500 retriable none-left".split()
)
PATIENCE = dict.fromkeys(FAULTS, QUICK) | {"never": SHORT, "stalls": SHORT}


@pytest.mark.parametrize("fault", FAULTS)
def test_webhdfs_survives(hdfs, fault):
    hdfs.faults = [fault] * 3
    patience = LONG if PATIENCE[fault] is SHORT else QUICK
    assert read(hdfs.url + "/d/a b.parquet", 100, 50_000, patience) == DATA[100:50_100]
    assert not hdfs.faults


@pytest.mark.parametrize("fault", FAULTS)
def test_webhdfs_gives_up(hdfs, fault):
    hdfs.faults = [fault] * 100
    with pytest.raises(RemoteError, match=r"webhdfs://.*/d/a b.parquet: .*tried 4 times"):
        read(hdfs.url + "/d/a b.parquet", patience=PATIENCE[fault])
    assert len(hdfs.faults) >= 96  # a busy server may not see all requests


def test_webhdfs_longer_reply_than_asked(hdfs):
    hdfs.faults = ["long"]
    with pytest.raises(RemoteError, match="sends more than the 10 bytes"):
        read(hdfs.url + "/d/a b.parquet", 0, 10)


def test_webhdfs_leaves_out_the_datanode_that_failed(hdfs):
    hdfs.faults = ["dead", "none-left", "500"]
    assert read(hdfs.url + "/d/a b.parquet") == DATA
    opened = [asked for asked in hdfs.server.asked if asked.query["op"] == "OPEN"]
    excluded = [asked.query.get("excludedatanodes") for asked in opened]
    assert excluded == [None, "127.0.0.1", None, "127.0.0.1"]


def test_webhdfs_goes_to_the_namenode_that_is_active(hdfs):
    standby = FakeHdfs(hdfs.files)
    standby.standby = True
    with serving(standby) as other:
        gone, active = closed_port(), hdfs.url.removeprefix("webhdfs://")
        files, path, _ = resolve(f"webhdfs://{gone},{other.address},{active}/d/a b.parquet", QUICK)
        assert files.status(path).size == len(DATA)
        assert len(other.asked) == 1
        with files.open(files.status(path)) as file:
            assert file.read() == DATA
        assert len(other.asked) == 1  # the active one is asked first now
        hdfs.standby, standby.standby = True, False  # failover
        assert files.status(path).size == len(DATA)


def test_webhdfs_without_an_active_namenode(hdfs):
    hdfs.standby = True
    with pytest.raises(RemoteError, match="403 StandbyException"):
        read(hdfs.url + "/d/a b.parquet")


def test_webhdfs_says_who_asks(hdfs, monkeypatch):
    monkeypatch.setenv("HADOOP_USER_NAME", "env")
    read(hdfs.url + "/d/a b.parquet")
    read(hdfs.url.replace("://", "://me@") + "/d/a b.parquet")
    assert {asked.query["user.name"] for asked in hdfs.server.asked} == {"env", "me"}


def test_webhdfs_missing_and_forbidden(hdfs):
    with pytest.raises(FileNotFoundError, match=r"no such file.*webhdfs://.*/d/none"):
        read(hdfs.url + "/d/none")
    hdfs.files["/secret/x"] = b"1"
    with pytest.raises(PermissionError, match="user=dr.who"):
        read(hdfs.url + "/secret/x")


def test_not_webhdfs_at_all():
    with serving(lambda request: request.say(200, b"<html>hello</html>")) as server:
        with pytest.raises(RemoteError, match=r"is not WebHDFS; is this the namenode.*9870"):
            read(f"webhdfs://{server.address}/a")


def test_drip_is_not_forever():
    def drip(request: Handler) -> None:
        request.send_response(200)
        request.end_headers()
        while not request.server.done.wait(0.05):
            request.wfile.write(b"x")
            request.wfile.flush()

    with serving(drip) as server:
        files, _, _ = resolve(f"http://{server.address}/a", Patience(1.0, 2, 0.001))
        with pytest.raises(RemoteError, match="without ranges"):
            files.status(f"http://{server.address}/a")  # it drips for good


# ------------------------------------------------------------- web servers


def test_http_reads_ranges():
    fake = FileServer({"/file": DATA})
    with serving(fake) as server:
        for name in ("file", "moved"):
            url = f"http://{server.address}/{name}"
            assert read(url) == DATA
            assert read(url, 5, 7) == DATA[5:12]
        fake.faults = [500, 503, 429]
        assert read(f"http://{server.address}/file") == DATA
        with pytest.raises(FileNotFoundError):
            read(f"http://{server.address}/none")
        with pytest.raises(FileNotFoundError, match="no folders or patterns"):
            names(f"http://{server.address}/*.parquet")
        fake.faults = [403]
        with pytest.raises(PermissionError):
            read(f"http://{server.address}/file")
        fake.files["/file"] = b""
        assert read(f"http://{server.address}/file") == b""


def test_http_notices_another_file():
    fake = FileServer({"/file": DATA})
    with serving(fake) as server:
        files, path, _ = resolve(f"http://{server.address}/file", QUICK)
        with files.open(files.status(path)) as file:
            assert file.read(10) == DATA[:10]
            fake.tag = '"2"'
            with pytest.raises(RemoteError, match="was replaced"):
                file.read(10)


def test_http_without_ranges():
    with serving(lambda request: request.say(200, DATA)) as server:
        with pytest.raises(RemoteError, match="without ranges"):
            read(f"http://{server.address}/file")


def test_http_wrong_range():
    def wrong(request: Handler) -> None:
        request.say(206, b"x", Content_Range="bytes 1-1/300000")

    with serving(wrong) as server:
        with pytest.raises(RemoteError, match="but 1-2 of 300000 came"):
            read(f"http://{server.address}/file", 0, 1)


# ------------------------------------------------------------- finding and resolving


def test_local_files(tmp_path: Path, monkeypatch):
    for name in ("b.parquet", "a.parquet", "x/c.parquet", "_hidden.parquet", ".d.parquet", "e.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"1")
    found = [Path(name).relative_to(tmp_path).as_posix() for name in names(str(tmp_path))]
    assert found == ["a.parquet", "b.parquet", "x/c.parquet"]
    assert len(names(f"{tmp_path}/?.parquet")) == 2
    assert names(f"{tmp_path}/e.csv") == [f"{tmp_path}/e.csv"]
    (tmp_path / "[a]*.csv").write_bytes(b"1")
    assert names(f"{tmp_path}/[a]*.csv") == [f"{tmp_path}/[a]*.csv"]
    assert names(f"file://{tmp_path}/[ab].parquet") == names(f"{tmp_path}/?.parquet")
    with pytest.raises(FileNotFoundError):
        names(f"{tmp_path}/none")
    with pytest.raises(DataError, match=r"no file in this folder ends with .parquet"):
        (tmp_path / "empty").mkdir()
        names(f"{tmp_path}/empty")
    monkeypatch.chdir(tmp_path)
    assert names("*.parquet") == ["./.d.parquet", "./_hidden.parquet", "./a.parquet", "./b.parquet"]


def test_hdfs_names_the_three_ways(monkeypatch):
    for name in ("HADOOP_HOME", "ARROW_LIBHDFS_DIR"):
        monkeypatch.delenv(name, raising=False)
    text = r"pip install 'blocklearn\[hdfs\]'.*HADOOP_HOME.*webhdfs://namenode:9870"
    with pytest.raises(DriverMissingError, match=f"hdfs.driver=libhdfs: not installed.*{text}"):
        resolve("hdfs://namenode:8020/a", QUICK, "libhdfs")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(DriverMissingError, match=f"no driver is installed.*{text}"):
        resolve("hdfs://namenode:8020/a", QUICK)
    with pytest.raises(DriverMissingError, match="hdfs.driver=hdfs-native: not installed"):
        resolve("hdfs://namenode:8020/a", QUICK, "hdfs-native")


def test_options_and_schemes_that_nobody_knows():
    with pytest.raises(DataError, match="unknown option 'regoin'; choose from anonymous"):
        resolve("s3://bucket/a?regoin=eu", QUICK)
    with pytest.raises(DataError, match="must name an account"):
        resolve("az://container/a", QUICK)
    with pytest.raises(DataError, match="nonsense://"):
        resolve("nonsense://a/b", QUICK)
    for url in ("s3://", "gs:///a", "http://", "https:///x.csv", "webhdfs://ann@/a"):
        with pytest.raises(DataError, match="must name a (server|bucket) after ://"):
            resolve(url, QUICK)
    with pytest.raises(DataError, match="not a URL: Invalid IPv6"):
        resolve("https://[::1", QUICK)


def test_arrow_file_systems_are_made_without_a_network(monkeypatch):
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT", "me")
    monkeypatch.setenv("AZURE_STORAGE_KEY", "a2V5")
    for url in ("gs://b/x/y?anonymous=true", "az://b/x/y", "s3://b/x/y?region=eu-west-1"):
        files, path, wild = resolve(url, QUICK)
        assert (files.name(path), wild) == (url.partition("?")[0], "*[")


def test_fsspec_memory():
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.pipe({"/blocklearn/a.parquet": DATA, "/blocklearn/b/c.parquet": b"c"})
    assert read("memory://blocklearn/a.parquet", 3, 9) == DATA[3:12]
    assert len(names("memory://blocklearn")) == 2
    assert len(names("memory://blocklearn/*.parquet")) == 1
    before = find(*resolve("memory://blocklearn/a.parquet", QUICK)[:2], ENDINGS)
    memory.pipe({"/blocklearn/a.parquet": DATA})
    assert before != find(*resolve("memory://blocklearn/a.parquet", QUICK)[:2], ENDINGS)
    with pytest.raises(FileNotFoundError):
        read("memory://blocklearn/none")


def test_short_reads_are_errors():
    file = RangeFile("x", 10, lambda offset, length: b"abc")
    with pytest.raises(RemoteError, match="x: 3 bytes came instead of the 10 from byte 0 on"):
        file.read()
    file = RangeFile("x", 10, lambda offset, length: b"a" * length)
    file.seek(-3, io.SEEK_END)
    assert (file.tell(), file.read(99), file.read(1)) == (7, b"aaa", b"")


# ------------------------------------------------------------- training data over it


def table(rows: int = 3000) -> bytes:
    """A Parquet file of numbers that are no accident."""
    made = io.BytesIO()
    columns = {"x": np.arange(rows) / 8, "y": np.arange(rows) % 7}
    pq.write_table(pa.table(columns), made, row_group_size=500)
    return made.getvalue()


def all_rows(source: ParquetSource) -> np.ndarray:
    """A pass, as a table."""
    block, found = HostBlock(source.shape), []
    for index in range(source.blocks):
        source.read(0, index, block)
        found.append(block.dense[: block.rows].copy())
    return np.concatenate(found)


def test_parquet_over_hostile_webhdfs():
    data = table()
    fake = FakeHdfs({"/d/part-0.parquet": data, "/d/part-1.parquet": data})
    with serving(fake) as server:
        source = ParquetSource(f"webhdfs://{server.address}/d", ["x", "y"], patience=LONG)
        fake.faults = "500 short dead none never none stalls broken-off none 500".split()
        got = all_rows(source)
        assert not fake.faults
        np.testing.assert_array_equal(got[:, 0], np.tile(np.arange(3000) / 8, 2))
        assert source.files == [
            (f"webhdfs://{server.address}/d/part-{i}.parquet", 3000) for i in (0, 1)
        ]
        fake.faults = ["500"] * 100
        with pytest.raises(RemoteError, match=r"part-0.parquet: datanode .*disk is gone"):
            all_rows(source)
        fake.faults = []
        np.testing.assert_array_equal(all_rows(source), got)
        fake.files["/d/part-1.parquet"] = table(3001)
        with pytest.raises(DataError, match=r"part-1.parquet: the file was replaced"):
            all_rows(source)


class Google(fs.GcsFileSystem):
    """A file system with some files, in which nothing marks folders: as Arrow lists them."""

    def get_file_info(self, asked: Any) -> Any:
        """Tell of a file or folder, or list a folder."""
        names = [f"box/{name}" for name in ("runs/a", "runs/one/b", "runs/one/c", "other/d")]
        if isinstance(asked, str):
            below = any(name.startswith(f"{asked}/") for name in names)
            return fs.FileInfo(asked, fs.FileType.Directory if below else fs.FileType.NotFound)
        found = [name for name in names if name.startswith(f"{asked.base_dir}/")]
        if not found and not asked.allow_not_found:
            raise OSError(f"No such file or directory '{asked.base_dir}'")
        far = [name for name in found if name.count("/") > asked.base_dir.count("/") + 1]
        shown = found if asked.recursive else [name for name in found if name not in far]
        return [fs.FileInfo(name, fs.FileType.File, size=1) for name in shown]


def test_folders_of_google_cloud_are_listed() -> None:
    """A folder is all that begins with its name."""
    files = ArrowFiles(Google(anonymous=True), "gs://")
    found = {child.path: child.folder for child in files.children("box/runs")}
    assert found == {"box/runs/a": False, "box/runs/one": True}
    assert [child.path for child in files.children("box/runs/one")] == [
        "box/runs/one/b",
        "box/runs/one/c",
    ]
    with pytest.raises(FileNotFoundError, match="gs://box/none"):
        files.children("box/none")
