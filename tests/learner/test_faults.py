"""What goes wrong outside: full disks, folders that may not be written, damage, signals, two runs.

Every exit code that a run may end with is met here, or in `test_end_to_end.py` and `test_cli.py`.
"""

import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blocklearn as bl
from blocklearn.datasources import DataError, MatrixSource
from blocklearn.durable import write_folder
from blocklearn.learner.checkpoints import checkpoint
from blocklearn.learner.checkpoints.checkpoint import name_of, newest
from blocklearn.learner.command_line.cli import main
from blocklearn.learner.exit_codes import ExitCode
from blocklearn.learner.runs import opening
from blocklearn.learner.storage import model_folder
from blocklearn.learner.storage.manifest import write_manifest
from blocklearn.learner.storage.tensor_file import write_tensors
from tests.support.largest_file import largest_file
from tests.support.learn_command import started, wait_until_ready
from tests.support.often import rarely

NEW = ("evaluation", "checkpoint")  # sections of a configuration that 0.1.0 did not have
RUN = ("--config", "run.yaml")
Learn = Callable[..., tuple[int, str]]

CONFIG = """\
model: {kind: glm, l1: 1.0e-3, l2: 1.0e-2}
data:
  train: {kind: file, path: rows.npz, targets: labels.npy}
  eval: {kind: holdout, share: 0.2}
  block_rows: 20
optimizer: {kind: sgd, rate: 0.1, momentum: 0.5}
learner: {passes: 3, threads: 1}
checkpoint: {every_blocks: 5}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Rows with labels, and the configuration of a run on them, in the present folder."""
    from scipy import sparse

    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = sparse.random_array((400, 3000), density=0.005, rng=rng, format="csr", dtype=np.float32)
    sparse.save_npz("rows.npz", X)
    np.save("labels.npy", (X.sum(axis=1) > 7.0).astype(np.float32))
    Path("run.yaml").write_text(CONFIG)
    return tmp_path


