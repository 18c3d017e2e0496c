"""`learn factors`: states of rows in files, in the order of the rows, with their names."""

from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet

import blocklearn as bl
from blocklearn.datasources import MatrixSource
from blocklearn.learner.exit_codes import ExitCode
from tests.support.formats import example
from tests.support.learn_command import learn


@pytest.fixture
def model(tmp_path: Path) -> bl.Learner:
    X = abs(example(40, 9))
    users, items = [f"u{i}" for i in range(40)], [f"i{i}" for i in range(9)]
    source = MatrixSource(X, block_rows=16, names=items, row_names=users)
    learner = bl.Learner(bl.models.ALS(rank=4), train=source, passes=2, threads=1).fit()
    bl.save(learner, tmp_path / "model")
    return learner


@pytest.mark.parametrize("step", [7, 1 << 14])
def test_factors_are_written_in_order(
    tmp_path: Path, model: bl.Learner, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blocklearn.learner.results.predictions.STEP", step)
    for state, letter in [("users", "u"), ("items", "i")]:
        want = model.row_state(state)
        out = tmp_path / f"{state}.parquet"
        assert learn("factors", tmp_path / "model", state, "--out", out) == 0
        found = parquet.read_table(out)
        np.testing.assert_array_equal(np.array(found["prediction"].to_pylist(), np.float32), want)
        assert found["row"].to_pylist() == list(range(len(want)))
        assert found["document"].to_pylist() == [f"{letter}{i}" for i in range(len(want))]
        array = tmp_path / f"{state}.npy"
        assert learn("factors", tmp_path / "model", state, "--out", array) == 0
        np.testing.assert_array_equal(np.load(array), want)


def test_files_are_replaced_only_on_demand(
    tmp_path: Path, model: bl.Learner, capsys: pytest.CaptureFixture[str]
) -> None:
    old = tmp_path / "old.npy"
    old.write_bytes(b"old results")
    job = ["factors", tmp_path / "model", "users", "--out", old]
    assert learn(*job) == ExitCode.USAGE
    assert f"{old}: the file exists already. --overwrite replaces it." in capsys.readouterr().err
    assert old.read_bytes() == b"old results"
    assert learn(*job, "--overwrite") == 0
    np.testing.assert_array_equal(np.load(old), model.row_state("users"))


@pytest.mark.parametrize(
    "command",
    [
        ["predict", "--data", "new.txt"],
        ["factors", "users"],
        ["recommend"],
        ["similar", "--items", "i"],
    ],
    ids=lambda command: command[0],
)
def test_no_command_replaces_a_file_unasked(
    tmp_path: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """It is refused before the model is read: there is none here."""
    old = tmp_path / "old.parquet"
    old.write_bytes(b"results")
    job = [command[0], tmp_path / "model", *command[1:], "--out", old]
    assert learn(*job) == ExitCode.USAGE
    assert f"{old}: the file exists already." in capsys.readouterr().err
    assert learn(*job, "--overwrite") == ExitCode.NO_INPUT
    assert old.read_bytes() == b"results"


def test_what_cannot_be_written(
    tmp_path: Path, model: bl.Learner, capsys: pytest.CaptureFixture[str]
) -> None:
    job = ["factors", tmp_path / "model"]
    assert learn(*job, "friends", "--out", tmp_path / "a.npy") == ExitCode.CONFIG
    assert "no state of rows called 'friends': it has users, items" in capsys.readouterr().err
    assert learn(*job, "users", "--out", tmp_path / "a.xls") == ExitCode.USAGE
    assert not (tmp_path / "a.npy").exists()
