"""Files of every format that are empty, may not be read, or are folders: an error that says so.

Damaged files are those of `tests/mutations`.
"""

import os
from pathlib import Path

import pytest

from blocklearn.datasources import DataError
from blocklearn.datasources.formats import FORMATS
from blocklearn.datasources.packed.streams import PACKED
from tests.mutations.readers import Converted
from tests.mutations.samples import SVM, Sample, samples
from tests.support.formats import read

CONVERTED = [
    sample
    for sample in samples()
    if isinstance(sample.read, Converted) and not sample.read.file.endswith(PACKED)
]
each_format = pytest.mark.parametrize("sample", CONVERTED, ids=lambda sample: sample.name)


def test_every_format_is_here() -> None:
    suffixes = {Path(name).suffix for sample in CONVERTED for name in sample.files}
    missing = [name for name, kind in FORMATS.items() if kind.suffixes and
               suffixes.isdisjoint(kind.suffixes)]  # fmt: skip
    assert missing == []


@each_format
def test_empty_files(tmp_path: Path, sample: Sample) -> None:
    (name,) = sample.files
    (tmp_path / name).touch()
    with pytest.raises(DataError, match=name):
        sample.read(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
@each_format
def test_files_that_must_not_be_read(tmp_path: Path, sample: Sample) -> None:
    sample.write(tmp_path)
    (name,) = sample.files
    (tmp_path / name).chmod(0)
    with pytest.raises(PermissionError):
        sample.read(tmp_path)


@each_format
def test_folders_in_place_of_files(tmp_path: Path, sample: Sample) -> None:
    (name,) = sample.files
    (tmp_path / name).mkdir()
    with pytest.raises(DataError, match="the folder has no data"):
        sample.read(tmp_path)


def test_names_that_say_nothing(tmp_path: Path) -> None:
    (tmp_path / "a9a").write_bytes(SVM)
    with pytest.raises(DataError, match="unknown format. Its name must end with.*--format"):
        read(tmp_path / "a9a")
    assert read(tmp_path / "a9a", format="libsvm").dense.shape == (5, 6)
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "nothing.csv")
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "*.parquet")
    (tmp_path / "a.csv").write_text("1\n")
    (tmp_path / "a.svm").write_bytes(SVM)
    with pytest.raises(DataError, match="files of several formats: csv, libsvm"):
        read(tmp_path / "a.*")