@pytest.fixture
def learn(folder: Path, capsys: pytest.CaptureFixture[str]) -> Learn:
    """Runs `learn` on it: exit code, stderr."""

    def learn(*arguments: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as stop:
            main([*RUN, *arguments])
        assert isinstance(stop.value.code, int)
        return stop.value.code, capsys.readouterr().err

    return learn


@pytest.fixture
def whole(learn: Learn) -> str:
    """A run that nothing happened to."""
    code, err = learn("--out", "whole", "-q")
    assert code == ExitCode.DONE, err
    return "whole"


def weights(run: str) -> bytes:
    return Path(run, "weights.safetensors").read_bytes()


def checkpoints(run: str) -> list[str]:
    return sorted(path.name for path in Path(run, "checkpoints").iterdir())


def events(run: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(run, "metrics.jsonl").read_text().splitlines()]


def steps(run: str) -> list[Any]:
    """What happened, without where the run was stopped, and without what depends on the clock:
    when it says how training goes.
    """
    return [
        (event["event"], event["pass"], event["batch"], event["rows"], event.get("log_loss"))
        for event in events(run)
        if event["event"] in ("eval", "end")
    ]


def test_a_full_disk(whole: str, learn: Learn) -> None:
    again = ["--out", "a", "--resume", "auto"]
    assert learn(*again, "--set", "learner.passes=1")[0] == ExitCode.DONE
    before = checkpoints("a")
    size = Path("a/checkpoints", before[-1], "state.safetensors").stat().st_size
    with largest_file(size - 100):
        code, err = learn(*again)
    assert code == ExitCode.IO
    assert "a/checkpoints/pass-0001-block-0000003: File too large" in err
    assert "earlier checkpoints are intact; --resume auto resumes" in err
    assert "Traceback" not in err
    assert checkpoints("a") == before  # and nothing half-written
    assert learn(*again)[0] == ExitCode.DONE
    assert weights("a") == weights(whole) and steps("a") == steps(whole)


def test_events_that_cannot_be_written(whole: str, learn: Learn) -> None:
    again = ["--out", "a", "--resume", "auto", "-q", "--set", "checkpoint.every_blocks=null"]
    assert learn(*again, "--set", "learner.passes=2")[0] == ExitCode.DONE
    text = Path("a/metrics.jsonl").read_text()
    last = json.loads(text.splitlines()[-1])
    first = f"{json.dumps(last | {'event': 'checkpoint', 'rows': 0})}\n" * 1000
    Path("a/metrics.jsonl").write_text(first + text)  # larger than all other files
    with largest_file(Path("a/metrics.jsonl").stat().st_size + 50):
        code, err = learn(*again)
    assert code == ExitCode.IO and "a/metrics.jsonl: File too large" in err
    assert learn(*again)[0] == ExitCode.DONE
    assert weights("a") == weights(whole) and steps("a") == steps(whole)


def other_user() -> dict[str, Any]:
    """How to start a process that file permissions hold for."""
    if os.getuid() != 0:
        return {}
    probe = [sys.executable, "-c", "import blocklearn.learner.runs.training"]
    powerless: dict[str, Any] = {"user": 65534, "group": 65534, "extra_groups": []}
    try:
        if subprocess.run(probe, capture_output=True, **powerless).returncode == 0:
            return powerless
    except OSError:
        pass
    pytest.skip("root may write everywhere, and no other user can run this Python")


def test_a_folder_that_may_not_be_written(folder: Path) -> None:
    user = other_user()
    run = "from blocklearn.learner.command_line.cli import main; main()"
    command = [sys.executable, "-c", run, *RUN, "--out", "a"]
    with tempfile.TemporaryDirectory() as place:  # other users reach no folder of pytest
        shutil.copytree(folder, place, dirs_exist_ok=True)
        Path(place).chmod(0o555)
        done = subprocess.run(command, capture_output=True, text=True, cwd=place, **user)
        Path(place).chmod(0o755)
    assert done.returncode == ExitCode.PERMISSION, done.stderr
    assert "a: Permission denied" in done.stderr and "Traceback" not in done.stderr


def test_a_file_system_that_is_read_only(folder: Path, monkeypatch: Any, learn: Learn) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), "a")

    monkeypatch.setattr(Path, "mkdir", refuse)
    code, err = learn("--out", "a")
    assert code == ExitCode.PERMISSION and "a: Read-only file system" in err


@pytest.mark.parametrize(
    "error, code, traceback",
    [
        (DataError("a bad block"), ExitCode.DATA, False),
        (OSError(errno.EIO, os.strerror(errno.EIO), "disk"), ExitCode.IO, False),  # may be retried
        (KeyError("a mistake"), ExitCode.INTERNAL, True),
    ],
    ids=["data", "disk", "mistake"],
)
@pytest.mark.parametrize("replicas", ["1", *rarely("2")])
def test_a_block_that_cannot_be_read(
    learn: Learn, monkeypatch: Any, error: Exception, code: ExitCode, traceback: bool, replicas: str
) -> None:
    """It is named, and the run resumes from before it once it can be read."""
    settings = ["-q", "--set", f"learner.replicas={replicas}", "--set", "learner.sync_every=1"]
    read = MatrixSource.read

    def fails(source: Any, pass_: int, index: int, into: Any) -> None:
        if (pass_, index) == (1, 9):
            raise error
        read(source, pass_, index, into)

    with monkeypatch.context() as patched:
        patched.setattr(MatrixSource, "read", fails)
        found, err = learn("--out", "a", *settings)
    assert found == code and "block 9 of pass 1 could not be read: " in err
    assert str(error) in err and ("Traceback" in err) == traceback
    assert learn("--out", "a", *settings, "--resume", "auto")[0] == ExitCode.DONE
    assert learn("--out", "b", *settings)[0] == ExitCode.DONE
    assert weights("a") == weights("b") and steps("a") == steps("b")


