"""Resuming on changed data is refused, for every row of the table in docs/how-to/resume.md."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
from pyarrow import parquet

import blocklearn as bl
from blocklearn.datasources import IterableSource, MatrixSource, ParquetSource
from blocklearn.datasources.blocks import BlockSource, write_blocks
from blocklearn.datasources.data_kind import Reading
from blocklearn.datasources.errors import ReadError
from blocklearn.learner.command_line.cli import main
from blocklearn.learner.configuration.config import RunConfig
from blocklearn.learner.errors import ConfigError
from tests.support.hugectr_files import write_raw
from tests.support.web_servers import Handler, serving

ROWS = 40
Open = Callable[[], Any]


def train(data: Any, checkpoints: Path, passes: int) -> None:
    """Trains, or trains further from the newest checkpoint."""
    hooks = [bl.Checkpoints(checkpoints)]
    model = bl.models.NMF(components=2)
    bl.Learner(model, data, passes=passes, block_rows=16, threads=1, hooks=hooks).fit().close()


def refused(open_: Open, change: Callable[[], Any], checkpoints: Path) -> bool:
    """Whether a run that was begun before the change is refused afterwards."""
    train(open_(), checkpoints, 1)
    train(open_(), checkpoints, 2)  # what has not changed is taken
    change()
    try:
        train(open_(), checkpoints, 3)
    except ConfigError as error:
        assert "data" in str(error)
        return True
    return False


def counts() -> Any:
    X = np.random.default_rng(0).poisson(1.0, (ROWS, 5)).astype(np.float32)
    X[:, 0] += 1
    return X


# ---------------------------------------------------------------- data for evaluations


def test_of_a_command_they_count_too(tmp_path: Path) -> None:
    """Else the best model would be chosen by scores of two sets of data."""
    rows = "".join(f"{n % 7},{n % 2}\n" for n in range(ROWS))
    for name in ("train.csv", "eval.csv"):
        (tmp_path / name).write_text("x,y\n" + rows)
    config = f"""
model: {{kind: glm, link: logistic}}
data:
  train: {{kind: table, path: {tmp_path / "train.csv"}, numeric: [x], targets: [y]}}
  eval: {{kind: table, path: {tmp_path / "eval.csv"}, numeric: [x], targets: [y]}}
