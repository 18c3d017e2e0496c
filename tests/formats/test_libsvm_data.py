"""LIBSVM text as data of a run: in memory, without a conversion first."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from blocklearn.datasources import DataError, Reading
from blocklearn.datasources.formats.libsvm_kind import LibsvmData
from tests.support.learn_command import Learn

LINES = "+1 1:0.5 4:2\n-1 2:1\n\n+1 3:-1.5  # good\n-1\n"
CONFIG = """\
model: {kind: glm, link: softmax}
data:
  train: {kind: libsvm, path: train, classes: true}
  eval: {kind: holdout, share: 0.2}
  block_rows: 32
learner: {passes: 8, seed: 1}
"""


@pytest.fixture
def learn(command: Learn) -> Learn:
    """Runs `learn` in a folder with rows of three classes, each with a feature that says it."""
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(200):
        label = rng.integers(3)
        noise = " ".join(f"{column}:{rng.random():.2f}" for column in (5, 7, 9))
        lines.append(f"{2 * label} {label + 1}:1 {noise}")
    Path("train").write_text("\n".join(lines) + "\n")
    Path("few").write_text("\n".join(lines[:5]) + "\n")
    Path("svm.yaml").write_text(CONFIG)

    return command


def test_rows_and_labels(tmp_path: Path) -> None:
    (tmp_path / "a.svm").write_text(LINES)
    samples = LibsvmData(path=tmp_path / "a.svm").load()
    expected = [[0.5, 0, 0, 2], [0, 1, 0, 0], [0, 0, -1.5, 0], [0, 0, 0, 0]]
    np.testing.assert_array_equal(samples.X.toarray(), np.array(expected, np.float32))
    assert samples.targets.tolist() == [[1], [-1], [1], [-1]] and samples.target_names is None


def test_classes_become_targets(tmp_path: Path) -> None:
    (tmp_path / "a.svm.gz").write_bytes(gzip.compress(LINES.encode()))
    samples = LibsvmData(path=tmp_path / "a.svm.gz", classes=True).load()
    assert samples.target_names == ["-1", "1"]
    assert samples.targets.tolist() == [[0, 1], [1, 0], [0, 1], [1, 0]]


def test_a_folder_and_indices_from_zero(tmp_path: Path) -> None:
    for name, text in (("b.svm", "2 0:1\n"), ("a.svm", "1 2:5\n")):
        (tmp_path / name).write_text(text)
    samples = LibsvmData(path=tmp_path, zero_based=True).load()
    assert samples.X.toarray().tolist() == [[0, 0, 5], [1, 0, 0]]
    assert samples.targets.ravel().tolist() == [1, 2]


def test_data_to_evaluate_on_have_the_same_columns(tmp_path: Path) -> None:
    (tmp_path / "train").write_text("1 1:1 9:1\n0 2:1\n2 3:1\n")
    (tmp_path / "few").write_text("2 1:3\n")
    train = LibsvmData(path=tmp_path / "train", classes=True).open_source(Reading(4))
    few = LibsvmData(path=tmp_path / "few", classes=True).load(like=train)
    assert few.X.shape == (1, 9) and few.target_names == ["0", "1", "2"]
    assert few.targets.tolist() == [[0, 0, 1]]
    (tmp_path / "few").write_text("7 1:3\n")
    with pytest.raises(DataError, match="the label 7 is not one of the classes"):
        LibsvmData(path=tmp_path / "few", classes=True).load(like=train)
    (tmp_path / "few").write_text("1 12:3\n")
    with pytest.raises(DataError, match="12 columns, but the model has 9"):
        LibsvmData(path=tmp_path / "few", classes=True).load(like=train)


def test_from_a_file_to_predictions(learn: Learn) -> None:
    code, out, err = learn("--config", "svm.yaml")
    assert code == 0, err
    assert "9 columns" in err and float(out.splitlines()[1].split()[2]) == 1.0  # accuracy
    code, out, err = learn("predict", "runs/svm", "--data", "few")
    assert code == 0, err
    best = [line.split()[2].partition(".")[2] for line in out.splitlines()]
    assert best == [line.split()[0] for line in Path("few").read_text().splitlines()]
    code, out, _ = learn("evaluate", "runs/svm", "--data", "few")
    assert code == 0 and "accuracy 1" in out.splitlines()


def test_indices_from_zero_stay_so_in_predictions(learn: Learn) -> None:
    shifted = [
        " ".join([label, *(f"{int(pair.split(':')[0]) - 1}:{pair.split(':')[1]}" for pair in rest)])
        for label, *rest in map(str.split, Path("train").read_text().splitlines())
    ]
    Path("zero").write_text("\n".join(shifted) + "\n")
    learn("--config", "svm.yaml", "-q")
    learn("--config", "svm.yaml", "-q", "--out", "zero-run", "--set",
          "data.train={kind: libsvm, path: zero, classes: true, zero_based: true}")  # fmt: skip
    ours = learn("predict", "runs/svm", "--data", "train")[1]
    assert learn("predict", "zero-run", "--data", "zero")[1] == ours


@pytest.mark.parametrize(
    "text, message",
    [
        ("1 0:1\n", "train:1: "),
        ("1 1:1\n1 x\n", "train:2: "),
        ("", "has no rows"),
        ("1 1:1\n1:2\n", "1 of 2 rows have no label"),
    ],
)
def test_faults_name_the_line(learn: Learn, text: str, message: str) -> None:
    Path("train").write_text(text)
    code, _, err = learn("--config", "svm.yaml")
    assert code == 65 and message in err
    code, _, err = learn("--config", "svm.yaml", "--set", "data.train.path=nowhere")
    assert code == 66 and "nowhere: No such file" in err