def test_damage_to_the_newest_falls_back_and_says_so(
    whole: str, learn: Learn, caplog: pytest.LogCaptureFixture
) -> None:
    again = ["--out", "a", "--resume", "auto"]
    assert learn(*again, "--set", "learner.passes=2")[0] == ExitCode.DONE
    newest_one = checkpoints("a")[-1]
    file = Path("a/checkpoints", newest_one, "state.safetensors")
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 16
    file.write_bytes(data)
    code, err = learn(*again)
    assert code == ExitCode.DONE
    assert f"{newest_one}/state.safetensors: damaged" in caplog.text
    assert "trying the one before" in caplog.text
    assert "resuming after pass 1 and 13 blocks of the next" in err
    assert weights("a") == weights(whole) and steps("a") == steps(whole)

    for path in Path("a/checkpoints").glob("*/checkpoint.json"):
        path.write_text("{}")
    code, err = learn(*again, "--set", "learner.passes=9")
    assert code == ExitCode.DATA and "No checkpoint is intact. --overwrite starts afresh" in err


@pytest.mark.parametrize("moved", [0, 2])
def test_killed_while_the_model_is_put_in_its_place(moved: int, whole: str, learn: Learn) -> None:
    """It was complete beside its place, and is found there afterwards."""
    files = [name for name in model_folder.FILES if Path(whole, name).exists()]
    before = {name: Path(whole, name).read_bytes() for name in files}
    ready = Path(whole, ".next")
    ready.mkdir()
    for number, name in enumerate(sorted(before)):
        (ready / name).write_bytes(before[name])
        if number >= moved:
            Path(whole, name).unlink()
    report = ["--set", "learner.report=true"]
    code, err = learn("--out", whole, "--resume", "auto", *report)
    assert code == ExitCode.DONE and "finished, 3 passes are done" in err
    assert {name: Path(whole, name).read_bytes() for name in files} == before
    assert not ready.exists() and Path(whole, "report.html").exists()


def test_a_run_of_version_0_1_0_goes_on(whole: str, learn: Learn) -> None:
    """Its checkpoints were of whole passes, and its configurations had other keys."""
    again = ["--out", "a", "--resume", "auto"]
    assert learn(*again, "--set", "learner.passes=2")[0] == ExitCode.DONE
    last = newest(Path("a/checkpoints"))
    assert last and last.position == (2, 0)
    config = {name: part for name, part in last.config.items() if name not in NEW}
    config["learner"] = config["learner"] | {"eval_every": 1}
    position = {name: last.state.position[name] for name in ("pass", "block", "rows", "seconds")}
    (optimizer,) = last.state.position["optimizers"]
    tensors = {name: array for name, array in last.state.tensors.items() if "seen" not in name}
    for old in Path("a/checkpoints").iterdir():
        shutil.rmtree(old)

    def fill(folder: Path) -> None:
        content = {
            "passes": 2, "rows": last.rows, "scores": last.scores, "config": config,
            "position": position | {name: optimizer[name] for name in ("steps", "phase")},
            "tensors": write_tensors(folder / checkpoint.STATE, tensors),
            "fingerprint": last.fingerprint,
        }  # fmt: skip
        earlier = checkpoint.FORMAT._replace(version=1)
        write_manifest(
            folder, checkpoint.MANIFEST, format=earlier, content=content, files=[checkpoint.STATE]
        )

    write_folder(Path("a/checkpoints/pass-0002"), fill)
    code, err = learn(*again)
    assert code == ExitCode.DONE, err
    assert weights("a") == weights(whole) and steps("a") == steps(whole)


def test_two_runs_do_not_write_to_one_folder(learn: Learn) -> None:
    endless = ["--set", "learner.passes=1000000", "--log-format", "json"]
    with started(*RUN, *endless, "--out", "a") as first:
        assert first.stderr and '"start"' in first.stderr.readline()
        code, err = learn("--out", "a", "--resume", "auto")
        assert code == ExitCode.USAGE
        assert f"process {first.pid} on" in err and "is writing there" in err
    assert learn("--out", "a", "--overwrite")[0] == ExitCode.DONE  # the lock went with it


