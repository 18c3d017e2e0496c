"""The folder for files of row state: one holder, nothing foreign touched, nothing left behind."""

from __future__ import annotations

import errno
import gc
import os
import signal
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.learner.command_line.cli import main
from blocklearn.learner.engines.crew import Crew
from blocklearn.learner.errors import RunFolderError
from blocklearn.learner.exit_codes import ExitCode
from blocklearn.learner.files import lock
from blocklearn.learner.files import row_folder as module
from blocklearn.learner.files.lock import Lock
from blocklearn.learner.files.row_folder import LOCK, RowFolder
from blocklearn.learner.files.state_pages import StatePages
from blocklearn.learner.runs.state_files import left_of
from tests.support.learn_command import started, wait_until_ready
from tests.support.often import first_often, rarely
from tests.support.small_disk import run_on_small_disk
from tests.support.thread_workers import thread_exchanges

CONFIG = """\
model: {kind: nmf, components: 3}
data: {train: {kind: file, path: counts.npz}, block_rows: 50}
learner: {passes: 3, threads: 1, row_folder: rows}
"""


def counts(rows: int = 200) -> Any:
    return sp.csr_array(np.random.default_rng(0).poisson(0.5, (rows, 20)).astype(np.float32))


def nmf(folder: Any, rows: int = 200, **settings: Any) -> bl.Learner:
    return bl.Learner(
        bl.models.NMF(components=3), counts(rows), block_rows=50, threads=1, row_folder=folder,
        **settings,
    )  # fmt: skip


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


# ---- one holder ----------------------------------------------------------------------------------


def test_a_second_learner_is_refused_and_the_first_one_learns_what_it_would(tmp_path: Path) -> None:
    first = nmf(tmp_path, passes=1).fit()
    learned = first.row_state("W").copy()
    with pytest.raises(
        RunFolderError, match=rf"learner: must be held by one .* process {os.getpid()} on .* holds"
    ):
        nmf(tmp_path, rows=60).fit()
    assert files(tmp_path) == ["learner/" + LOCK, "learner/W.float32"]
    assert first.row_state("W").tobytes() == learned.tobytes()
    first.close()
    nmf(tmp_path, rows=60).fit()


@pytest.mark.slow
def test_a_learner_that_was_refused_can_be_used_when_the_folder_is_free(tmp_path: Path) -> None:
    holder = RowFolder(tmp_path)
    holder.take()
    learner = nmf(tmp_path)
    with pytest.raises(RunFolderError):
        learner.fit()
    holder.release()
    assert learner.fit().row_state("W").tobytes() == nmf(None).fit().row_state("W").tobytes()


def test_names_keep_runs_apart(tmp_path: Path) -> None:
    with RowFolder(tmp_path, "a") as a, RowFolder(tmp_path, "b") as b:
        a.new("W", 3, 2)[:] = 1.0
        b.new("W", 9, 2)[:] = 2.0
        assert np.fromfile(tmp_path / "a" / "W.float32", np.float32).tolist() == [1.0] * 6
        assert np.fromfile(tmp_path / "b" / "W.float32", np.float32).tolist() == [2.0] * 18
    assert list(tmp_path.iterdir()) == []


