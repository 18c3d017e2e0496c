"""Worker 0 reads rows into memory and hands them to the others, which read no file of data."""

from __future__ import annotations

import errno
import logging
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from blocklearn.learner.configuration.config import RunConfig
from blocklearn.learner.configuration.kinds import own_classes
from blocklearn.learner.configuration.yaml_config import Setting, resolve
from blocklearn.learner.engines import shared_folder
from blocklearn.learner.engines.crew import Crew
from blocklearn.learner.errors import RunFolderError, RunInterrupted, WorkerError
from blocklearn.learner.exit_codes import ExitCode, exit_code, message
from blocklearn.learner.files.row_folder import RowFolder
from blocklearn.learner.learner import Learner
from blocklearn.learner.runs import handing
from blocklearn.learner.runs.assisting import assist
from blocklearn.learner.runs.dry_run import dry_run_lines
from blocklearn.learner.runs.run_folder import HANDED
from blocklearn.learner.runs.signals import Requests
from blocklearn.learner.runs.training import RunOptions, train
from tests.support.thread_workers import thread_exchanges
from tests.support.workers import PATIENCE

KMEANS = "model={kind: kmeans, clusters: 2}"
GLM = "model={kind: glm, link: logistic}"
ALS = "model={kind: als, rank: 2}"
TEXT = "data.train={kind: file, path: rows.txt}"
TABLE = (
    "data.train={kind: table, path: rows.csv, numeric: [x, y], standardize: true, "
    "targets: [a], weights: w, ids: id}"
)
HASHED = (
    "data.train={kind: table, path: rows.csv, categorical: [id], hash_bits: 4, "
    "targets: [c], classes: true}"
)
RATINGS = "data.train={kind: ratings, path: ratings.csv}"
CASES = {
    "text": [KMEANS, TEXT],
    "text, shuffled in blocks": [KMEANS, TEXT, "data.shuffle=blocks"],
    "text, rows held out": [KMEANS, TEXT, "data.eval={kind: holdout, share: 0.2}"],
    "text, contents held out": [
        KMEANS,
        TEXT,
        "data.eval={kind: holdout, share: 0.4, by: contents}",
    ],
    "table": [GLM, TABLE],
    "table, and another": [GLM, TABLE, TABLE.replace("train", "eval")],
    "hashed table": [GLM, HASHED],
    "libsvm": [GLM, "data.train={kind: libsvm, path: rows.svm}"],
    "libffm": ["model={kind: fm, factors: 2}", "data.train={kind: libffm, path: rows.ffm}"],
    "ratings": [ALS, RATINGS, "data.eval={kind: holdout, share: 0.2, by: entries}"],
    "links": ["model={kind: pagerank}", "data.train={kind: links, path: links.csv}"],
    "own": [GLM, "data.train={kind: 'rows.py:Stairs', rows: 12}"],
}  # fmt: skip
STAIRS = """\
import numpy as np
from blocklearn.datasources import MemoryKind, Samples

class Stairs(MemoryKind):
    rows: int = 8

    def load(self, like=None):
        steps = np.tri(self.rows, dtype=np.float32)
        return Samples(steps, targets=(steps.sum(1) > self.rows / 2)[:, None])
"""


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work where the data are."""
    monkeypatch.chdir(tmp_path)
    Path("run.yaml").write_text("learner: {threads: 1, report: false}\ndata: {block_rows: 4}\n")
    draw = np.random.default_rng(0)
    words = draw.choice(["amber", "birch", "cedar", "dahlia"], (24, 5))
    Path("rows.txt").write_text("".join(" ".join(row) + "\n" for row in words))
    cells = [f"r{i},{i % 5},{i % 3 - 1},{i % 2},{1 + i % 4},{'pqr'[i % 3]}" for i in range(24)]
    Path("rows.csv").write_text("id,x,y,a,w,c\n" + "\n".join(cells) + "\n")
    Path("rows.svm").write_text("".join(f"{i % 2} {1 + i % 5}:1 7:{i}\n" for i in range(24)))
    Path("rows.ffm").write_text("".join(f"{i % 2} 0:{i % 5}:1 1:7:1\n" for i in range(24)))
    pairs = [(i, j) for i in range(16) for j in range(12) if (i * 5 + j * 7) % 3]
    Path("ratings.csv").write_text(
        "user,item,rating\n" + "".join(f"u{i},i{j},{1 + (i + j) % 5}\n" for i, j in pairs)
    )
    Path("links.csv").write_text("source,target\n" + "".join(f"{i},{j}\n" for i, j in pairs))
    Path("rows.py").write_text(STAIRS)


def config_of(*settings: str) -> RunConfig:
    given = [Setting.parse(each) for each in ("out=run", *settings)]
    return resolve(RunConfig, [Path("run.yaml")], {}, given, extend=own_classes)


def elsewhere(*settings: str) -> list[str]:
    """The same settings, but for files that do not exist."""
    return [each.replace("path: ", "path: gone/") for each in settings]


def together(
    first: list[str], second: list[str], **options: Any
) -> tuple[Learner | BaseException | None, BaseException | None]:
    """Train with two workers, each with settings of its own; return what comes of each."""
    one, two = (Crew(own) for own in thread_exchanges(2, PATIENCE))

    def along() -> None:
        with two.guard(exit_code):
            assist(config_of(*second), Requests(), two)

    with ThreadPoolExecutor(1) as threads:
        ended = threads.submit(along)
        try:
            trained = train(config_of(*first), RunOptions(quiet=True, **options), one)
        except Exception as error:
            return error, ended.exception()
        return trained, ended.exception()


def learnt(out: str) -> bytes:
    return Path(out, "weights.safetensors").read_bytes()


def left(folder: Path | str = ".") -> list[str]:
    """The names of files and folders, but for those that every test has."""
    return sorted(
        each.name for each in Path(folder).iterdir() if each.suffix in ("", ".safetensors")
    )


def lies_in_a_file(array: Any) -> bool:
    """Whether an array is memory of a file."""
    while isinstance(array, np.ndarray):
        array = array.base
    return type(array).__name__ == "mmap"


@pytest.mark.parametrize("name", CASES)
def test_two_workers_learn_what_two_replicas_do(name: str) -> None:
    """The second worker could not read the data: its files do not exist."""
    settings = CASES[name]
    train(config_of(*settings, "out=one", "learner.replicas=2"), RunOptions(quiet=True))
    trained, other = together(settings, elsewhere(*settings))
    assert isinstance(trained, Learner) and other is None
    assert learnt("run") == learnt("one")
    assert HANDED not in left("run")
    source: Any = trained.data.given[0]  # worker 0 reads the file, too, and has no other copy
    assert all(map(lies_in_a_file, source.verified.arrays.values()))


def test_held_out_rows_have_the_scores_of_one_process() -> None:
    for settings in (CASES["ratings"], CASES["table, and another"]):
        found = []
        for out in ("one", "run"):
            given = [*settings, f"out={out}"]
            if out == "one":
                trained: Any = train(
                    config_of(*given, "learner.replicas=2"), RunOptions(quiet=True, overwrite=True)
                )
            else:
                trained, _ = together(given, elsewhere(*given), overwrite=True)
            found.append(trained.progress.scores)
        assert found[0] == found[1] != {}


def test_a_stream_beside_is_read_by_each() -> None:
    """Only what is read into memory is handed over."""
    stream = TABLE.replace("train", "eval").replace(", ids: id", ", stream: true")
    train(config_of(GLM, TABLE, stream, "out=one", "learner.replicas=2"), RunOptions(quiet=True))
    trained: Any
    trained, other = together([GLM, TABLE, stream], [GLM, *elsewhere(TABLE), stream])
    assert other is None and learnt("run") == learnt("one")
    assert type(trained.data.given[1]).__name__ == "IterableSource"
    assert "No such file" in str(together([GLM, TABLE, stream], elsewhere(GLM, TABLE, stream),
                                          overwrite=True)[1])  # fmt: skip


def test_workers_with_other_kinds_of_data_are_refused() -> None:
    first, second = together([KMEANS, TEXT], [KMEANS, CASES["libsvm"][1]])
    assert isinstance(first, Exception) and exit_code(first) == ExitCode.CONFIG
    assert "on worker 1, but" in str(first) and "on worker 1, but" in str(second)
    assert "run" not in left()


def test_where_not_all_see_the_run_each_reads(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It says so, and what to do."""
    exists, own = shared_folder.os.path.exists, threading.get_ident()
    monkeypatch.setattr(
        shared_folder.os.path,
        "exists",
        lambda path: ("seen-" not in str(path) or threading.get_ident() == own) and exists(path),
    )
    train(config_of(KMEANS, TEXT, "out=one", "learner.replicas=2"), RunOptions(quiet=True))
    with caplog.at_level(logging.WARNING):
        assert together([KMEANS, TEXT], [KMEANS, TEXT])[1] is None
    assert learnt("run") == learnt("one")
    (said,) = [text for text in caplog.messages if "each of 2 workers reads all" in text]
    assert "not all see the run folder" in said and "learn convert rows.txt DIR" in said
    second = together([KMEANS, TEXT], elsewhere(KMEANS, TEXT), overwrite=True)[1]
    assert isinstance(second, FileNotFoundError)


