"""`learn convert`: any file to a block dataset, completely or not at all, also when interrupted."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from scipy import sparse

from blocklearn.datasources import DataError, DataSource, HashedWords, HostBlock, row_names
from blocklearn.datasources.blocks import BlockSource
from blocklearn.datasources.source import target_names
from blocklearn.learner.conversion.convert import Conversion, convert
from blocklearn.learner.conversion.display import ConversionDisplay, Watch
from blocklearn.learner.conversion.folder import READING
from blocklearn.learner.errors import RunFolderError
from blocklearn.learner.exit_codes import ExitCode
from blocklearn.learner.figures import size
from tests.formats.test_format_hostile import each_format
from tests.mutations.samples import Sample
from tests.support.formats import bidmat, example, packed
from tests.support.learn_command import learn, started, wait_until_ready


def rows_of(source: DataSource) -> dict[str, Any]:
    """Everything that a source has, in one piece."""
    block, parts = HostBlock(source.shape), []
    for index in range(source.blocks):
        source.read(0, index, block)
        rows, dense = block.rows, block.dense[: block.rows]
        X = dense.copy()
        if not source.shape.dense:
            csr = (block.values[: block.nnz], block.indices[: block.nnz], block.indptr[: rows + 1])
            X = sparse.csr_array(csr, (rows, source.shape.columns)).toarray()
        parts.append((X, block.targets[:rows].copy(), block.weights[:rows].copy()))
    found = dict(zip(("X", "targets", "weights"), map(np.concatenate, zip(*parts, strict=True)),
                     strict=True))  # fmt: skip
    names = row_names(source)
    return {
        **found,
        "names": None if source.names is None else list(source.names),
        "row_names": None if names is None else list(names),
        "target_names": None if (t := target_names(source)) is None else list(t),
    }


@each_format
def test_every_format_becomes_a_dataset(tmp_path: Path, sample: Sample) -> None:
    sample.write(tmp_path)
    dst, given = tmp_path / "dst", list[object]()
    for key, value in sample.read.options.items():
        if value is False:
            given.append(f"--no-{key}")
        else:
            given += [f"--{key}", *(value if isinstance(value, list) else [value])]
    assert learn("convert", tmp_path / sample.read.file, dst, "--block-rows", 4, "-q", *given) == 0
    assert not (dst / READING).exists() and not list(dst.glob("unfinished*"))
    assert BlockSource([dst]).shape.rows == 4
    assert learn("inspect", dst) == 0


def test_everything_arrives(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.csv"
    path.write_text("n,age,click,w,pay\nann,3,1,0.5,0\nbob,4,0,2,7\neve,5,1,1,0\n")
    folders = [tmp_path / "a", tmp_path / "b"]
    code = learn(
        "convert", path, folders[0], "--stripes", folders[1], "--block-rows", 2, "--codec", "raw",
        "--ids", "n", "--targets", "click", "--weights", "w", "--sparse", "--both-orientations",
    )  # fmt: skip
    out, err = capsys.readouterr()
    assert code == 0 and out.startswith(f"{folders[0]}: 3 rows, 2 columns, ") and "rows" in err
    with BlockSource(folders) as source:
        found = rows_of(source)
        assert found["X"].tolist() == [[3, 0], [4, 7], [5, 0]]
        assert found["targets"].tolist() == [[1], [0], [1]]
        assert found["weights"].tolist() == [0.5, 2, 1]
        assert found["names"] == ["age", "pay"] and found["row_names"] == ["ann", "bob", "eve"]
        assert found["target_names"] == ["click"]
        assert rows_of(source.transposed())["X"].tolist() == [[3, 4, 5], [0, 7, 0]]


def test_targets_from_a_file_of_their_own(tmp_path: Path) -> None:
    X, Y = example(5000, 9), example(5000, 3, seed=1)
    sparse.save_npz(tmp_path / "x.npz", X)
    (tmp_path / "y.smat.lz4").write_bytes(packed(bidmat(Y, ".smat"), "y.lz4"))
    job = [tmp_path / "x.npz", tmp_path / "dst", "--target-files", tmp_path / "y.smat.lz4", "-q"]
    assert learn("convert", *job) == 0
    found = rows_of(BlockSource([tmp_path / "dst"]))
    np.testing.assert_array_equal(found["X"], X.toarray())
    np.testing.assert_array_equal(found["targets"], Y.toarray())
    for rows, message in [(4999, "targets for 4,999 rows, but the data have more"),
                          (5001, "targets for more than the 5,000 rows")]:  # fmt: skip
        np.save(tmp_path / "z.npy", np.ones(rows))
        with pytest.raises(DataError, match=message):
            convert(Conversion([str(tmp_path / "x.npz")], [tmp_path / "d"],
                               target_files=[str(tmp_path / "z.npy")]), Watch())  # fmt: skip
        assert not (tmp_path / "d").exists()


def test_a_dataset_of_a_dataset(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("".join(f"alpha beta{'' if i % 3 else ' gamma'}\n" for i in range(100)))
    assert learn("convert", path, tmp_path / "a", "--block-rows", 7, "-q") == 0
    assert learn("convert", tmp_path / "a", tmp_path / "b", "--block-rows", 30, "-q") == 0
    with BlockSource([tmp_path / "a"]) as first, BlockSource([tmp_path / "b"]) as second:
        a, b = rows_of(first), rows_of(second)
        assert second.shape.rows == 30
        np.testing.assert_array_equal(a.pop("X"), b.pop("X"))
        np.testing.assert_array_equal(a.pop("targets"), b.pop("targets"))
        np.testing.assert_array_equal(a.pop("weights"), b.pop("weights"))
        assert a == b


def test_hashed_words_are_known_by_their_bits(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("alpha beta\n")
    assert learn("convert", tmp_path / "a.txt", tmp_path / "a", "--hash-bits", 12, "-q") == 0
    assert BlockSource([tmp_path / "a"]).names == HashedWords(12)


# ---- completely or not at all --------------------------------------------------------------------


def big(path: Path, rows: int = 30_000, bad: str = "") -> None:
    with path.open("w") as file:
        for i in range(rows):
            file.write(f"{i % 5} {1 + i % 7}:{i} {10 + i % 90}:0.5\n")
        file.write(bad)


def test_bad_input_leaves_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, dst = tmp_path / "a.svm", tmp_path / "deep" / "dst"
    big(path, bad="1 1:x\n")
    assert learn("convert", path, dst, "--block-rows", 100) == ExitCode.DATA
    assert f"{path}:30001: 'x' is not a number" in capsys.readouterr().err
    assert not dst.exists()


def test_data_do_not_come_from_a_pipe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Several passes read them: the second one would wait for ever."""
    pipe = tmp_path / "a.csv"
    os.mkfifo(pipe)
    config = tmp_path / "c.yaml"
    config.write_text(f"model: {{kind: als}}\ndata: {{train: {{kind: ratings, path: {pipe}}}}}\n")
    for command in (
        ["convert", pipe, tmp_path / "dst"],
        ["inspect", pipe],
        ["init", "glm", pipe, "--out", "-"],
        ["train", "--config", config, "--out", tmp_path / "run"],
    ):
        assert learn(*command) == ExitCode.DATA
        assert f"{pipe}: a pipe or a device" in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"a.csv", "c.yaml"}


