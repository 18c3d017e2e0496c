"""A run is resumed on the data that it was begun with: what fingerprints of Parquet notice."""

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from blocklearn.datasources import DataError, ParquetSource
from blocklearn.datasources.parquet import content
from blocklearn.datasources.parquet.content import SAMPLE, places


def source(path: Path, **options: Any) -> ParquetSource:
    return ParquetSource(path, ["x"], targets=["y"], **options)


def write(path: Path, labels: Any) -> Path:
    x = np.arange(len(labels), dtype=np.float64)
    parquet.write_table(
        pa.table({"x": x, "y": labels}), path, compression="none", use_dictionary=False
    )
    return path


def test_labels_in_another_order_are_noticed(tmp_path: Path) -> None:
    """Rows, sizes, smallest and largest numbers are the same: footers do not tell."""
    labels = np.repeat([0.0, 1.0], 2000)
    other = labels.copy()
    other[10:-10] = other[10:-10][::-1]
    first, second = write(tmp_path / "a.parquet", labels), write(tmp_path / "b.parquet", other)
    assert first.stat().st_size == second.stat().st_size
    for digest in ("samples", "all"):
        prints = {source(path, digest=digest).fingerprint for path in (first, second)}
        assert len(prints) == 2


def test_copies_and_other_times_are_the_same_data(tmp_path: Path) -> None:
    first = write(tmp_path / "a.parquet", np.repeat([0.0, 1.0], 2000))
    (tmp_path / "elsewhere").mkdir()
    copy = tmp_path / "elsewhere" / "b.parquet"
    shutil.copy(first, copy)
    os.utime(copy, (1, 1))
    assert source(first).fingerprint == source(copy).fingerprint
    assert source(first, digest="all").fingerprint == source(copy, digest="all").fingerprint


def test_of_large_files_samples_are_read_or_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(content, "LEAST", 4 * SAMPLE)
    monkeypatch.setattr(content, "BUDGET", {True: 4 * SAMPLE, False: 0})
    path = write(tmp_path / "a.parquet", np.random.default_rng(0).random(100_000))
    size = path.stat().st_size
    begins = places(size, 4 * SAMPLE)
    assert begins[0] == 0 and begins[-1] == size - SAMPLE and len(begins) == 4
    before = {how: source(path, digest=how).fingerprint for how in ("samples", "all")}

    def after(at: int) -> set[str]:
        """Whose fingerprints change if a byte does."""
        data = bytearray(path.read_bytes())
        data[at] ^= 1
        path.write_bytes(data)
        found = {how for how in before if source(path, digest=how).fingerprint != before[how]}
        data[at] ^= 1
        path.write_bytes(data)
        return found

    assert after(begins[1] + SAMPLE // 2) == {"samples", "all"}
    assert after((begins[1] + SAMPLE + begins[2]) // 2) == {"all"}


def test_a_digest_of_another_name_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", np.zeros(3))
    with pytest.raises(DataError, match="digest='mtime': must be samples or all"):
        source(path, digest="mtime")