def test_a_lock_that_is_removed_while_it_is_waited_for_is_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its holder ends between the moments when another process opens and locks the file."""
    import fcntl

    holder = RowFolder(tmp_path)
    holder.take()
    flock = fcntl.flock

    def late(file: Any, how: int) -> None:
        holder.release()
        flock(file, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with RowFolder(tmp_path) as taken:
        monkeypatch.undo()
        assert (taken.path / LOCK).exists()
        with pytest.raises(RunFolderError):
            RowFolder(tmp_path).take()


def test_who_released_a_folder_that_is_another_ones_leaves_that_alone(tmp_path: Path) -> None:
    first, second = RowFolder(tmp_path), RowFolder(tmp_path)
    first.take()
    array = first.new("W", 4, 1)
    for name in files(tmp_path):  # as a user who cleans up too eagerly
        (tmp_path / name).unlink()
    second.take()
    second.new("W", 4, 1)
    first.release()
    array[:] = 1.0  # and the state lives on
    assert files(tmp_path) == ["learner/" + LOCK, "learner/W.float32"]


# ---- what is not ours ----------------------------------------------------------------------------


def test_foreign_files_are_never_touched(tmp_path: Path) -> None:
    mine = [tmp_path / "W.float32", tmp_path / "learner" / "notes.txt"]
    for path in mine:
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    nmf(tmp_path).fit().close()
    assert [path.read_text() for path in mine] == ["mine", "mine"]
    assert files(tmp_path) == ["W.float32", "learner/notes.txt"]


def test_a_foreign_file_of_the_same_name_is_refused(tmp_path: Path) -> None:
    mine = tmp_path / "learner" / "W.float32"
    mine.parent.mkdir()
    mine.write_text("mine")
    for use in (lambda: nmf(tmp_path).fit(), lambda: RowFolder(tmp_path).check({"W.float32": 1})):
        with pytest.raises(RunFolderError, match=r"learner/W.float32: must not exist"):
            use()
    assert mine.read_text() == "mine" and files(tmp_path) == ["learner/W.float32"]


@pytest.mark.parametrize("name", ["../precious.float32", "notes.txt", "", "..", "W.float32/x"])
def test_a_lock_that_was_tampered_with_removes_nothing_else(tmp_path: Path, name: str) -> None:
    precious = [tmp_path / "precious.float32", tmp_path / "learner" / "notes.txt"]
    (tmp_path / "learner").mkdir()
    for path in precious:
        path.write_text("mine")
    (tmp_path / "learner" / LOCK).write_text(f"process 1 on host\n{name}\n")
    nmf(tmp_path).fit().close()
    assert [path.read_text() for path in precious] == ["mine", "mine"]


# ---- nothing is left behind ----------------------------------------------------------------------


def test_what_a_killed_learner_left_goes_with_the_next(tmp_path: Path) -> None:
    """Its file is another one's: one that still maps it does not see it change."""
    folder = tmp_path / "learner"
    folder.mkdir()
    (folder / LOCK).write_text("process 1 on host\nW.float32\nother.float32\n")
    for name in ("W.float32", "other.float32"):
        (folder / name).write_bytes(bytes(2400))
    mapped = np.memmap(folder / "W.float32", np.float32, "r")
    learner = nmf(tmp_path).fit()
    assert files(tmp_path) == ["learner/" + LOCK, "learner/W.float32"]
    assert not mapped.any() and learner.row_state("W").any()


def test_a_forgotten_learner_leaves_nothing(tmp_path: Path) -> None:
    learner = nmf(tmp_path).fit()
    array = learner.row_state("W")
    before = array.copy()
    del learner
    gc.collect()
    assert list(tmp_path.iterdir()) == []
    assert array.tobytes() == before.tobytes()


PROCESS = """
import os, sys
import numpy as np
import blocklearn as bl

X = np.ones((20, 4), np.float32)
learner = bl.Learner(bl.models.NMF(components=2), X, block_rows=5, threads=1, row_folder="rows")
learner.fit()
"""


@pytest.mark.parametrize("end", ["raise ValueError", *rarely("", "sys.exit('no')")])
def test_a_process_that_ends_leaves_nothing(tmp_path: Path, end: str) -> None:
    subprocess.run([sys.executable, "-c", PROCESS + end], cwd=tmp_path, capture_output=True)
    assert list((tmp_path / "rows").iterdir()) == []