@pytest.mark.parametrize("number", [signal.SIGTERM, *rarely(signal.SIGINT, signal.SIGUSR1)])
def test_a_signal_in_the_middle_of_a_pass(learn: Learn, number: signal.Signals) -> None:
    """A checkpoint of the very block, whatever the schedule; then the bits of no stop at all."""
    rarely = ["--set", "checkpoint={every_blocks: null, every_passes: null}"]
    waits = """\
import time
from blocklearn.learner.checkpoints.saving import SaveCheckpoints
from blocklearn.learner.runs.signals import Requests
handle, block, heard = Requests._handle, SaveCheckpoints.block, []
def hear(*given):
    heard.append(given)
    handle(*given)
def saved(self, learner, progress):
    block(self, learner, progress)
    if progress.block == 5:
        ready()
        while not heard:
            time.sleep(0.01)
Requests._handle, SaveCheckpoints.block = hear, saved"""
    endless = ["--set", "learner.passes=100000"]
    with started(*RUN, "--out", "a", *rarely, *endless, code=waits) as process:
        wait_until_ready(process)
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert process.returncode == ExitCode.INTERRUPTED and "Traceback" not in err
    assert f"a: stopped by {number.name} in pass 1 of 100000, block " in err
    assert "The same command with --resume auto resumes it." in err
    stopped = newest(Path("a/checkpoints"))
    assert stopped and checkpoints("a") == [name_of(stopped.position)]
    assert stopped.position[0] == 0 < stopped.position[1]
    assert learn("--out", "a", "--resume", "auto", *rarely)[0] == ExitCode.DONE
    assert learn("--out", "b", *rarely)[0] == ExitCode.DONE
    assert weights("a") == weights("b") and steps("a") == steps("b")


HEARD = """
from blocklearn.learner.runs.signals import Requests
handle = Requests._handle
def heard(self, number, frame):
    handle(self, number, frame)
    ready()
Requests._handle = heard
"""  # two signals that come before Python looks are one: so the second one waits for this


def test_a_second_interrupt_stops_at_once(folder: Path) -> None:
    slow = f"""\
{HEARD}
import time
from blocklearn.learner.checkpoints.saving import SaveCheckpoints
SaveCheckpoints.block = lambda *given: (ready(), time.sleep(600))"""
    with started(*RUN, "--out", "a", "-q", code=slow) as process:
        wait_until_ready(process)
        process.send_signal(signal.SIGINT)
        wait_until_ready(process)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)  # for the block
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == ExitCode.KILLED and "Traceback" not in err


@pytest.mark.slow
@pytest.mark.parametrize("which", ["model-1", "model"])  # the one that is not waited for, or both
def test_a_second_interrupt_does_not_wait_for_replicas(folder: Path, which: str) -> None:
    slow = f"""\
{HEARD}
import threading, time
from blocklearn.learner.training.replicas.replica import Replica
def update(*given):
    if "{which}" in threading.current_thread().name:
        ready()
        time.sleep(600)
Replica.update = update"""
    with started(*RUN, "--out", "a", "-q", "--set", "learner.replicas=2", code=slow) as process:
        for _ in range(2 if which == "model" else 1):
            wait_until_ready(process)
        process.send_signal(signal.SIGINT)
        wait_until_ready(process)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == ExitCode.KILLED and "Traceback" not in err


