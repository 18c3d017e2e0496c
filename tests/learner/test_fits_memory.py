"""Data that are read into memory must fit there; what is read block by block may be of any size."""

import bz2
import gzip
import lzma
import shlex
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
import xxhash

from blocklearn.datasources import MatrixSource, write_blocks
from blocklearn.datasources.packed.unpacked_size import unpacked_bytes
from blocklearn.learner.configuration.config import RunConfig
from blocklearn.learner.exit_codes import ExitCode
from blocklearn.learner.runs import inputs
from blocklearn.learner.runs.advice import warn_of_copies
from tests.learner.test_new_data import learn

LINES = "".join(f"{i % 2} {1 + i % 7}:0.5 9:2\n" for i in range(200))


def lz4(data: bytes) -> bytes:
    """A frame that says its size, as `lz4 --content-size` writes it."""
    frame: bytes = pa.Codec("lz4").compress(data, asbytes=True)
    header = bytes([frame[4] | 8, frame[5]]) + len(data).to_bytes(8, "little")
    check = xxhash.xxh32_intdigest(header) >> 8 & 255
    return frame[:4] + header + bytes([check]) + frame[7:]


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".lz4": lz4,
    ".xz": lzma.compress,
    ".zst": lambda data: pa.Codec("zstd").compress(data, asbytes=True),
}


@pytest.fixture
def train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> "Train":
    return Train(tmp_path, monkeypatch)


class Train:
    """Trains on `data` with so many bytes of memory left: the exit code."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.monkeypatch, self.runs = folder, monkeypatch, 0

    def __call__(self, data: str, left: int) -> int:
        limits = {"free on this machine": 2**40, "left of ulimit -v": left}
        self.monkeypatch.setattr(inputs, "memory_limits", lambda: limits)
        self.runs += 1
        config = self.folder / "run.yaml"
        config.write_text(f"model: {{kind: glm}}\ndata: {{train: {{{data}}}, block_rows: 50}}\n")
        out = self.folder / f"run{self.runs}"
        code: int = learn("--config", config, "--out", out, "--threads", 1, "-q")
        return code


def test_the_advice_names_the_column_of_texts(
    tmp_path: Path, train: Train, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.csv"
    file.write_text("my text;y\nsome words;1\n")
    data = f"kind: file, path: {file}, text: my text, separator: ';'"
    assert train(data, 10) == ExitCode.OUT_OF_MEMORY
    command = capsys.readouterr().err.partition("`learn ")[2].partition("`")[0]
    assert command == f"convert {file} DIR --format table-text --text 'my text' --separator ';'"
    blocks = str(tmp_path / "blocks")
    assert learn(*(blocks if word == "DIR" else word for word in shlex.split(command)), "-q") == 0


def test_a_file_for_memory_must_fit(
    tmp_path: Path, train: Train, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.svm"
    file.write_text(LINES)
    data = f"kind: libsvm, path: {file}"
    assert train(data, len(LINES) - 1) == ExitCode.OUT_OF_MEMORY
    error = capsys.readouterr().err
    for part in (str(file), "left of ulimit -v", f"learn convert {file}", "kind: blocks"):
        assert part in error
    assert train(data, len(LINES)) == 0


@pytest.mark.parametrize("end", sorted(PACKERS))
def test_packed_files_count_as_what_they_unpack_to(tmp_path: Path, end: str) -> None:
    file = tmp_path / f"a{end}"
    for text in (LINES, LINES[:100], ""):  # sizes are fields of different lengths
        file.write_bytes(PACKERS[end](text.encode()))
        assert unpacked_bytes(file) == max(len(text), file.stat().st_size)


def test_what_says_nothing_or_is_damaged_counts_as_it_is(tmp_path: Path) -> None:
    packed = {end: pack(LINES.encode()) for end, pack in PACKERS.items()}
    packed[".bz2"] = bz2.compress(LINES.encode())
    for end, data in packed.items():
        (tmp_path / f"cut{end}").write_bytes(data[: 3 if end in (".zst", ".lz4") else -9])
        (tmp_path / f"empty{end}").write_bytes(b"")
        (tmp_path / f"other{end}").write_bytes(LINES.encode() + b"\xff" * 4)
    (tmp_path / "whole.bz2").write_bytes(packed[".bz2"])
    assert all(unpacked_bytes(file) == file.stat().st_size for file in tmp_path.iterdir())


def test_matrices_count_as_what_they_unpack_to(tmp_path: Path) -> None:
    sp.save_npz(tmp_path / "a.npz", sp.csr_array(np.ones((300, 20))))
    assert unpacked_bytes(tmp_path / "a.npz") > 300 * 20 * 12 > (tmp_path / "a.npz").stat().st_size


def test_a_packed_file_must_fit_unpacked(
    tmp_path: Path, train: Train, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "parts").mkdir()
    file = tmp_path / "parts" / "a.svm.gz"
    file.write_bytes(gzip.compress(LINES.encode()))
    for path in (file, file.parent):
        assert train(f"kind: libsvm, path: {path}", len(LINES) - 1) == ExitCode.OUT_OF_MEMORY
        assert "2.4 kB of data" in capsys.readouterr().err
        assert train(f"kind: libsvm, path: {path}", len(LINES)) == 0


def test_what_is_read_block_by_block_may_be_larger(tmp_path: Path, train: Train) -> None:
    X = np.random.default_rng(0).normal(size=(300, 4))
    write_blocks(MatrixSource(X, targets=X[:, 0] > 0, block_rows=50), [tmp_path / "blocks"])
    assert train(f"kind: blocks, paths: [{tmp_path / 'blocks'}]", 1) == 0
    table = tmp_path / "a.csv"
    table.write_text("x,y\n" + "1.5,1\n-2,0\n" * 50)
    data = f"kind: table, path: {table}, numeric: [x], targets: [y]"
    assert train(data, 1) == ExitCode.OUT_OF_MEMORY
    assert train(f"{data}, stream: true", 1) == 0


def test_conversions_take_files_larger_than_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.svm"
    file.write_text(LINES)
    monkeypatch.setattr(inputs, "memory_limits", lambda: {"free on this machine": 1})
    assert learn("convert", file, tmp_path / "blocks", "-q") == 0


def test_workers_that_hold_the_same_data_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "a.svm"
    file.write_text(LINES)
    write_blocks(MatrixSource(sp.eye_array(3, dtype=np.float32).tocsr()), [tmp_path / "blocks"])
    whole = {"kind": "libsvm", "path": str(file)}
    told = []
    for data in [
        {"train": whole, "eval": whole},
        {"train": {"kind": "blocks", "paths": [str(tmp_path / "blocks")]}},
    ]:
        config = RunConfig.model_validate({"model": {"kind": "glm"}, "data": data})
        caplog.clear()
        warn_of_copies(config, 2, "so it is")
        told.append(caplog.messages)
    (train, other), none = told
    assert none == [] and other.startswith("data.eval: each of 2 workers reads all of")
    assert (
        f"data.train: each of 2 workers reads all of {file} into memory, because so it is" in train
    )
    assert f"`learn convert {file} DIR --format libsvm`" in train