def test_workers_hear_of_a_folder_that_cannot_be_and_of_a_lost_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At once, and nothing is left of the file that all should see."""
    first, second = together([KMEANS, TEXT, f"out={'x' * 300}"], [KMEANS, TEXT])
    assert "File name too long" in str(first) and "File name too long" in str(second)
    exists = shared_folder.os.path.exists

    def failing(path: Any) -> bool:
        if "seen-" in str(path) and threading.current_thread() is not threading.main_thread():
            raise OSError(errno.EIO, "Input/output error")
        return exists(path)

    monkeypatch.setattr(shared_folder.os.path, "exists", failing)
    first, second = together([KMEANS, TEXT], [KMEANS, TEXT])
    assert isinstance(first, WorkerError) and isinstance(second, OSError)
    assert "run" not in left()


def test_what_a_killed_run_left_is_removed() -> None:
    """By the next run in the folder, of several workers or of one, also where it had no mark."""
    for workers in (1, 2):
        Path("run").mkdir()
        Path("run", HANDED).mkdir()
        Path("run", HANDED, ".blocklearn-rows").write_text(f"process 1\n{handing.FILE}\n")
        Path("run", HANDED, handing.FILE).write_bytes(b"half")
        if workers == 1:
            train(config_of(KMEANS, TEXT), RunOptions(quiet=True))
            Path("run").rename("one")
        else:
            assert together([KMEANS, TEXT], [KMEANS, TEXT])[1] is None
        assert HANDED not in left("one" if workers == 1 else "run")


def test_files_of_others_stay_and_one_run_at_a_time_has_the_folder() -> None:
    Path("run", HANDED).mkdir(parents=True)
    Path("run", HANDED, "notes").touch()
    Path("run", "run.json").touch()
    assert together([KMEANS, TEXT], [KMEANS, TEXT], overwrite=True)[1] is None
    assert left(Path("run", HANDED)) == ["notes"]
    with RowFolder(Path("run"), HANDED):
        first, second = together([KMEANS, TEXT], [KMEANS, TEXT], overwrite=True)
    assert isinstance(first, RunFolderError) and "Choose another folder for the run (--out)" in str(
        first
    )
    assert isinstance(second, WorkerError)


@pytest.mark.parametrize("late", [False, True], ids=["before", "while it is written"])
def test_a_full_disk_is_told(late: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is left, and the others end, too."""

    def full(path: Path, arrays: Any) -> Any:
        path.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    if late:
        monkeypatch.setattr(handing, "write_tensors", full)
    else:
        monkeypatch.setattr(handing, "free_bytes", lambda folder: 1000)
    first, second = together([KMEANS, TEXT], elsewhere(KMEANS, TEXT))
    assert isinstance(first, OSError) and exit_code(first) == ExitCode.IO
    said = message(first)
    assert f"run/{HANDED}/rows.safetensors: No space left on device" in said
    assert "Choose another folder for the run (--out), or convert the data" in said
    assert late or "bytes are needed, 1,000 bytes are free" in said
    assert isinstance(second, WorkerError) and "No space left" in str(second)
    assert "run" not in left()