@pytest.mark.slow
def test_a_copy_of_the_process_that_ends_removes_nothing(tmp_path: Path) -> None:
    end = """
if os.fork() == 0:
    sys.exit()
os.wait()
print(sorted(os.listdir("rows/learner")))
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROCESS + end],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout == f"['{LOCK}', 'W.float32']\n", done.stderr


# ---- after close ---------------------------------------------------------------------------------


ALS = {
    "cg": {},
    "cholesky": {"solver": "cholesky"},
    "implicit": {"loss": "implicit"},
    "implicit, cholesky": {"loss": "implicit", "solver": "cholesky"},
}


@pytest.mark.parametrize("name", first_often(ALS, 2))
def test_items_are_solved_from_users_that_are_read_in_order(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Users that occur are copied from the file first; the bits are those of memory."""
    told: list[bool] = []
    monkeypatch.setattr(StatePages, "expect", lambda self, *, in_order: told.append(in_order))
    rng = np.random.default_rng(0)
    R = sp.random_array((900, 700), density=0.004, rng=rng, dtype=np.float32, format="csr")
    R.data = rng.integers(1, 6, R.nnz).astype(np.float32)
    R.data[R.indptr[5] : R.indptr[6]] = 0
    R.eliminate_zeros()

    def als(folder: Path | None, **settings: Any) -> bl.Learner:
        model = bl.models.ALS(rank=6, **ALS[name])
        given: dict[str, Any] = {"block_rows": 64, "passes": 3, "threads": 2, **settings}
        return bl.Learner(model, R, R, row_folder=folder, **given)

    memory, found = als(None).fit(), als(tmp_path / "a").fit()
    copied = [row for row in found.plan().rows if row.name.startswith("users of the block,")]
    assert len(copied) == 1 and copied[0].nbytes < found.plan().total / 2
    assert not [row for row in memory.plan().rows if row.name.startswith("users of the block,")]
    assert sorted(set(told)) == [False, True] and told.count(True) == 3  # users, once in each pass
    for side in ("users", "items"):
        assert found.row_state(side).tobytes() == memory.row_state(side).tobytes()
    assert found.progress.scores == memory.progress.scores
    found.close()
    saved: dict[str, Any] = {"checkpoint": tmp_path / "saved", "every_blocks": 5}
    als(tmp_path / "b", passes=2, **saved).fit().close()
    again = als(tmp_path / "c", **saved).fit()
    assert again.row_state("items").tobytes() == memory.row_state("items").tobytes()
    again.close()


@pytest.mark.parametrize("in_files", [True, False])
def test_closing_copies_no_row(tmp_path: Path, in_files: bool) -> None:
    learner = nmf(tmp_path if in_files else None, rows=100_000).fit()
    array = learner.row_state("W")
    tracemalloc.start()
    try:
        learner.close()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < array.nbytes / 4
    assert np.shares_memory(learner.row_state("W"), array)


def test_a_closed_learner_has_everything_that_it_had(tmp_path: Path) -> None:
    X = counts()
    learner = nmf(tmp_path / "rows", passes=2).fit()
    expected = learner.row_state("W").copy(), learner.parameter("H"), learner.predict(X)
    bl.save(learner, tmp_path / "open")
    learner.close()
    assert list((tmp_path / "rows").iterdir()) == []
    bl.save(learner, tmp_path / "closed")
    saved = [(tmp_path / name / "weights.safetensors").read_bytes() for name in ("open", "closed")]
    assert saved[0] == saved[1]
    rows = learner.row_state("W")
    with pytest.raises(ValueError, match="read-only"):
        rows[0] = 0.0
    learner.predict(X)
    found = learner.row_state("W"), learner.parameter("H"), learner.predict(X)
    assert [a.tobytes() for a in found] == [a.tobytes() for a in expected]
    assert rows.tobytes() == expected[0].tobytes()
    learner.close()
    learner.close()
    assert list((tmp_path / "rows").iterdir()) == []


def test_training_resumes_after_close_with_the_same_bits(tmp_path: Path) -> None:
    whole = nmf(None, passes=4).fit()
    learner = nmf(tmp_path, passes=2).fit()
    learner.close()
    learner.passes = 4
    assert learner.fit().row_state("W").tobytes() == whole.row_state("W").tobytes()
    assert files(tmp_path) == ["learner/" + LOCK, "learner/W.float32"]


# ---- room on the disk ----------------------------------------------------------------------------


def test_a_learner_without_room_is_refused_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    learner = nmf(tmp_path)
    with pytest.raises(OSError, match="2,400 bytes are needed") as caught:
        learner.fit()
    assert caught.value.filename == str(tmp_path / "learner" / "W.float32")
    assert list(tmp_path.iterdir()) == []
    monkeypatch.undo()
    learner.fit()  # once there is room


def test_what_a_killed_run_left_counts_as_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "free_bytes", lambda _: 1000)
    folder = RowFolder(tmp_path)
    with pytest.raises(OSError, match="4,000 bytes are needed, 1,000 bytes are free"):
        folder.check({"W.float32": 3000, "V.float32": 1000})
    folder.path.mkdir()
    (folder.path / LOCK).write_text("process 1 on host\nW.float32\n")
    (folder.path / "W.float32").write_bytes(bytes(3000))
    folder.check({"W.float32": 3000, "V.float32": 1000})
    assert files(tmp_path) == ["learner/" + LOCK, "learner/W.float32"]


