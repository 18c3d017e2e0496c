"""Damaged and hostile files of every format: a `DataError` that names the file, or rows that are
what rows must be; never a crash, another exception, a hang, or memory that only a header asked for.
"""

import io
import json
import os
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from scipy import sparse

from blocklearn.datasources import DataError
from blocklearn.datasources.formats import FORMATS
from tests.support.formats import Found, bidmat, example, packed, read

X = example(12, 6)


def saved(write: Callable[..., Any], *arguments: Any, **options: Any) -> bytes:
    buffer = io.BytesIO()
    write(buffer, *arguments, **options)
    return buffer.getvalue()


def lists() -> bytes:
    rows = [X.indices[a:b].tolist() for a, b in zip(X.indptr, X.indptr[1:], strict=False)]
    values = [X.data[a:b].tolist() for a, b in zip(X.indptr, X.indptr[1:], strict=False)]
    kinds = (pa.list_(pa.int32()), pa.list_(pa.float32()))
    table = pa.table(
        {"indices": pa.array(rows, kinds[0]), "values": pa.array(values, kinds[1]),
         "y": np.arange(len(rows), dtype=float)}
    )  # fmt: skip
    return stored(table)


def texts() -> bytes:
    words = ["some words", "other words", "", "naïve"] * 5
    return stored(pa.table({"text": words, "y": np.arange(len(words), dtype=float)}))


def stored(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    parquet.write_table(table, sink, row_group_size=5, write_page_checksum=True)
    data: bytes = sink.getvalue().to_pybytes()
    return data


MARKET = saved(lambda buffer: __import__("scipy.io").io.mmwrite(buffer, X))
TEXT = "sockets connect\n\nsockets send bytes\nbytes arrive\n"
VW = "1 2 'a|f:2 x y:0.5 | z\n-1 |f y:3 y |g x\n0.5 | z:-2e1\n"
SVM = "1 1:0.5 3:-2\n-1 2:1e3 # c\n0.25 qid:3 1:7 6:1\n"
CSV = "id,age,click\nann,31,1\nbob,-4,0\neve,2.5e1,1\n"
RATINGS = "user,item,rating\n10,b,5\n9,a,3\n10,a,1.5\n"
JSON = "".join(json.dumps({"text": line, "y": i}) + "\n" for i, line in enumerate(TEXT.split("\n")))

FILES: dict[str, tuple[bytes, dict[str, Any]]] = {
    "a.svm": (SVM.encode(), {}),
    "multi.svm": (b"1,3 1:1\n 2:1\n3 1:2 2:3\n", {}),
    "a.ffm": (b"1 0:1:0.5 2:3:-2\n-1 1:2:1e3\n0 0:1:7\n", {}),
    "a.csv": (CSV.encode(), {"ids": "id", "targets": ["click"]}),
    "b.csv": (b"1,2,3\n4,5,6\n7,8.5,-9\n", {"nulls": "zero"}),
    "ratings.csv": (RATINGS.encode(), {"format": "ratings", "duplicates": "last"}),
    "a.mtx": (MARKET, {}),
    "a.ldac": (b"2 0:3 4:1\n0\n3 1:1 2:2 4:5\n1 3:2\n", {}),
    "docword.a.txt": (b"3\n4\n3\n1 2 5\n3 4 1\n1 1 2\n", {}),
    "a.txt": (TEXT.encode(), {}),
    "a.jsonl": (JSON.encode(), {"targets": ["y"]}),
    "texts.csv": (b'text,y\n"some\nwords",1\nother words,2\n', {"hash_bits": 5, "targets": ["y"]}),
    "texts.parquet": (texts(), {"hash_bits": 5, "targets": ["y"]}),
    "a.vw": (VW.encode(), {"hash_bits": 5}),
    "csr.npz": (saved(sparse.save_npz, X, compressed=False), {}),
    "coo.npz": (saved(sparse.save_npz, X.tocoo()), {}),
    "csc.npz": (saved(sparse.save_npz, X.tocsc(), compressed=False), {}),
    "a.npy": (saved(np.save, X.toarray()), {}),
    "f.npy": (saved(np.save, np.asfortranarray(X.toarray())), {}),
    "a.smat": (bidmat(X, ".smat"), {}),
    "a.sbmat": (bidmat(X, ".sbmat"), {}),
    "a.fmat": (bidmat(X.toarray(), ".fmat"), {}),
    "a.imat": (bidmat(X.toarray(), ".imat"), {}),
    "a.smat.lz4": (packed(bidmat(X, ".smat"), "x.lz4"), {}),
    "a.fmat.lz4": (packed(bidmat(X.toarray(), ".fmat"), "x.lz4"), {}),
    "b.smat.gz": (packed(bidmat(X, ".smat"), "x.gz"), {}),
    "b.svm.gz": (packed(SVM.encode() * 9, "x.gz"), {}),
    "b.mtx.gz": (packed(MARKET, "x.gz"), {}),
    "a.parquet": (lists(), {"targets": ["y"]}),
}
CHECKED = ("a.smat.lz4", "a.fmat.lz4", "b.smat.gz", "b.svm.gz", "b.mtx.gz", "csr.npz", "coo.npz",
           "csc.npz")  # fmt: skip
"""Formats with digests of the numbers: what is read is what was written."""
SECONDS, BYTES = 20, 1 << 30


@contextmanager
def limits() -> Iterator[None]:
    """No case may take long, or take much memory."""
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (size + BYTES, before[1]))
    old = signal.signal(signal.SIGALRM, lambda *_: pytest.fail(f"more than {SECONDS} seconds"))
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, old)
        resource.setrlimit(resource.RLIMIT_AS, before)


