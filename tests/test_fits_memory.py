"""Data that are read into memory must fit there; what is read block by block may be of any size."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from blocklearn.datasources import MatrixSource, write_blocks
from blocklearn.learner.command_line.exitcodes import ExitCode
from blocklearn.learner.runs import inputs
from tests.test_new_data import learn

LINES = "".join(f"{i % 2} {1 + i % 7}:0.5 9:2\n" for i in range(200))


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


def test_a_packed_file_counts_as_it_is(tmp_path: Path, train: Train) -> None:
    """What it will be unpacked is not known before it is read."""
    file = tmp_path / "a.svm.gz"
    file.write_bytes(gzip.compress(LINES.encode()))
    size = file.stat().st_size
    assert size < len(LINES)
    assert train(f"kind: libsvm, path: {file}", size) == 0
    assert train(f"kind: libsvm, path: {file}", size - 1) == ExitCode.OUT_OF_MEMORY


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