@pytest.mark.parametrize("fails", [(lock, "_opened_or_made"), (lock.Lock, "write")])
def test_a_full_disk_leaves_no_empty_folder(
    fails: tuple[Any, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*given: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(*fails, full)
    with pytest.raises(OSError, match="No space left"):
        RowFolder(tmp_path, "rows").take()
    assert not list(tmp_path.iterdir())


def test_a_disk_that_fills_while_it_is_trained_on(tmp_path: Path) -> None:
    code = """
import sys
from pathlib import Path
import numpy as np
import blocklearn as bl

class Fill(bl.Hook):
    def start(self, learner, progress):
        try:
            (folder / "other").write_bytes(bytes(16 * 2**20))
        except OSError:
            print("full")

folder = Path(sys.argv[1])
X = np.ones((400_000, 2), np.float32)
model = bl.models.NMF(components=2)
learner = bl.Learner(model, X, block_rows=50_000, threads=1, row_folder=folder, hooks=[Fill()])
print(learner.fit().row_state("W").all())
"""
    done = run_on_small_disk(tmp_path, 8 * 2**20, code, str(tmp_path))
    assert done.stdout.split() == ["full", "True"], done


# ---- the command ---------------------------------------------------------------------------------

Learn = Callable[..., tuple[int, str]]


@pytest.fixture
def learn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Learn:
    monkeypatch.chdir(tmp_path)
    sp.save_npz("counts.npz", counts())
    Path("run.yaml").write_text(CONFIG)

    def learn(*arguments: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as stop:
            main(["--config", "run.yaml", *arguments])
        assert isinstance(stop.value.code, int)
        return stop.value.code, capsys.readouterr().err

    return learn


def running(out: str) -> AbstractContextManager[subprocess.Popen[str]]:
    """A run that holds its row folder until it is told to stop."""
    slow = """
import time
from blocklearn.learner.checkpoints.saving import SaveCheckpoints
SaveCheckpoints.block = lambda *given: (ready(), time.sleep(0.01))"""
    endless = ("--set", "learner.passes=100000")
    return started("--config", "run.yaml", "--out", out, *endless, code=slow)


def test_the_same_bits_as_in_memory_and_an_empty_folder(learn: Learn) -> None:
    assert learn("--out", "runs/a", "-q")[0] == ExitCode.DONE
    assert learn("--out", "runs/b", "-q", "--set", "learner.row_folder=null")[0] == ExitCode.DONE
    assert list(Path("rows").iterdir()) == []
    weights = [Path("runs", name, "weights.safetensors").read_bytes() for name in "ab"]
    assert weights[0] == weights[1]


def test_a_run_whose_row_folder_is_held_is_refused_before_it_overwrites(learn: Learn) -> None:
    assert learn("--out", "elsewhere/a", "-q")[0] == ExitCode.DONE
    before = Path("elsewhere/a/weights.safetensors").read_bytes()
    with running("runs/a") as process:
        wait_until_ready(process)
        code, err = learn("--out", "elsewhere/a", "--overwrite")
        assert code == ExitCode.USAGE
        assert f"rows/a: must be held by one learner at a time, and process {process.pid} on" in err
        assert f"(run {Path('runs/a').resolve()}) holds it" in err
        assert Path("elsewhere/a/weights.safetensors").read_bytes() == before
        assert learn("--out", "runs/b", "-q")[0] == ExitCode.DONE  # one of another name
        assert files(Path("rows")) == ["a/" + LOCK, "a/W.float32"]
        process.send_signal(signal.SIGTERM)
        process.communicate()
        assert process.returncode == ExitCode.INTERRUPTED
    assert list(Path("rows").iterdir()) == []


@pytest.mark.slow
def test_a_killed_run_resumes_where_its_files_are(learn: Learn) -> None:
    with running("runs/a") as process:
        wait_until_ready(process)
        process.kill()
        process.wait()
    assert files(Path("rows")) == ["a/" + LOCK, "a/W.float32"]
    assert learn("--out", "runs/a", "--resume", "auto", "-q")[0] == ExitCode.DONE
    assert list(Path("rows").iterdir()) == []


def left(folder: Path, run: str = "runs/a") -> Path:
    """What a killed process of a run has left, with a file that is not its own."""
    folder.mkdir(parents=True)
    owner = f"process 1 on host (run {Path(run).absolute()})"
    (folder / LOCK).write_text(f"{owner}\nW.float32\n")
    for name in ("W.float32", "other"):
        (folder / name).write_bytes(bytes(8))
    return folder


def test_a_run_removes_the_files_of_workers_that_it_lacks(learn: Learn) -> None:
    """Not those of other runs, nor of one that is at work, nor foreign files."""
    for name in ("a-worker-1", "a-worker-x", "b-worker-1", "a-worker-2-tables"):
        left(Path("rows", name))
    left(Path("rows", "a-worker-5"), run="elsewhere/a")
    held = Lock(left(Path("rows", "a-worker-3")) / LOCK)
    (foreign := Path("rows", "a-worker-4")).mkdir()
    assert learn("--out", "runs/a", "-q")[0] == ExitCode.DONE
    assert files(Path("rows", "a-worker-1")) == ["other"]
    for name in ("a-worker-x", "b-worker-1", "a-worker-2-tables", "a-worker-3", "a-worker-5"):
        assert files(Path("rows", name)) == [LOCK, "W.float32", "other"]
    assert foreign.is_dir() and not files(foreign)
    held.close()


def test_what_cannot_be_removed_of_workers_that_a_run_lacks_stays(learn: Learn) -> None:
    """Such as folders of other users. Here neither the lock nor the file can be a file."""
    (lock := Path("rows", "a-worker-1", LOCK)).mkdir(parents=True)
    file = left(Path("rows", "a-worker-2")) / "W.float32"
    file.unlink()
    file.mkdir()
    assert learn("--out", "runs/a", "-q")[0] == ExitCode.DONE
    assert lock.is_dir() and file.is_dir()


def test_tables_of_workers_that_a_run_lacks_are_known_by_their_names(tmp_path: Path) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    places: Any = SimpleNamespace(folder=folders)
    config: Any = SimpleNamespace(learner=SimpleNamespace(row_folder=None, places=places))
    for number in range(5):
        left(tmp_path / "a" / f"run-worker-{number}-tables")
    left(tmp_path / "a" / "run-worker-7")
    crew = Crew(thread_exchanges(3, 1.0)[1])
    expected = [tmp_path / "a" / f"run-worker-{number}-tables" for number in (3, 4)]
    assert sorted(left_of(config, tmp_path / "run", crew)) == expected


@pytest.mark.parametrize("code", [ExitCode.DIVERGED, ExitCode.IO])
def test_a_run_that_fails_leaves_no_row_file(
    learn: Learn, code: ExitCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    from blocklearn.learner.errors import DivergedError
    from blocklearn.learner.runs import training

    def fail(*_: Any) -> None:
        assert files(Path("rows")) == ["a/" + LOCK, "a/W.float32"]
        raise DivergedError("no") if code == ExitCode.DIVERGED else OSError("no")

    monkeypatch.setattr(training.SaveCheckpoints, "block", fail)
    assert learn("--out", "runs/a", "-q")[0] == code
    assert list(Path("rows").iterdir()) == []


def test_a_disk_without_room_is_an_error_of_its_own_before_a_file_is_made(
    learn: Learn, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert learn("--out", "runs/a", "-q")[0] == ExitCode.DONE
    before = files(Path("runs"))
    monkeypatch.setattr(module, "free_bytes", lambda _: 1000)
    code, err = learn("--out", "runs/a", "--overwrite")
    assert code == ExitCode.IO and files(Path("runs")) == before
    assert "rows/a: No space left on device: 2,400 bytes are needed, 1,000 bytes are free." in err


@pytest.mark.parametrize("folder", ["runs", "runs/a", "runs/a/rows"])
def test_the_row_folder_may_lie_where_runs_lie(learn: Learn, folder: str) -> None:
    """Even where the folder of the run's name in it is the run folder."""
    for more in ([], ["--overwrite"], ["--resume", "auto"]):
        code, err = learn("--out", "runs/a", "-q", "--set", f"learner.row_folder={folder}", *more)
        assert code == ExitCode.DONE, err
    assert not [name for name in files(Path("runs")) if "float32" in name or LOCK in name]


def test_a_model_without_rows_makes_no_folder(learn: Learn) -> None:
    assert learn("--out", "runs/a", "-q", "--set", "model={kind: lda, topics: 2}")[0] == 0
    assert not Path("rows").exists()


def test_a_lock_is_free_when_it_is_closed(tmp_path: Path) -> None:
    first = Lock(tmp_path / "lock")
    first.write("a", "b")
    first.write("c")
    assert first.lines == ["c"]
    first.close()
    second = Lock(tmp_path / "lock")
    assert second.lines == ["c"]
    second.close()
