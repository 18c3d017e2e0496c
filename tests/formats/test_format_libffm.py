"""LIBFFM text: fields and indices become names of columns, where a machine finds its fields."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.datasources import DataError
from blocklearn.datasources.formats import Known
from blocklearn.datasources.formats.libsvm_kind import LibffmData
from tests.support.formats import read

TEXT = "1 0:4:0.5 2:4:2\r\n\n0 2:7:1 0:4:-3\n1 1:0:1\n"
NAMES = ["0=4", "1=0", "2=4", "2=7"]


def test_columns_are_indices_of_fields(tmp_path: Path) -> None:
    path = tmp_path / "a.ffm"
    path.write_text(TEXT)
    found = read(path)
    assert list(found.layout.names or ()) == NAMES and found.layout.target_names is None
    expected = [[0.5, 0, 2, 0], [-3, 0, 0, 1], [0, 1, 0, 0]]
    np.testing.assert_array_equal(found.X.toarray(), expected)
    assert found.targets[:, 0].tolist() == [1.0, 0.0, 1.0]
    path.write_text("0 2:4:1 5:5:1\n")
    again = read(path, known=Known(4, NAMES))
    assert again.X.toarray().tolist() == [[0, 0, 1, 0]] and again.dropped == 1


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "a.ffm"),
        ("1 0:1:1\n1 0:1\n", "a.ffm:2: '0:1' is not field:index:value"),
        ("1 a:1:1\n", "a.ffm:1: 'a:1:1' is not field:index:value"),
        ("1 0:1:x\n", "a.ffm:1: "),
        ("0:1:1 0:2:1\n", "a.ffm:1: '0:1:1' comes first; must be a label"),
        ("1 0:1:1 0:1:2\n", "a.ffm:1: index 1 of field 0 comes twice"),
    ],
)
def test_bad_lines_are_named(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "a.ffm"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        read(path)


def test_a_machine_finds_the_fields(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    cells = rng.integers(5, size=(300, 3))
    y = (cells[:, 0] == cells[:, 1]).astype(int)
    path = tmp_path / "train.ffm"
    with path.open("w") as file:
        for label, row in zip(y, cells, strict=True):
            file.write(f"{label} " + " ".join(f"{f}:{i}:1" for f, i in enumerate(row)) + "\n")
    samples = LibffmData(path=path).load()
    assert samples.X.shape == (300, 15)
    starts = np.arange(0, 901, 3)
    X = sp.csr_array((np.ones(900), (cells + [0, 5, 10]).ravel(), starts), shape=(300, 15))
    np.testing.assert_array_equal(samples.X.toarray(), X.toarray())
    model = {"factors": 2, "start": 0.3}
    options = {"passes": 5, "seed": 0, "block_rows": 32, "threads": 1, "verbose": False}
    named = bl.datasources.MatrixSource(
        samples.X, targets=samples.targets, names=samples.names, block_rows=32
    )
    found = bl.Learner(bl.models.FM(fields="names", **model), named, **options).fit()
    sized = bl.datasources.MatrixSource(X, targets=y, block_rows=32)
    same = bl.Learner(bl.models.FM(fields=[5, 5, 5], **model), sized, **options).fit()
    np.testing.assert_array_equal(found.parameter("factors"), same.parameter("factors"))