def attempt(folder: Path, name: str, data: bytes, options: dict[str, Any]) -> Found | None:
    """What is read, None if it was refused."""
    path = folder / name
    path.write_bytes(data)
    try:
        with limits():
            found = read(path, **options)
    except DataError as error:
        assert str(path) in str(error), f"the message does not name the file: {error}"
        return None
    for part in (found.numbers, found.targets, found.weights):
        assert part is None or np.isfinite(part).all()
    return found


EXTREMES = [0, 1, -1, 2**15, 2**31 - 1, -(2**31), 2**32 - 1, 2**63 - 1, -(2**63)]
WORDS = [b"-1", b"0", b"99999999999999999999", b"1e400", b"nan", b"inf", b"\n", b"\r", b",", b":",
         b"|", b" ", b'"', b"\xff", b"\x00", b"\xef\xbb\xbf", b"2147483648", b"1e-400"]  # fmt: skip


def mutate(rng: np.random.Generator, data: bytes) -> bytes:
    """One to three changes of a kind that disks, editors and programs make."""
    found = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        size = len(found)
        if not size:
            break
        a, b = sorted(rng.integers(0, size + 1, 2).tolist())
        match int(rng.integers(0, 8)):
            case 0:
                found[a % size] ^= 1 << int(rng.integers(0, 8))
            case 1:
                found[a % size] = int(rng.integers(0, 256))
            case 2:
                del found[a:]
            case 3:
                del found[a : min(b, a + 20)]
            case 4:
                found[a:a] = found[a : min(b, a + 200)]
            case 5:
                found[a:a] = WORDS[int(rng.integers(len(WORDS)))]
            case 6:
                word = WORDS[int(rng.integers(len(WORDS)))]
                found[a : a + len(word)] = word
            case _:
                width = int(rng.choice([2, 4, 8]))
                number = EXTREMES[int(rng.integers(len(EXTREMES)))] % 256**width
                found[a - a % width : a - a % width + width] = number.to_bytes(width, "little")
    return bytes(found)


@pytest.mark.parametrize("name", FILES)
def test_good_files_are_read(tmp_path: Path, name: str) -> None:
    data, options = FILES[name]
    assert attempt(tmp_path, name, data, options) is not None


def test_every_format_is_here() -> None:
    suffixes = {Path(name).suffix for name in FILES}
    missing = [name for name, kind in FORMATS.items() if kind.suffixes and
               suffixes.isdisjoint(kind.suffixes)]  # fmt: skip
    assert missing == []


@pytest.mark.parametrize("name", FILES)
def test_files_cut_off_anywhere(tmp_path: Path, name: str) -> None:
    data, options = FILES[name]
    good = attempt(tmp_path, name, data, options)
    step = max(1, len(data) // 120)
    refused = 0
    for size in range(0, len(data), step):
        found = attempt(tmp_path, name, data[:size], options)
        refused += found is None
        if found is not None and name in CHECKED:
            assert good is not None and found.agrees(good)
    assert refused or Path(name).suffix in (".txt", ".vw", ".svm", ".ffm", ".csv", ".jsonl")
    assert attempt(tmp_path, name, b"", options) is None


def fuzz(folder: Path, name: str, count: int, seed: int) -> None:
    data, options = FILES[name]
    good = attempt(folder, name, data, options)
    rng = np.random.default_rng([seed, *name.encode()])
    for number in range(count):
        bad = mutate(rng, data)
        try:
            found = attempt(folder, name, bad, options)
            if found is not None and name in CHECKED:
                assert good is not None and found.agrees(good), "other numbers, and no error"
        except BaseException as error:
            error.add_note(f"file {name}, mutation {number} of seed {seed}: {bad[:2000]!r}")
            raise


@pytest.mark.parametrize("name", FILES)
def test_mutations(tmp_path: Path, name: str) -> None:
    fuzz(tmp_path, name, 25, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_many_mutations(tmp_path: Path, name: str) -> None:
    fuzz(tmp_path, name, 10_000 // len(FILES) + 1, seed=1)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
@pytest.mark.parametrize("name", FILES)
def test_files_that_must_not_be_read(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(FILES[name][0])
    path.chmod(0)
    with pytest.raises(PermissionError):
        read(path, **FILES[name][1])


@pytest.mark.parametrize("name", FILES)
def test_folders_in_place_of_files(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(DataError, match="the folder has no data"):
        read(tmp_path / name, **FILES[name][1])


def test_names_that_say_nothing(tmp_path: Path) -> None:
    (tmp_path / "a9a").write_text(SVM)
    with pytest.raises(DataError, match="unknown format. Its name must end with.*--format"):
        read(tmp_path / "a9a")
    assert read(tmp_path / "a9a", format="libsvm").dense.shape == (3, 6)
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "nothing.csv")
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "*.parquet")
    (tmp_path / "a.csv").write_text("1\n")
    (tmp_path / "a.svm").write_text(SVM)
    with pytest.raises(DataError, match="files of several formats: csv, libsvm"):
        read(tmp_path / "a.*")
