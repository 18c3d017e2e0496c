"""Runs of `learn train` with workers of Ray that are lost."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from tests.support.learn_command import Learn

ROOT = Path(__file__).parents[2]
PATIENCE = 600.0  # seconds, far more than any test needs


FRAGILE = """\
import os, signal, time
from pathlib import Path
import psutil
from blocklearn.models import NMF

def is_running(number):
    try:
        return psutil.Process(int(number)).status() not in ("stopped", "zombie")
    except psutil.NoSuchProcess:
        return False

class Fragile(NMF):
    recorded = False  # else the code of `end_pass` is left out

    def end_pass(self):
        super().end_pass()
        fault, of_ray = Path("fault").read_text(), "RAY_JOB_ID" in os.environ
        if not Path("two/checkpoints/pass-0001").exists():
            return
        if fault == "stopped" and not of_ray:
            while not Path("process").exists() or is_running(Path("process").read_text()):
                time.sleep(0.05)
        if of_ray == (fault == "driver"):
            return
        try:
            Path("happened").mkdir()  # once, whatever other workers do
        except FileExistsError:
            return
        if fault == "stopped":
            Path("written").write_text(str(os.getpid()))
            Path("written").rename("process")
            os.kill(os.getpid(), signal.SIGSTOP)
        elif fault == "machine":
            os.kill(os.getppid(), signal.SIGKILL)
            signal.pause()  # until its machine has ended it
        else:
            started = psutil.Process().children(recursive=True)
            Path("started").write_text(" ".join(f"{p.pid}:{p.create_time()}" for p in started))
            os.kill(os.getpid(), signal.SIGKILL)
"""

CONFIG = """\
model: {kind: "fragile.py:Fragile", components: 3, loss: kullback-leibler}
data: {train: {kind: python-calls}, block_rows: 1024}
learner: {passes: 4, sync_every: 1, threads: 1, report: false}
"""


class Runs:
    """Runs of `learn train` in a folder. In its second pass the run "two" has a fault, once."""

    def __init__(self, folder: Path, temporary: str) -> None:
        """temporary: a folder for Ray."""
        self.folder, self.temporary = folder, temporary
        self.environment = os.environ | {
            "TMPDIR": temporary,
            "PYTHONPATH": str(ROOT),
            "RAY_worker_niceness": "0",  # by 15 they would wait for whatever else runs here
            "HYDRA_IFACE": "lo",
        }
        self.environment.pop("RAY_ADDRESS", None)
        (folder / "fragile.py").write_text(FRAGILE)
        (folder / "run.yaml").write_text(CONFIG)
        self.fault("killed")

    def fault(self, name: str) -> None:
        """Choose the fault: "killed", "stopped", "machine", or that of worker 0, "driver"."""
        (self.folder / "fault").write_text(name)

    @property
    def happened(self) -> bool:
        """Whether the fault has happened."""
        return (self.folder / "happened").exists()

    def train(self, out: str, *options: str) -> subprocess.CompletedProcess[str]:
        """Run the command."""
        learn = [sys.executable, "-m", "blocklearn.learner.command_line.cli", "train"]
        return subprocess.run(
            [*learn, "--config", "run.yaml", "--out", out, *options],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )

    def weights(self, out: str, *options: str) -> tuple[bytes, str]:
        """The model of a run, and what it said."""
        done = self.train(out, *options)
        assert done.returncode == 0, done.stderr
        return (self.folder / out / "weights.safetensors").read_bytes(), done.stderr

    def of_replicas(self) -> bytes:
        """The model of a run of two replicas."""
        return self.weights("one", "--set", "learner.replicas=2")[0]


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    """Runs, and a folder for Ray with a name as short as those of sockets must be."""
    pytest.importorskip("ray")
    short = tempfile.mkdtemp(dir="/tmp")
    yield Runs(tmp_path, short)
    shutil.rmtree(short)


RAY = ("--engine", "ray", "--workers", "2")


@pytest.mark.services
def test_a_run_starts_again_when_a_worker_was_killed(runs: Runs) -> None:
    """It ends with the bits of replicas, and leaves no process and no file of Ray."""
    found, said = runs.weights("two", *RAY)
    assert runs.happened
    assert said.count("worker 1 has ended") == 1
    assert said.count("starting again from the newest checkpoint (2 more times)") == 1
    assert found == runs.of_replicas()
    assert (runs.folder / "two/checkpoints/pass-0004/part-0001.safetensors").exists()
    assert os.listdir(runs.temporary) == []
    wait_until_ended(runs)


@pytest.mark.services
def test_a_run_starts_again_when_a_worker_was_stopped(
    runs: Runs,
    command: Learn,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is continued, to tell where it was, and ends.

    The command runs in this process, so that its patience can end at the event.
    """
    from blocklearn.learner.engines.ray import RayWorkers

    answer, process = RayWorkers._answer, runs.folder / "process"

    def impatient(workers: RayWorkers, asked: Any) -> Any:
        with suppress(OSError, psutil.NoSuchProcess):
            if psutil.Process(int(process.read_text())).status() == psutil.STATUS_STOPPED:
                workers.patience = 0.5  # it never comes, however long this is
        try:
            return answer(workers, asked)
        finally:
            workers.patience = PATIENCE

    monkeypatch.setattr(RayWorkers, "_answer", impatient)
    runs.fault("stopped")
    code, out, said = command("train", "--config", "run.yaml", "--out", "two", *RAY)
    assert code == 0
    assert "worker 1 did not answer within 0.5 s; starting again from" in out + said
    assert "worker 1 was stopped by a signal, and continues for now. Stacks of" in caplog.text
    assert "in assist\n    learner.fit()" in caplog.text  # it may be anywhere in there
    assert not psutil.pid_exists(int(process.read_text()))
    found = (runs.folder / "two" / "weights.safetensors").read_bytes()
    assert found == runs.of_replicas()