def test_a_run_that_is_stopped_while_it_writes_rows_leaves_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next run in the folder would not know the file, and refuse it."""
    requests = Requests()

    def stopped(path: Path, arrays: Any) -> Any:
        path.write_bytes(b"half")
        requests._handle(signal.SIGTERM, None)

    monkeypatch.setattr(handing, "write_tensors", stopped)
    first, second = together([KMEANS, TEXT], elsewhere(KMEANS, TEXT))
    assert isinstance(first, RunInterrupted) and isinstance(second, WorkerError)
    assert "run" not in left()


def test_a_file_that_is_not_whole_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on another machine that does not see all of it yet."""
    written = handing.write_tensors

    def short(path: Path, arrays: Any) -> Any:
        entries = written(path, arrays)
        path.write_bytes(path.read_bytes()[:-8])
        return entries

    monkeypatch.setattr(handing, "write_tensors", short)
    first, second = together([KMEANS, TEXT], [KMEANS, TEXT])
    assert "is not what was written" in str(first) and "is not what was written" in str(second)
    assert "run" not in left()


def test_a_dry_run_says_what_is_handed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """The file has X.T of the ratings to train on, and none of those held out."""
    written, files = handing.write_tensors, list[dict[str, Any]]()

    def lines(*settings: str) -> str:
        config = config_of(*settings)
        return "\n".join(dry_run_lines(config, overwrite=False, resume=False, workers=2))

    said = lines(*CASES["ratings"])
    monkeypatch.setattr(
        handing,
        "write_tensors",
        lambda path, arrays: files.append(arrays) or written(path, arrays),
    )
    assert together(CASES["ratings"], CASES["ratings"])[1] is None
    nbytes = sum(a.nbytes for name, a in files[0].items() if not name.startswith("names "))
    assert f"data.train: worker 0 reads all rows, and hands them to the others in a file of run: "\
           f"{nbytes / 1000:.1f} kB and names" in said  # fmt: skip
    stream = TABLE.replace(", ids: id", ", stream: true")
    assert "hands them" not in lines(GLM, stream, "out=other")