evaluation: {{metric: log_loss}}
learner: {{passes: 1}}
out: {tmp_path / "run"}
"""
    (tmp_path / "run.yaml").write_text(config)
    command = ["train", "--config", str(tmp_path / "run.yaml"), "--resume", "auto", "--set"]
    assert run_cli(*command, "learner.passes=1") == 0
    assert run_cli(*command, "learner.passes=2") == 0
    flipped = "".join(f"{n % 7},{1 - n % 2}\n" for n in range(ROWS))
    (tmp_path / "eval.csv").write_text("x,y\n" + flipped)
    assert run_cli(*command, "learner.passes=3") == 78


def run_cli(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main(list(arguments))
    assert isinstance(stop.value.code, int)
    return stop.value.code


# ---------------------------------------------------------------- in memory, by number


@pytest.mark.parametrize("part", ["values", "targets", "weights"])
def test_every_number_in_memory_counts(tmp_path: Path, part: str) -> None:
    X, Y, weights = counts(), np.ones((ROWS, 1), np.float32), np.ones(ROWS, np.float32)

    def change() -> None:
        {"values": X, "targets": Y, "weights": weights[:, None]}[part][ROWS // 2, 0] += 1

    def open_() -> Any:
        return MatrixSource(X.copy(), targets=Y.copy(), weights=weights.copy(), block_rows=16)

    assert refused(open_, change, tmp_path)


def write_csv(file: Path, X: Any) -> None:
    file.write_text("\n".join(["a,b,c,d,e", *(",".join(f"{x:g}" for x in row) for row in X)]))


def write_libsvm(file: Path, X: Any) -> None:
    rows = (" ".join(f"{j + 1}:{x:g}" for j, x in enumerate(row)) for row in X)
    file.write_text("".join(f"1 {row}\n" for row in rows))


def write_ratings(file: Path, X: Any) -> None:
    rows = (f"u{i},i{j},{x:g}\n" for (i, j), x in np.ndenumerate(X) if x)
    file.write_text("user,item,rating\n" + "".join(rows))


def write_text(file: Path, X: Any) -> None:
    words = ["mast", "ship", "sail", "rope", "deck"]
    rows = [" ".join(np.repeat(words, row.astype(int))) for row in X]
    file.write_text("".join(f"{row}\n" for row in rows))


def write_npz(file: Path, X: Any) -> None:
    sp.save_npz(file, sp.csr_array(X))


def write_parquet(file: Path, X: Any) -> None:
    table = pa.table({name: X[:, j] for j, name in enumerate("abcde")})
    parquet.write_table(table, file, compression="none", use_dictionary=False)


FILES: dict[str, tuple[str, Callable[[Path, Any], None], dict[str, Any]]] = {
    "csv": ("x.csv", write_csv, {"kind": "table", "numeric": list("abcde")}),
    "libsvm": ("x.libsvm", write_libsvm, {"kind": "libsvm"}),
    "ratings": ("x.csv", write_ratings, {"kind": "ratings"}),
    "text": ("x.txt", write_text, {"kind": "file", "min_df": 1, "max_df": 1.0}),
    "npz": ("x.npz", write_npz, {"kind": "file"}),
    "parquet": ("x.parquet", write_parquet, {"kind": "parquet", "features": list("abcde")}),
}


def opened(kind: dict[str, Any], path: Path) -> Any:
    tree = {"model": {"kind": "nmf"}, "data": {"train": {**kind, "path": str(path)}}}
    config: Any = RunConfig.model_validate(tree)
    return config.data.train.open_source(Reading(block_rows=16))


@pytest.mark.parametrize("name", FILES)
def test_one_number_of_a_file_counts_and_its_name_and_time_do_not(
    tmp_path: Path, name: str
) -> None:
    ending, write, kind = FILES[name]
    path, copy = tmp_path / ending, tmp_path / f"copy.{ending}"
    X = counts()
    write(path, X)
    train(opened(kind, path), tmp_path / "run", 1)
    shutil.copy(path, copy)
    os.utime(copy, (1, 1))
    train(opened(kind, copy), tmp_path / "run", 2)  # a copy elsewhere, of another time
    X[ROWS // 2, 2] += 1
    write(path, X)
    with pytest.raises(ConfigError, match="data"):
        train(opened(kind, path), tmp_path / "run", 3)


# ---------------------------------------------------------------- formats that are read by block


def test_a_block_dataset_counts_by_its_digests(tmp_path: Path) -> None:
    X, folder = counts(), tmp_path / "blocks"
    kept = tmp_path / "kept"

    def write() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        write_blocks(MatrixSource(X, block_rows=16), [folder], codec="raw")

    def change() -> None:
        shutil.move(folder, kept)
        X[ROWS // 2, 2] += 1
        write()

    write()
    assert refused(lambda: BlockSource([folder]), change, tmp_path / "run")
    train(BlockSource([kept]), tmp_path / "run", 3)  # moved elsewhere: the same data
    part = next(file for file in sorted(kept.iterdir()) if file.suffix == ".arrow")
    data = bytearray(part.read_bytes())
    at = data.find(np.float32(X[0]).tobytes())
    assert at > 0
    data[at] ^= 1
    part.write_bytes(data)  # the manifest is as before: seen when the block is read
    with pytest.raises(ReadError, match=r"arrow"):
        train(BlockSource([kept]), tmp_path / "run", 4)


def test_every_record_of_hugectr_counts(tmp_path: Path) -> None:
    file, X = tmp_path / "x.bin", counts()
    kind = {"kind": "hugectr-raw", "dense_dim": 5, "slot_size_array": [4]}

    def write() -> None:
        write_raw(file, np.ones((ROWS, 1)), X, np.ones((ROWS, 1), np.int64))

    def change() -> None:
        X[ROWS // 2, 2] += 1
        write()

    write()
    assert refused(lambda: opened(kind, file), change, tmp_path / "run")


@pytest.mark.parametrize("how", ["counted", "named", "nothing"])
def test_batches_count_as_far_as_they_can_be_seen(tmp_path: Path, how: str) -> None:
    X, name = counts(), ["first"]
    shape = MatrixSource(X, block_rows=16).shape

    def open_() -> Any:
        if how == "counted":
            return IterableSource(lambda pass_: [X.copy()], block_rows=16)
        given = name[0] if how == "named" else ""
        return IterableSource(lambda pass_: [X.copy()], shape, fingerprint=given)

    def change() -> None:
        X[ROWS // 2, 2] += 1
        name[0] = "second"

    assert refused(open_, change, tmp_path) == (how != "nothing")


# ---------------------------------------------------------------- Parquet elsewhere


class Served:
    """One file, with or without an ETag."""

    def __init__(self, data: bytes, tag: str | None) -> None:
        self.data, self.tag = data, tag
        self.asked: list[tuple[int, int]] = []

    def __call__(self, request: Handler) -> None:
        given = {} if self.tag is None else {"ETag": self.tag}
        start, stop = map(int, request.headers["Range"].removeprefix("bytes=").split("-"))
        part = self.data[start : stop + 1]
        self.asked.append((start, start + len(part)))
        place = f"bytes {start}-{start + len(part) - 1}/{len(self.data)}"
        request.say(206, part, Content_Range=place, **given)


def remote(tmp_path: Path, tag: str | None, change: Callable[[Served], None]) -> bool:
    write_parquet(tmp_path / "x.parquet", counts())
    served = Served((tmp_path / "x.parquet").read_bytes(), tag)
    with serving(served) as server:

        def open_() -> Any:
            url = f"http://{server.address}/x.parquet"
            return ParquetSource(url, list("abcde"), block_rows=16)

        return refused(open_, lambda: change(served), tmp_path / "run")


def flip(served: Served) -> None:
    """Changes a number; the footer stays."""
    data = bytearray(served.data)
    at = data.find(counts()[:, 2].astype(np.float32).tobytes())
    assert at > 0
    data[at + 4 * (ROWS // 2) + 2] ^= 16
    served.data = bytes(data)


def test_an_etag_counts_in_place_of_the_bytes(tmp_path: Path) -> None:
    assert remote(tmp_path, '"1"', lambda served: setattr(served, "tag", '"2"'))


def test_without_an_etag_the_bytes_count(tmp_path: Path) -> None:
    assert remote(tmp_path, None, flip)