@pytest.mark.services
def test_a_run_whose_command_was_killed_leaves_nothing_and_resumes(runs: Runs) -> None:
    """No process is left, and nothing in shared memory."""
    runs.fault("driver")
    before = stores()
    assert runs.train("two", *RAY).returncode == -signal.SIGKILL
    started = [each.split(":") for each in (runs.folder / "started").read_text().split()]
    assert len(started) >= 3  # gcs_server, raylet, worker 1
    for number, begun in started:
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(int(number))
            if str(process.create_time()) == begun:
                process.wait(PATIENCE)
    wait_until_ended(runs)
    assert stores() <= before
    found, said = runs.weights("two", *RAY, "--resume", "auto")
    assert "resum" in said
    assert found == runs.of_replicas()


class Clock:
    """The clock of Ray's wait for a raylet, of 30 seconds: slow, but over when a raylet has ended.

    For a raylet ends if its agents do not start within 15 seconds, which cannot be set.
    """

    def __init__(self) -> None:
        self.over = 0.0

    def __call__(self) -> float:
        """Return seconds."""
        for process in psutil.Process().children():
            with suppress(psutil.NoSuchProcess):
                if process.name() == "raylet" and process.status() == psutil.STATUS_ZOMBIE:
                    self.over += 60.0
        return time.monotonic() / 20 + self.over


def add_machine(machines: Any, cpus: int) -> None:
    """Start a raylet, again if it ends before it is known to the others."""
    before = {process.pid for process in psutil.Process().children()}
    for _ in range(20):
        try:
            machines.add_node(wait=False, num_cpus=cpus)  # its `Node` has waited already
            return
        except Exception as error:
            if "timed out" not in str(error).lower():
                raise
        for process in psutil.Process().children():
            if process.pid not in before:
                with suppress(psutil.NoSuchProcess):
                    for each in [*process.children(recursive=True), process]:
                        each.kill()
                process.wait(PATIENCE)
    raise AssertionError("no raylet starts")


@contextmanager
def two_machines(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Start raylets that `runs` use, each with room for one worker.

    A machine may be as busy as it likes: none gives up on another because of the time.
    """
    from ray._private import node
    from ray.cluster_utils import Cluster

    patient = {
        "RAY_worker_niceness": "0",
        "RAY_gcs_server_port_wait_time_s": "600",
        "RAY_agent_register_timeout_ms": "600000",
        "RAY_worker_register_timeout_seconds": "600",
        "RAY_health_check_timeout_ms": "600000",  # a raylet that has ended answers at once: never
    }
    for name, value in patient.items():
        monkeypatch.setenv(name, value)
    runs.environment |= patient
    monkeypatch.setattr(node, "time", SimpleNamespace(**vars(time) | {"monotonic": Clock()}))
    runs.fault("machine")
    machines = Cluster()
    try:
        for cpus in (0, 1, 1):
            add_machine(machines, cpus)
        runs.environment["RAY_ADDRESS"] = machines.address
        yield
    finally:
        machines.shutdown()


@pytest.mark.services
def test_a_run_goes_on_when_a_machine_was_lost(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Worker 0 is on the first machine."""
    with two_machines(runs, monkeypatch):
        found, said = runs.weights("two", "--workers", "2")  # the engine is that of RAY_ADDRESS
    assert runs.happened
    assert said.count("starting again from the newest checkpoint (2 more times)") == 1
    assert found == runs.of_replicas()


@pytest.mark.services
def test_a_run_goes_on_with_fewer_workers_if_there_is_no_room_for_all(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the bits of 3 workers up to its checkpoint, and of 2 from there on."""
    pytest.importorskip("mpi4py")
    runs.weights("one", "--engine", "mpi", "--workers", "3", "--set", "learner.passes=1")
    expected, warned = runs.weights("one", "--engine", "mpi", "--workers", "2", "--resume", "auto")
    with two_machines(runs, monkeypatch):
        found, said = runs.weights(
            "two", "--workers", "3", "--set", "distributed.replace_seconds=20"
        )
    assert runs.happened
    assert "continuing with 2 of 3 workers" in said
    for text in (warned, said):
        assert "continuing with workers=2, but the run had 3: from here on" in text
    assert found == expected


def stores() -> set[str]:
    """Files of object stores in shared memory."""
    return {name for name in os.listdir("/dev/shm") if "plasma" in name or "ray" in name}


def wait_until_ended(runs: Runs) -> None:
    """Wait until no process has files below the folder of `runs` for Ray, or is named by it."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            opened = [file.path for file in process.open_files()]
            if any(runs.temporary in text for text in (*process.cmdline(), *opened)):
                process.wait(PATIENCE)
