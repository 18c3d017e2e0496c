"""State of rows that memory has no room for is in files of the run folder, with the same bits."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from blocklearn.learner.configuration.config import RunConfig
from blocklearn.learner.configuration.yaml_config import Setting, resolve
from blocklearn.learner.engines.crew import Crew
from blocklearn.learner.exit_codes import ExitCode, exit_code
from blocklearn.learner.files import row_folder
from blocklearn.learner.files.allocated import lies_in_memory
from blocklearn.learner.files.row_folder import LOCK, RowFolder
from blocklearn.learner.memory import ADDRESSES, FREE
from blocklearn.learner.runs import memory_check, placing, state_files, training
from blocklearn.learner.runs.assisting import assist
from blocklearn.learner.runs.run_folder import ROWS, RunFolder
from blocklearn.learner.runs.signals import Requests
from blocklearn.learner.runs.training import RunOptions, train
from blocklearn.learner.training.plans.plan import Plan
from tests.support.learn_command import Learn, started, wait_until_ready
from tests.support.thread_workers import thread_exchanges
from tests.support.workers import PATIENCE

CONFIG = """\
data: {train: {kind: file, path: counts.npz}, block_rows: 20}
learner: {passes: 3, threads: 1}
checkpoint: {every_blocks: 3}
"""
NMF = "model={kind: nmf, components: 3}"
LDA = "model={kind: lda, topics: 4, inference: gibbs, assignments: kept, fresh_passes: 0}"
ALS = "model={kind: als, rank: 2}"
MODELS = {
    "nmf": [NMF],
    "lda": [LDA],
    "als": [ALS, "data.train={kind: time-zones}", "data.block_rows=128"],
    "dual ascent": [
        "model={kind: glm, link: logistic, l2: 0.1}",
        "optimizer={kind: dual-ascent}",
        "data.train={kind: libsvm, path: rows.svm}",
    ],
}  # fmt: skip
NOTE = "the state of rows is in files of {}: in memory, training would need"


@pytest.fixture(autouse=True)
def in_a_folder(command: Learn, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work where the data are, on a disk; limits of memory count from zero."""
    counts = np.random.default_rng(0).poisson(0.7, (90, 20)).astype(np.float32)
    sp.save_npz("counts.npz", sp.csr_array(counts))
    Path("rows.svm").write_text("".join(f"{i % 2} {1 + i % 5}:1 7:{i}\n" for i in range(90)))
    Path("run.yaml").write_text(CONFIG)
    monkeypatch.setattr(memory_check, "memory_limits", dict)
    monkeypatch.setattr(memory_check, "resident_bytes", lambda: 0)
    monkeypatch.setattr(state_files, "lies_in_memory", lambda _: False)


def setting(*settings: str) -> list[str]:
    return [part for each in settings for part in ("--set", each)]


def limit(nbytes: int) -> str:
    return f"learner.memory_limit.host={nbytes}"


def plan(out: str) -> Plan:
    return Plan.from_json(RunFolder(Path(out)).plan.read_text())


def learnt(out: str) -> bytes:
    return Path(out, "weights.safetensors").read_bytes()


def rows_of(folder: str | Path) -> list[str]:
    """The files of row state in a run folder, and folders of them."""
    return sorted(str(path.relative_to(folder)) for path in Path(folder).rglob(f"{ROWS}*/*")) or [
        path.name for path in Path(folder).glob(f"{ROWS}*")
    ]


def at_block(monkeypatch: pytest.MonkeyPatch, number: int, what: Callable[[], None]) -> None:
    """Do something after a block of the next runs."""
    count = 0
    block = training.SaveCheckpoints.block

    def then(*given: Any) -> None:
        nonlocal count
        block(*given)
        count += 1
        if count == number:
            what()

    monkeypatch.setattr(training.SaveCheckpoints, "block", then)