def test_folders_that_must_not_be_touched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, dst = tmp_path / "a.svm", tmp_path / "dst"
    big(path, 10)
    assert learn("convert", path, dst, "-q") == 0
    before = (dst / "manifest.json").read_bytes()
    assert learn("convert", path, dst) == ExitCode.USAGE
    assert "a dataset exists already. --overwrite replaces it" in capsys.readouterr().err
    path.write_text("1 1:x\n")
    assert learn("convert", path, dst, "--overwrite") == ExitCode.DATA  # found before it is deleted
    assert (dst / "manifest.json").read_bytes() == before and BlockSource([dst]).blocks == 1
    big(path, 20)
    assert learn("convert", path, dst, "--overwrite", "-q") == 0
    assert BlockSource([dst]).shape.total_rows == 20
    other = tmp_path / "home"
    other.mkdir()
    (other / "thesis.tex").write_text("precious")
    assert learn("convert", path, other) == ExitCode.USAGE
    assert learn("convert", path, other / "thesis.tex") == ExitCode.USAGE
    assert [file.name for file in other.iterdir()] == ["thesis.tex"]


def test_the_old_dataset_stays_until_the_new_one_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, dst = tmp_path / "a.svm", tmp_path / "dst"
    big(path, 10)
    assert learn("convert", path, dst, "-q") == 0
    big(path, bad="1 1:x\n")
    assert learn("convert", path, dst, "--overwrite", "-q") == ExitCode.DATA
    assert BlockSource([dst]).shape.total_rows == 10
    assert {file.name for file in dst.iterdir()} == {"manifest.json", "rows-0-of-1.arrow"}
    big(path, 20)
    with monkeypatch.context() as patch:
        patch.setattr(ConversionDisplay, "finishing", lambda self: os.kill(os.getpid(), 2))
        assert learn("convert", path, dst, "--overwrite") == ExitCode.INTERRUPTED
    assert BlockSource([dst]).shape.total_rows == 10
    assert learn("convert", path, dst, "-q") == ExitCode.USAGE  # --resume continues it
    assert learn("convert", path, dst, "--resume", "-q") == 0
    assert BlockSource([dst]).shape.total_rows == 20
    assert {file.name for file in dst.iterdir()} == {"manifest.json", "rows-0-of-1.arrow"}


