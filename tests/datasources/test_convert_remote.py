"""`learn convert` reads files of any format from stores, as from a local disk."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import io, sparse

from blocklearn.datasources import BlockSource, DataError
from blocklearn.learner.conversion.convert import Conversion, convert
from blocklearn.learner.conversion.display import Watch
from tests.support.block_datasets import collect
from tests.support.web_servers import FakeHdfs, FileServer, serving

X = sparse.csr_array(np.random.default_rng(0).poisson(0.4, (40, 7)).astype(np.float32))


def libsvm() -> bytes:
    rows = [
        f"{i % 2} " + " ".join(f"{j + 1}:{v:g}" for j, v in zip(row.indices, row.data, strict=True))
        for i, row in enumerate(X[[i]] for i in range(X.shape[0]))
    ]
    return ("\n".join(rows) + "\n").encode()


def made(path: Path) -> dict[str, bytes]:
    """A file of each kind, by name."""
    io.mmwrite(path / "m.mtx", X)
    sparse.save_npz(path / "n.npz", X)
    np.save(path / "d.npy", X.toarray())
    texts = [" ".join(f"word{'abcdefg'[j]}" for j in X[[i]].indices) for i in range(X.shape[0])]
    lines = "\n".join(json.dumps({"text": text}) for text in texts) + "\n"
    table = "\n".join(["a,b", *(f"{i},{i / 8}" for i in range(30))]) + "\n"
    return {
        "s.libsvm": libsvm(),
        "s.svm.gz": gzip.compress(libsvm()),
        "m.mtx": (path / "m.mtx").read_bytes(),
        "n.npz": (path / "n.npz").read_bytes(),
        "d.npy": (path / "d.npy").read_bytes(),
        "t.jsonl": lines.encode(),
        "t.txt": "\n".join(texts).encode(),
        "c.csv": table.encode(),
        "v.vw": b"1 | a:2 b c\n-1 | b d:0.5\n",
    }


def converted(source: str, folder: Path, **options: Any) -> BlockSource:
    job = Conversion([source], [folder], block_rows=8, **options)
    convert(job, Watch())
    return BlockSource([folder])


NAMES = ("s.libsvm", "s.svm.gz", "m.mtx", "n.npz", "d.npy", "t.jsonl", "t.txt", "c.csv", "v.vw")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return made(tmp_path_factory.mktemp("made"))


@pytest.mark.parametrize("name", NAMES)
def test_a_web_server_has_what_the_disk_has(
    files: dict[str, bytes], tmp_path: Path, name: str
) -> None:
    (tmp_path / name).write_bytes(files[name])
    here = converted(str(tmp_path / name), tmp_path / "here")
    server = FileServer({f"/a b/{name}": files[name]})
    server.faults = [503, 429]
    with serving(server) as web:
        there = converted(f"http://{web.address}/a%20b/{name}?sig=secret", tmp_path / "there")
    assert there.fingerprint == here.fingerprint
    assert list(there.names or ()) == list(here.names or ())
    assert b"secret" not in (tmp_path / "there" / "manifest.json").read_bytes()


def test_a_pattern_and_a_dataset_in_a_store(files: dict[str, bytes], tmp_path: Path) -> None:
    fake = FakeHdfs({"/d/1.libsvm": files["s.libsvm"], "/d/2.libsvm": files["s.libsvm"]})
    with serving(fake) as server:
        url = f"webhdfs://{server.address}"
        fake.faults = ["500", "short", "broken-off"]
        both = converted(f"{url}/d/*.libsvm", tmp_path / "both")
        assert not fake.faults
        for file in (tmp_path / "both").iterdir():
            fake.files[f"/blocks/{file.name}"] = file.read_bytes()
        again = converted(f"{url}/blocks", tmp_path / "again")
        with pytest.raises(FileNotFoundError, match="none.libsvm"):
            converted(f"{url}/d/none.libsvm", tmp_path / "none")
        with pytest.raises(DataError, match=r"x.zip: unknown format"):
            converted(f"{url}/d/x.zip", tmp_path / "zip")
    assert both.shape.total_rows == 80
    np.testing.assert_array_equal(collect(both).X, collect(again).X)


def test_a_file_that_changes_while_it_is_read(files: dict[str, bytes], tmp_path: Path) -> None:
    server = FileServer({"/s.libsvm": files["s.libsvm"]})

    class Changing(Watch):
        def rows(self, count: int) -> None:
            server.tag = '"2"'

    with serving(server) as web:
        job = Conversion([f"http://{web.address}/s.libsvm"], [tmp_path / "x"], block_rows=8)
        with pytest.raises(DataError, match="s.libsvm: changed while it was read"):
            convert(job, Changing())
    assert not (tmp_path / "x" / "manifest.json").exists()
