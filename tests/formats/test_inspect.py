"""`learn inspect`: what it says is true, and what it advises is right."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from scipy import sparse

import blocklearn as bl
from blocklearn.datasources import DataError
from blocklearn.datasources.formats import Scratch, open_rows
from blocklearn.datasources.formats.profile import Profile, share_of_top
from blocklearn.learner.conversion.display import Watch
from blocklearn.learner.exit_codes import ExitCode
from blocklearn.learner.inspection.advice import advise
from blocklearn.learner.inspection.inspect import inspect
from blocklearn.learner.inspection.lines import lines
from tests.formats.test_format_hostile import each_format
from tests.mutations.samples import Sample
from tests.support.formats import example
from tests.support.learn_command import learn


def profile_of(path: Path, memory: int = 1 << 28, **options: Any) -> Profile:
    scratch = Scratch(path.parent / "scratch", memory)
    scratch.folder.mkdir(exist_ok=True)
    rows = open_rows([str(path)], scratch, options=options)
    profile = Profile(rows.layout)
    for chunk in rows.chunks():
        profile.add(chunk)
    return profile


@pytest.mark.parametrize("name", ["a.npz", "a.npy"])
@pytest.mark.parametrize("chunk", [7, 10_000])
def test_statistics_are_those_of_the_matrix(
    tmp_path: Path, name: str, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blocklearn.datasources.parsing.sections.CHUNK_ROWS", chunk)
    monkeypatch.setattr("blocklearn.datasources.formats.npy.CHUNK_NUMBERS", chunk * 30)
    X = example(500, 30)
    table, path = X.toarray(), tmp_path / name
    np.save(path, table) if name == "a.npy" else sparse.save_npz(path, X)
    found = profile_of(path)
    lengths, columns = np.count_nonzero(table, axis=1), np.count_nonzero(table, axis=0)
    assert (found.rows, found.nnz) == (500, np.count_nonzero(table))
    assert found.empty_rows == (lengths == 0).sum()
    assert found.empty_columns == (columns == 0).sum()
    assert [row.nnz for row in found.longest] == sorted(lengths)[:-6:-1]
    assert all(lengths[row.number] == row.nnz for row in found.longest)
    assert [c.nnz for c in found.fullest] == sorted(columns)[:-6:-1]
    assert found.share_of_longest_rows == sum(sorted(lengths)[-5:]) / found.nnz
    assert found.share_of_fullest_columns == columns.max() / found.nnz
    stored = table.ravel() if name == "a.npy" else X.data
    assert (found.values.least, found.values.largest) == (stored.min(), stored.max())
    assert found.values.negatives == (stored < 0).sum() and found.values.whole
    assert found.values.zeros == (stored == 0).sum()


@given(st.lists(st.integers(0, 50), min_size=1, max_size=400))
@settings(max_examples=50, deadline=None)
def test_the_share_of_the_top(sizes: list[int]) -> None:
    groups = [(size, sizes.count(size)) for size in sorted(set(sizes), reverse=True)]
    top = sorted(sizes, reverse=True)[: max(1, len(sizes) // 100)]
    assert share_of_top(groups, len(sizes)) == (sum(top) / sum(sizes) if sum(sizes) else 0.0)


@each_format
def test_every_format_has_a_report(
    tmp_path: Path, sample: Sample, capsys: pytest.CaptureFixture[str]
) -> None:
    sample.write(tmp_path)
    path, options = tmp_path / sample.read.file, sample.read.options
    report = inspect([str(path)], Watch(), options={k: v for k, v in options.items()
                     if k != "format"}, format=options.get("format"))  # fmt: skip
    assert json.loads(json.dumps(report)) == report
    assert report["rows"] >= 2 and report["bytes"] == path.stat().st_size
    if not options:
        assert learn("inspect", path) == 0
        out = capsys.readouterr().out
        assert out.startswith(f"{path}: {report['what']}\n") and f"{report['nnz']:,}" in out


def advice(path: Path, **options: Any) -> str:
    return "\n".join(inspect([str(path)], Watch(), options=options)["slow"])


def test_advice_on_files(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("".join("1,0,0,0,0,0,-3,0,0,0\n" for _ in range(50)))
    text = advice(path)
    assert "80% of the numbers are 0" not in text  # 80 % is the limit
    assert "50 numbers are negative" in text and "is parsed anew for every run" in text
    path.write_text("time,y\n16777217,0\n16777215,1\n")
    assert "rounded to float32" not in advice(path)  # 16,777,216 may be exact
    path.write_text("time,y\n16777219,0\n16777215,1\n")
    assert "values: whole numbers up to 16,777,220 are rounded to float32" in advice(path)
    path.write_text("x,y\n1,20000000\n2,1\n")
    assert "target y: whole numbers up to 20,000,000 are rounded" in advice(path, targets=["y"])
    path.write_text("1,0,0,0,0,0,0,0,0,0\n")
    assert "90% of the numbers are 0, and each costs" in advice(path)
    path = tmp_path / "a.svm"
    path.write_text("1 1:1 2:1\n")
    assert "100% of all places are filled" in advice(path)
    path.write_text("1 1:1 900:1\n")
    assert "898 of 900 columns are empty" in advice(path)
    path.write_text("1 7:1 3:1\n1 2:1\n")
    assert any("lines are read slowly" in note for note in inspect([str(path)], Watch())["notes"])
    rows = ["1 3:1"] * 5000 + ["0 " + " ".join(f"{i}:1" for i in range(1, 2000))]
    path.write_text("\n".join(rows))
    assert "row 5000 has 1,999 non-zeros, 1,428 times the mean" in advice(path)


def test_advice_on_blocks(tmp_path: Path) -> None:
    X = example(3000, 40)
    sparse.save_npz(tmp_path / "a.npz", X)
    for name, more in [("small", ["--block-rows", 10]), ("both", ["--both-orientations"])]:
        assert learn("convert", tmp_path / "a.npz", tmp_path / name, "-q", *more) == 0
    text = advice(tmp_path / "small")
    assert "on average are small: convert with --block-rows 65536" in text
    assert "ALS also reads the columns: convert with --both-orientations" in text
    report = inspect([str(tmp_path / "both")], Watch())
    assert report["orientations"] == 2 and report["blocks"] == 3 and report["block_rows"] == 1024
    assert report["block_nnz"]["mean"] * 3 == X.nnz
    assert "orientation" not in "\n".join(report["slow"])


def test_advice_on_parquet(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table({"x": np.arange(1000.0), "y": np.ones(1000)})
    parquet.write_table(table, path, row_group_size=10)
    report = inspect([str(path)], Watch())
    assert report["row_groups"] == {"count": 100, "least": 10, "mean": 10.0, "largest": 10}
    assert "B on average are small, and each is read on its own" in "\n".join(report["slow"])
    assert report["notes"] == []
    texts = table.append_column("words", [["a b"] * 1000])
    parquet.write_table(texts, path, row_group_size=10)
    report = inspect([str(path)], Watch())
    found = [(column["name"], column["kind"]) for column in report["columns"]]
    assert found == [("x", "number"), ("y", "number"), ("words", "text")]
    assert report["row_groups"] == {"count": 100, "least": 10, "mean": 10.0, "largest": 10}
    text = "\n".join(lines(report, "a.parquet"))
    assert "100 of 10 to 10 rows, at most" in text and "B on average are small, and each" in text
    parquet.write_table(texts, path)
    report = inspect([str(path)], Watch())
    assert report["row_groups"]["count"] == 1 and report["slow"] == []


def test_sizes_of_files_elsewhere_are_known(tmp_path: Path) -> None:
    """A URL of a folder: as many files and bytes as there are in it."""
    fsspec = pytest.importorskip("fsspec")
    files = fsspec.filesystem("memory")
    for i in range(2):
        parquet.write_table(pa.table({"x": np.arange(10.0 + i)}), tmp_path / f"{i}.parquet")
        data = (tmp_path / f"{i}.parquet").read_bytes()
        files.pipe(f"/test-inspect/{i}.parquet", data)
    there, here = (inspect([str(at)], Watch()) for at in ("memory://test-inspect", tmp_path))
    assert there == here and there["files"] == 2
    assert there["bytes"] == sum(file.stat().st_size for file in tmp_path.iterdir())


def test_every_piece_of_advice_can_be_given() -> None:
    base = {
        "kind": "blocks", "what": "block dataset", "rows": 1000, "columns": 50, "nnz": 5000,
        "dense": False, "longest_rows": [], "values": {"negatives": 0, "zeros": 0, "count": 5000},
        "empty_columns": 0, "orientations": 2, "blocks": 5, "block_rows": 200,
        "block_nnz": {"count": 5, "least": 900, "mean": 1000.0, "largest": 1100},
        "block_decoded_bytes": {"count": 5, "least": 1, "mean": 2.0**20, "largest": 2**20},
    }  # fmt: skip
    assert advise(base) == []
    uneven = {**base, "block_nnz": {"count": 5, "least": 1, "mean": 1000.0, "largest": 4000}}
    assert "the fullest block has 4,000 non-zeros, a mean one 1,000" in advise(uneven)[0]
    decoded = {"count": 5, "least": 1, "mean": 2.0**20, "largest": 2**30}
    assert "the largest block has 1.1 GB" in advise({**base, "block_decoded_bytes": decoded})[0]


def test_models_and_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    X = bl.sparse(abs(example(200, 20)).toarray())
    learner = bl.Learner(bl.models.LDA(topics=3), train=X, passes=1, threads=1).fit()
    bl.save(learner, tmp_path / "model")
    assert learn("inspect", tmp_path / "model", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["kind"] == "model" and report["model"] == "lda"
    assert report["config"]["topics"] == 3 and [20, 3] in report["arrays"].values()
    (tmp_path / "docs.txt").write_text("alpha beta gamma\nbeta delta gamma\n" * 20)
    config = tmp_path / "c.yaml"
    config.write_text(
        f"data: {{train: {{kind: file, path: {tmp_path / 'docs.txt'}}}}}\n"
        "model: {kind: lda, topics: 2}\n"
    )
    assert learn("--config", config, "--out", tmp_path / "run", "-q") == 0
    assert learn("inspect", tmp_path / "run") == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{tmp_path / 'run'}: a run\n")
    assert "finished: its model is here" in out and "topics=2" in out and "pass-0001" in out
    with (tmp_path / "run" / "metrics.jsonl").open("a") as cut_off:
        cut_off.write('{"event": "ev')
    assert learn("inspect", tmp_path / "run") == 0
    (tmp_path / "run" / "model.json").write_text("{}")
    assert learn("inspect", tmp_path / "run") == ExitCode.DATA


def test_what_is_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert learn("inspect", tmp_path / "no.csv") == ExitCode.NO_INPUT
    assert learn("inspect", tmp_path) == ExitCode.DATA
    assert "the folder has no data" in capsys.readouterr().err
    (tmp_path / "a.csv").write_text("1\nx\n")
    with pytest.raises(DataError, match="a.csv:2"):
        inspect([str(tmp_path / "a.csv")], Watch(), format="csv")


def test_another_separator(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a;b\n1;2\n3;4\n")
    assert learn("inspect", path, "-q") == ExitCode.DATA
    assert "a.csv:2: column 'a;b' is '1;2', not a number. Its first" in (
        err := capsys.readouterr().err
    )
    assert "separator: ';'" in err
    assert learn("inspect", path, "-q", "--separator", ";") == ExitCode.DONE
    assert "columns          2 with names" in capsys.readouterr().out
    path.rename(tmp_path / "a.txt")
    assert learn("inspect", tmp_path / "a.txt", "-q", "--separator", ";") == ExitCode.USAGE
    assert "--separator: not for text" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["convert", "inspect"])
def test_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert learn(command, "--help") == 0
    assert f"Usage: learn {command}" in capsys.readouterr().out