@pytest.mark.parametrize(
    "arguments, code",
    [
        (["nothing.csv", "dst"], ExitCode.NO_INPUT),
        (["a.svm", "dst", "--min-df", "3"], ExitCode.USAGE),
        (["a.svm", "dst", "--format", "excel"], ExitCode.USAGE),
        (["a.svm", "dst", "--resume", "--overwrite"], ExitCode.USAGE),
        (["a.svm", "dst", "--block-rows", "0"], ExitCode.USAGE),
        (["a.svm"], ExitCode.USAGE),
        (["a.svm", "dst", "--stripes"], ExitCode.USAGE),
        (["a.svm", "dst", "--format", "csv"], ExitCode.DATA),
        (["a.svm", "dst", "--stripes", "dst"], ExitCode.DATA),
        (["nosuch://bucket/a.csv", "dst", "--format", "csv"], ExitCode.DATA),
    ],
)
def test_exit_codes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: ExitCode
) -> None:
    monkeypatch.chdir(tmp_path)
    big(tmp_path / "a.svm", 10)
    assert learn("convert", *arguments) == code
    assert not (tmp_path / "dst").exists()


class StopAfter(Watch):
    """Interrupts a conversion after some rows."""

    def __init__(self, rows: int) -> None:
        self.left = rows

    def rows(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise KeyboardInterrupt


def write_texts(path: Path, texts: list[str]) -> None:
    """As column `body` of a table of the kind that the name says."""
    if path.suffix == ".parquet":
        parquet.write_table(pa.table({"body": texts}), path, row_group_size=700)
    else:
        quoted = "".join(f'"{text}"\n' for text in ["body", *texts])
        path.write_bytes(packed(quoted.encode(), path.name))


@pytest.mark.parametrize(
    "name",
    [
        "a.svm",
        "a.svm.gz",
        "a.csv",
        "a.mtx",
        "a.npz",
        "a.txt",
        "a.vw",
        "texts.csv.gz",
        "texts.parquet",
    ],
)
def test_an_interrupted_conversion_goes_on(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blocklearn.datasources.blocks.unfinished.COMMIT_BYTES", 5_000)
    monkeypatch.setattr("blocklearn.datasources.parsing.sections.CHUNK_ROWS", 100)
    rng = np.random.default_rng(0)
    X = sparse.random_array((3000, 50), density=0.05, rng=rng, format="csr")
    pairs = [f"{j + 1}:{x:.7g}" for j, x in zip(X.indices, X.data, strict=True)]
    text = {
        ".svm": lambda i: " ".join([str(i % 3), *pairs[X.indptr[i] : X.indptr[i + 1]]]),
        ".csv": lambda i: f"{i},{i / 7:.9g},{i % 4}",
        ".txt": lambda i: "alpha " * (i % 3) + "beta " + "gamma " * (i % 2),
        ".vw": lambda i: f"{i % 2} |f a:{i} b c{i % 30}",
    }
    path, options = tmp_path / name, {}
    if name.startswith("texts"):
        options = {"text": "body"}
        texts = [f"{text['.txt'](i)}\n'quoted'" for i in range(3000)]
        write_texts(path, texts)
    elif name == "a.npz":
        sparse.save_npz(path, X)
    elif name == "a.mtx":
        __import__("scipy.io").io.mmwrite(path, X.tocoo())
    else:
        line = text[Path(name.removesuffix(".gz")).suffix]
        path.write_bytes(packed("".join(line(i) + "\n" for i in range(3000)).encode(), name))
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    convert(Conversion([str(path)], [whole], block_rows=64, options=options), Watch())
    job = Conversion([str(path)], [parts], block_rows=64, memory=1 << 16, options=options)
    stops, resume = 0, False
    while True:
        try:
            convert(job, StopAfter(800), resume=resume)
            break
        except KeyboardInterrupt:
            stops, resume = stops + 1, True
            assert not (parts / "manifest.json").exists() and stops < 20
            with pytest.raises((DataError, FileNotFoundError)):
                BlockSource([parts])
    assert stops > 1
    with BlockSource([whole]) as a, BlockSource([parts]) as b:
        assert a.fingerprint == b.fingerprint
        assert rows_of(a)["row_names"] == rows_of(b)["row_names"]


def test_without_resume_it_begins_again(tmp_path: Path) -> None:
    path, dst = tmp_path / "a.svm", tmp_path / "dst"
    big(path)
    job = Conversion([str(path)], [dst], block_rows=100)
    with pytest.raises(KeyboardInterrupt):
        convert(job, StopAfter(0))
    note = (dst / READING / "source.json").read_text()
    with pytest.raises(
        RunFolderError, match="begun with other settings, or the source has changed"
    ):
        convert(Conversion([str(path)], [dst], block_rows=101), Watch(), resume=True)
    os.utime(path, ns=(1, 1))
    with pytest.raises(RunFolderError, match="Without --resume the conversion begins again"):
        convert(job, Watch(), resume=True)
    assert (dst / READING / "source.json").read_text() == note
    assert convert(job, Watch()).rows == 30_000
    assert json.loads(note)["block_rows"] == 100


def test_a_source_that_changes_and_a_place_inside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, dst = tmp_path / "a.svm", tmp_path / "dst"
    big(path)

    class Editor(Watch):
        def rows(self, count: int) -> None:
            os.utime(path, ns=(1, 1))

    with pytest.raises(DataError, match="a.svm: changed while it was read"):
        convert(Conversion([str(path)], [dst]), Editor())
    assert not dst.exists()
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("alpha beta")
    assert learn("convert", tmp_path / "texts", tmp_path / "texts" / "dst") == ExitCode.USAGE
    assert "lies in" in capsys.readouterr().err and not (tmp_path / "texts" / "dst").exists()


def test_two_at_once(tmp_path: Path) -> None:
    path, dst = tmp_path / "a.svm", tmp_path / "dst"
    big(path)

    class Second(Watch):
        def finishing(self) -> None:
            with pytest.raises(RunFolderError, match="another process is writing there"):
                convert(Conversion([str(path)], [dst]), Watch(), resume=True)

    assert convert(Conversion([str(path)], [dst]), Second()).rows == 30_000


KILLED = """
import os, sys
from blocklearn.learner.conversion import convert, display
from pathlib import Path
class Told(display.Watch):
    done = 0
    def rows(self, count):
        self.done += count
        print(self.done, flush=True)
        if self.done > int(sys.argv[3]):
            os.kill(os.getpid(), 9)
from blocklearn.datasources.blocks import unfinished
unfinished.COMMIT_BYTES = 50_000
job = convert.Conversion([sys.argv[1]], [Path(sys.argv[2])], block_rows=64, memory=1 << 21)
convert.convert(job, Told(), resume=True)
"""


@pytest.mark.slow
def test_a_killed_conversion_goes_on(tmp_path: Path) -> None:
    path, dst = tmp_path / "a.svm", tmp_path / "dst"
    big(path, 150_000)
    codes = []
    for rows in (1, 70_000, 10**9):
        command = [sys.executable, "-c", KILLED, str(path), str(dst), str(rows)]
        codes.append(subprocess.run(command, capture_output=True, check=False).returncode)
        if codes[-1]:
            assert not (dst / "manifest.json").exists()
    assert codes == [-signal.SIGKILL, -signal.SIGKILL, 0]
    convert(Conversion([str(path)], [tmp_path / "whole"], block_rows=64), Watch())
    with BlockSource([dst]) as found, BlockSource([tmp_path / "whole"]) as whole:
        assert found.fingerprint == whole.fingerprint


def test_ctrl_c_says_how_to_go_on(tmp_path: Path) -> None:
    path, dst = tmp_path / "a.txt", tmp_path / "dst"
    path.write_text("alpha beta gamma delta\n" * 100_000)
    slow = """\
import time
from blocklearn.learner.conversion.display import Watch
Watch.rows = lambda *given: (ready(), time.sleep(600))"""
    with started("convert", str(path), str(dst), "-q", code=slow) as process:
        wait_until_ready(process)
        assert (dst / READING / "source.json").exists()
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    assert process.returncode == ExitCode.INTERRUPTED
    assert err == f"learn: {dst}: stopped; --resume resumes the conversion\n"
    assert learn("convert", path, dst, "--resume", "-q") == 0
    assert BlockSource([dst]).shape.total_rows == 100_000


@pytest.mark.slow
def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    """Peak memory of a process that converts a file 8 times as long is about the same."""
    code = (
        "import sys, resource\nfrom pathlib import Path\n"
        "from blocklearn.learner.conversion.convert import Conversion, convert\n"
        "from blocklearn.learner.conversion.display import Watch\n"
        "job = Conversion([sys.argv[1]], [Path(sys.argv[2])], block_rows=1024)\n"
        "convert(job, Watch())\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    peaks = []
    for rows in (150_000, 1_200_000):
        path = tmp_path / f"{rows}.svm"
        line = b"1 1:0.5 20:3 33:1 47:8 90:2\n"
        path.write_bytes(line * rows)
        command = [sys.executable, "-c", code, str(path), str(tmp_path / f"d{rows}")]
        peaks.append(int(subprocess.run(command, capture_output=True, check=True).stdout))
    assert peaks[1] < 1.15 * peaks[0]


def test_progress_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.svm"
    big(path)
    with ConversionDisplay(sys.stderr, every=0.0) as watch:
        convert(Conversion([str(path)], [tmp_path / "dst"]), watch)
    lines = capsys.readouterr().err.splitlines()
    assert f"of {size(2 * path.stat().st_size)}, 30,000 rows" in lines[-1]
    assert lines[-1].endswith("; names and other orientation")


def test_files_that_do_not_tell_show_rows_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    parquet.write_table(
        pa.table({"x": np.arange(3000), "y": np.ones(3000)}), tmp_path / "a.parquet"
    )
    with ConversionDisplay(sys.stderr, every=0.0) as watch:
        convert(Conversion([str(tmp_path / "a.parquet")], [tmp_path / "dst"]), watch)
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.endswith("s] 3,000 rows; names and other orientation")
    assert learn("inspect", tmp_path / "a.parquet", "-q") == 0
    assert "numbers from 0 to 2,999," in capsys.readouterr().out