def test_a_signal_before_training_leaves_nothing(learn: Learn, monkeypatch: Any) -> None:
    def open_data(*_: Any, **__: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(opening, "open_data", open_data)
    code, err = learn("--out", "a")
    assert code == ExitCode.INTERRUPTED
    assert "a: stopped by SIGTERM before training began" in err
    assert not Path("a").exists()


def test_divergence_keeps_the_last_good_checkpoint(learn: Learn) -> None:
    wild = ["--set", "optimizer={kind: sgd, rate: 20.0}", "--set", "model={link: linear}"]
    code, err = learn("--out", "a", *wild, "--set", "learner.passes=100")
    assert code == ExitCode.DIVERGED
    assert "the model has diverged" in err and "Traceback" not in err
    last = newest(Path("a/checkpoints"))
    assert last and all(np.isfinite(array).all() for array in last.state.tensors.values())


def test_too_little_memory(learn: Learn, monkeypatch: Any) -> None:
    def open_data(*_: Any, **__: Any) -> None:
        bytearray(2**62)

    monkeypatch.setattr(opening, "open_data", open_data)
    code, err = learn("--out", "a")
    assert code == ExitCode.OUT_OF_MEMORY and "out of memory" in err


def test_the_best_model_is_the_one_that_is_saved(learn: Learn) -> None:
    """Also where the run was stopped in between; its checkpoint is kept as long."""
    watched = ["--set", "evaluation={metric: log_loss, patience: 3, every_blocks: 3}"]
    watched += ["--set", "learner.passes=200", "--set", "optimizer={kind: sgd, rate: 5.0}"]
    watched += ["--set", "model={kind: glm}"]
    code, err = learn("--out", "a", *watched)
    assert code == ExitCode.DONE, err
    assert "stopped early: no better log_loss in 3 evaluations" in err
    figures = json.loads(Path("a/metrics.json").read_text())
    assert figures["model"] == "best log_loss"
    losses = [event["log_loss"] for event in events("a") if event["event"] == "eval"]
    assert figures["log_loss"] == min(losses) < losses[-1] and len(losses) >= 5

    _, err = learn("--out", "b", *watched, "--set", "evaluation.keep_best=false")
    assert "the model is the last one; the best one had log_loss" in err
    figures = json.loads(Path("b/metrics.json").read_text())
    assert figures["model"] == "last" and figures["log_loss"] == losses[-1]
    assert weights("a") != weights("b")

    again = ["--out", "c", "--resume", "auto", *watched]
    for passes in (1, 2):
        assert learn(*again, "--set", f"learner.passes={passes}")[0] == ExitCode.DONE
    assert learn(*again)[0] == ExitCode.DONE
    assert weights("c") == weights("a")
    code, err = learn(*again)  # patience is at its end
    assert code == ExitCode.DONE and "stopped early" in err
    assert weights("c") == weights("a")

    best = next(
        path for path in Path("c/checkpoints").iterdir() if path.name < checkpoints("c")[-2]
    )
    shutil.rmtree(best)
    code, err = learn(*again)
    assert code == ExitCode.DONE and "the model is the last one" in err and "is lost" in err


@pytest.mark.slow
@pytest.mark.parametrize("manner", [["--quiet"], *rarely(["--log-format", "json"])])
def test_a_lost_best_model_is_told_of_whatever_the_verbosity(
    learn: Learn, manner: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    watched = ["--set", "evaluation={metric: log_loss}", "--set", "optimizer={kind: sgd, rate: 5}"]
    watched += ["--set", "model={kind: glm}", "--set", "learner.report=true", "--out", "a"]
    assert learn(*watched, "--set", "learner.passes=4", "-q")[0] == ExitCode.DONE
    assert json.loads(Path("a/metrics.json").read_text())["model"] == "best log_loss"
    best = Path("a/checkpoints", checkpoints("a")[0], "state.safetensors")
    assert len(checkpoints("a")) == 3  # those of the best and of the last two passes
    best.write_bytes(best.read_bytes()[:-1])
    for name in model_folder.FILES:  # as if the run had been killed before it wrote its model
        Path("a", name).unlink(missing_ok=True)
    run = "from blocklearn.learner.command_line.cli import main; main()"
    command = [sys.executable, "-c", run, *RUN, *watched, "--resume", "auto", *manner]
    passes = ["--set", "learner.passes=4"]
    done = subprocess.run([*command, *passes], capture_output=True, text=True)
    assert done.returncode == ExitCode.DONE, done.stderr
    assert "the best model cannot be read, so the last one is kept: " in done.stderr
    assert "state.safetensors" in done.stderr
    figures = json.loads(Path("a/metrics.json").read_text())
    assert figures["model"] == "last" and "state.safetensors" in figures["lost"]
    assert re.match(r"log_loss [\d.]+, after pass 1: ", figures["lost"]), figures
    for page in (Path("a/report.html").read_text(), Path("a/README.md").read_text()):
        assert figures["lost"].split(": ")[0] in page
    assert "The best model is lost" in Path("a/report.html").read_text()
    with pytest.raises(SystemExit):
        main(["inspect", "a"])
    assert "lost best model" in capsys.readouterr().out
    assert "lost" not in bl.load("a").progress.scores