@pytest.mark.parametrize("name", MODELS)
def test_small_memory_changes_no_bit(
    name: str, command: Learn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One byte decides. The files are gone when the run ends."""
    given, seen = ["--config", "run.yaml", *setting(*MODELS[name])], list[list[str]]()
    assert command(*given, "--out", "whole", "-q")[0] == 0
    needed = plan("whole").total
    code, _, err = command(*given, *setting(limit(needed)), "--out", "fits")
    assert code == 0 and "in files" not in err
    at_block(monkeypatch, 2, lambda: seen.append(rows_of("files")))
    code, _, err = command(*given, *setting(limit(needed - 1)), "--out", "files")
    assert code == 0 and NOTE.format("files") in err
    assert "are left of learner.memory_limit.host\n" in err
    expected = [f"{ROWS}/{file}" for file in (LOCK, *sorted(plan("files").row_files))]
    assert seen == [expected] and len(expected) > 1
    assert not plan("fits").row_files and plan("files").total < needed
    assert rows_of("files") == []
    assert learnt("whole") == learnt("fits") == learnt("files")


@pytest.mark.parametrize("model", [NMF, LDA], ids=["nmf", "lda"])
@pytest.mark.parametrize(
    ("begun", "resumed"), [("small", "small"), ("small", "large"), ("large", "small")]
)
def test_a_run_resumes_whether_its_rows_were_in_files_or_not(
    model: str, begun: str, resumed: str, command: Learn, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise OSError("no")

    given = ["--config", "run.yaml", *setting(model)]
    assert command(*given, "--out", "whole", "-q")[0] == 0
    limits = {"large": setting(), "small": setting(limit(plan("whole").total - 1))}
    at_block(monkeypatch, 8, fail)
    assert command(*given, *limits[begun], "--out", "run", "-q")[0] == ExitCode.IO
    assert rows_of("run") == []
    code, _, err = command(*given, *limits[resumed], "--out", "run", "--resume", "auto")
    assert code == 0 and (NOTE.format("run") in err) == (resumed == "small")
    assert "resuming after pass 1 and 1 block" in err
    assert rows_of("run") == []
    assert learnt("whole") == learnt("run")


def left(folder: Path) -> None:
    """What a killed process of the run `run` has left, with a file that is not its own."""
    folder.mkdir(parents=True)
    (folder / LOCK).write_text(f"process 1 on host (run {Path('run').absolute()})\nW.float32\n")
    for name in ("W.float32", "other"):
        (folder / name).write_bytes(bytes(8))


@pytest.mark.parametrize("more", [[], [limit(10**9)], ["learner.row_folder=rows"]])
def test_files_of_a_killed_run_are_removed(more: list[str], command: Learn) -> None:
    """Whether the next run needs such files or not, and those of workers that it lacks."""
    given = ["--config", "run.yaml", "--out", "run", "-q", *setting(NMF)]
    assert command(*given, *setting("learner.passes=1"))[0] == 0
    small = more or [limit(plan("run").total - 1)]
    for name in (ROWS, f"{ROWS}-worker-1"):
        left(Path("run", name))
    assert command(*given, *setting(*small), "--resume", "auto")[0] == 0
    assert rows_of("run") == [f"{ROWS}-worker-1/other", f"{ROWS}/other"]


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_a_process_that_ends_leaves_what_the_next_one_removes(
    end: signal.Signals, command: Learn
) -> None:
    given = ["--config", "run.yaml", *setting(NMF)]
    assert command(*given, "--out", "whole", "-q")[0] == 0
    small = setting(limit(plan("whole").total - 1))
    code = """
from blocklearn.learner.checkpoints.saving import SaveCheckpoints
from blocklearn.learner.runs import memory_check, state_files
memory_check.memory_limits, memory_check.resident_bytes = dict, lambda: 0
state_files.lies_in_memory = lambda _: False
block, blocks = SaveCheckpoints.block, []
def waiting(*given):
    block(*given)
    blocks.append(given)
    if len(blocks) == 4:
        ready()
        open("continue").close()
SaveCheckpoints.block = waiting"""
    os.mkfifo("continue")
    with started(*given, *small, "--out", "run", code=code) as process:
        wait_until_ready(process)
        assert rows_of("run") == [f"{ROWS}/{LOCK}", f"{ROWS}/W.float32"]
        process.send_signal(end)
        if end == signal.SIGTERM:
            Path("continue").write_text("")
        process.wait()
    assert len(rows_of("run")) == (2 if end == signal.SIGKILL else 0)
    assert command(*given, "--out", "run", "--resume", "auto", "-q")[0] == 0
    assert rows_of("run") == []
    assert learnt("whole") == learnt("run")


def test_a_folder_with_files_of_a_killed_worker_may_become_a_run(command: Learn) -> None:
    left(Path("run", f"{ROWS}-worker-1"))
    assert command("--config", "run.yaml", "--out", "run", "-q", *setting(NMF))[0] == 0
    assert rows_of("run") == [f"{ROWS}-worker-1/other"]


@pytest.mark.parametrize("dry", [["--dry-run"], []])
def test_a_run_that_files_do_not_help_is_refused(dry: list[str], command: Learn) -> None:
    before = set(Path().rglob("*"))
    code, out, err = command("--config", "run.yaml", *dry, *setting(NMF, limit(1000)))
    assert code == ExitCode.OUT_OF_MEMORY and set(Path().rglob("*")) == before
    assert "1.0 kB are left of learner.memory_limit.host" in err
    assert "data.block_rows: 20" in err and "row_folder" not in err
    assert ("W (row state): float32 90 x 3, in a file\n" in out) == bool(dry)


def test_a_dry_run_says_where_rows_will_be_and_leaves_nothing(command: Learn) -> None:
    given = ["--config", "run.yaml", "--dry-run", *setting(NMF)]
    before = set(Path().rglob("*"))
    _, out, _ = command(*given)
    assert "in a file" not in out
    needed = next(line for line in out.splitlines() if line.endswith("in all")).split()[0]
    code, out, err = command(*given, *setting(limit(int(needed.replace(",", "")) - 1)))
    assert (code, err) == (0, "") and set(Path().rglob("*")) == before
    assert "1,080 bytes  W (row state): float32 90 x 3, in a file\n" in out
    assert f"\n{NOTE.format('runs/run')}" in out


def test_files_in_memory_do_not_help(command: Learn, monkeypatch: pytest.MonkeyPatch) -> None:
    given = ["--config", "run.yaml", "-q", *setting(NMF)]
    assert command(*given, "--out", "whole")[0] == 0
    monkeypatch.setattr(state_files, "lies_in_memory", lambda _: True)
    given += setting(limit(plan("whole").total - 1))
    code, _, err = command(*given, "--out", "run")
    assert code == ExitCode.OUT_OF_MEMORY and not Path("run").exists()
    assert "learner.row_folder: DIR keeps the state of rows in files. DIR must be on a disk" in err
    assert command(*given, "--out", "run", *setting("learner.row_folder=rows"))[0] == 0


def test_files_do_not_help_where_addresses_are_limited(
    command: Learn, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = ["--config", "run.yaml", *setting(NMF)]
    assert command(*given, "--out", "whole", "-q")[0] == 0
    needed = plan("whole").total
    monkeypatch.setattr(memory_check, "memory_limits", lambda: {ADDRESSES: needed - 1})
    code, _, err = command(*given, "--out", "run")
    assert code == ExitCode.OUT_OF_MEMORY and "left of ulimit -v" in err
    assert "_folder:" not in err and not Path("run").exists()


def test_a_full_disk_is_known_before_the_run_folder_changes(
    command: Learn, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = ["--config", "run.yaml", "--out", "run", *setting(NMF)]
    assert command(*given, "-q")[0] == 0
    before = {path: path.stat().st_mtime_ns for path in Path().rglob("*")}
    monkeypatch.setattr(row_folder, "free_bytes", lambda _: 1000)
    small = setting(limit(plan("run").total - 1))
    for more in (["--overwrite"], ["--overwrite", "--dry-run"]):
        code, _, err = command(*given, *small, *more)
        assert code == ExitCode.IO
        assert "No space left on device: 1,080 bytes are needed, 1,000 bytes are free." in err
        assert "of the state of rows. Choose another folder for the run (--out), or one" in err
    assert {path: path.stat().st_mtime_ns for path in Path().rglob("*")} == before


def test_a_run_that_goes_on_keeps_its_files(command: Learn) -> None:
    """Another folder for the state of rows alone would not help the second run."""
    given = ["--config", "run.yaml", "--out", "run", "-q", *setting(NMF)]
    assert command(*given)[0] == 0
    small = setting(limit(plan("run").total - 1))
    with RowFolder(Path("run"), ROWS):
        code, _, err = command(*given, *small, "--overwrite")
    assert code == ExitCode.USAGE and "run/.rows: must be held by one learner at a time" in err
    assert "Wait until that run ends" in err and "another folder for the run (--out), or" in err


# ---- several workers -----------------------------------------------------------------------------


def config_of(*settings: str) -> RunConfig:
    return resolve(RunConfig, [Path("run.yaml")], {}, [Setting.parse(each) for each in settings])


def together(first: RunConfig, second: RunConfig) -> None:
    """Train with two workers, each with a configuration of its own."""
    one, two = (Crew(own) for own in thread_exchanges(2, PATIENCE))

    def along() -> None:
        with two.guard(exit_code):
            assist(second, Requests(), two)

    with ThreadPoolExecutor(1) as threads:
        ended = threads.submit(along)
        train(first, RunOptions(), one)
        ended.result()


@pytest.mark.parametrize("model", [NMF, LDA], ids=["nmf", "lda"])
@pytest.mark.parametrize("small", ["run", "other"])
def test_each_worker_decides_by_its_own_memory(
    model: str, small: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one sees another disk, on which nothing is left."""
    needed, seen = dict[str, int](), list[list[str]]()

    def check(plan: Plan, config: RunConfig) -> None:
        needed[config.out.name] = plan.total

    monkeypatch.setattr(placing, "check_room", check)
    together(*(config_of(model, f"out={out}") for out in ("whole", "other")))
    needed["run"] = needed["whole"]
    assert "in files" not in capsys.readouterr().err
    limits = {out: limit(needed[out] - (out == small)) for out in ("run", "other")}
    at_block(monkeypatch, 2, lambda: seen.append(rows_of(".")))
    together(*(config_of(model, limits[out], f"out={out}") for out in ("run", "other")))
    folder = {"run": f"run/{ROWS}", "other": f"other/{ROWS}-worker-1"}[small]
    assert len(seen[0]) == 2 and seen[0][0] == f"{folder}/{LOCK}"
    assert f"1 worker: {NOTE.format(small)}" in capsys.readouterr().err
    assert learnt("whole") == learnt("run")
    assert not Path("other").exists() and rows_of("run") == []


@pytest.mark.parametrize("machines", [1, 2])
def test_workers_of_one_machine_share_its_memory(
    machines: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory for one of them, and nearly for two."""
    needed, names = list[int](), iter(range(4))

    def check(plan: Plan, _: RunConfig) -> None:
        needed.append(plan.total)

    monkeypatch.setattr(placing, "check_room", check)
    together(*(config_of(NMF, "out=whole") for _ in range(2)))
    assert "in files" not in capsys.readouterr().err
    monkeypatch.setattr(memory_check, "memory_limits", lambda: {FREE: 2 * min(needed) - 1})
    monkeypatch.setattr(placing, "shared_limits", lambda: {FREE: str(next(names) % machines)})
    together(*(config_of(NMF, "out=run") for _ in range(2)))
    err = capsys.readouterr().err
    if machines == 1:
        assert f"2 workers: {NOTE.format('run')}" in err and f"{FREE} for each of 2 workers" in err
    else:
        assert "in files" not in err
    assert learnt("whole") == learnt("run")


def test_the_kind_of_a_file_system_is_found(tmp_path: Path) -> None:
    device = tmp_path.stat().st_dev
    own = f"{os.major(device)}:{os.minor(device)}"
    lines = "21 1 0:1 / /proc rw shared:1 - {} none rw\n22 1 {} / /a\\040b rw - {} /dev/a rw\n"
    (mounts := tmp_path / "mountinfo").write_text(lines.format("tmpfs", own, "ext4"))
    assert not lies_in_memory(tmp_path / "no" / "folder", mounts)
    mounts.write_text(lines.format("proc", own, "tmpfs"))
    assert lies_in_memory(tmp_path / "no" / "folder", mounts)
    assert not lies_in_memory(tmp_path, tmp_path / "missing")
