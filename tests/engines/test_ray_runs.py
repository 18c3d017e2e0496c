"""Runs of `learn train` with workers of Ray that are lost."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATIENCE = 600.0  # seconds, far more than any test needs


FRAGILE = """\
import os, signal
from pathlib import Path
from blocklearn.models import NMF

class Fragile(NMF):
    def end_pass(self):
        super().end_pass()
        of_ray, mark = "RAY_JOB_ID" in os.environ, Path("killed")
        if of_ray and Path("two/checkpoints/pass-0001").exists() and not mark.exists():
            mark.touch()
            victim = os.getppid() if Path("machines").exists() else os.getpid()
            os.kill(victim, signal.SIGKILL)
            signal.pause()  # until its machine has ended it
"""

CONFIG = """\
model: {kind: "fragile.py:Fragile", components: 3, loss: kullback-leibler}
data: {train: {kind: python-calls}, block_rows: 1024}
learner: {passes: 4, sync_every: 1, threads: 1, report: false}
"""


class Runs:
    """Runs of `learn train` in a folder. In its second pass the run "two" loses a worker, once."""

    def __init__(self, folder: Path, temporary: str) -> None:
        """temporary: a folder for Ray."""
        self.folder = folder
        self.environment = os.environ | {
            "TMPDIR": temporary,
            "PYTHONPATH": str(ROOT),
            "RAY_worker_niceness": "0",  # by 15 they would wait for whatever else runs here
            "HYDRA_IFACE": "lo",
        }
        self.environment.pop("RAY_ADDRESS", None)
        (folder / "fragile.py").write_text(FRAGILE)
        (folder / "run.yaml").write_text(CONFIG)

    def weights(self, out: str, *options: str) -> tuple[bytes, str]:
        """The model of a run, and what it said."""
        learn = [sys.executable, "-m", "blocklearn.learner.command_line.cli", "train"]
        done = subprocess.run(
            [*learn, "--config", "run.yaml", "--out", out, *options],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, done.stderr
        return (self.folder / out / "weights.safetensors").read_bytes(), done.stderr


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    """Runs, and a folder for Ray with a name as short as those of sockets must be."""
    pytest.importorskip("ray")
    short = tempfile.mkdtemp(dir="/tmp")
    yield Runs(tmp_path, short)
    shutil.rmtree(short)


@pytest.mark.services
def test_a_run_starts_again_when_a_worker_was_killed(runs: Runs) -> None:
    """It ends with the bits of replicas, and leaves no process and no file of Ray."""
    expected, _ = runs.weights("one", "--set", "learner.replicas=2")
    found, said = runs.weights("two", "--engine", "ray", "--workers", "2")
    assert (runs.folder / "killed").exists()
    assert said.count("worker 1 has ended") == 1
    assert said.count("starting again from the newest checkpoint (2 more times)") == 1
    assert found == expected
    short = runs.environment["TMPDIR"]
    assert running(short) == []
    assert os.listdir(short) == []


@contextmanager
def two_machines(runs: Runs) -> Iterator[None]:
    """Start raylets that `runs` use, each with room for one worker.

    Skips the test if the machine is so busy that Ray gives up starting them.
    """
    from ray.cluster_utils import Cluster

    (runs.folder / "machines").touch()
    machines = Cluster()
    try:
        try:
            for cpus in (0, 1, 1):
                machines.add_node(num_cpus=cpus)
        except Exception as error:
            if "timed out" not in str(error).lower():
                raise
            pytest.skip(f"no raylet in the time that Ray gives it: {error}")
        runs.environment["RAY_ADDRESS"] = machines.address
        yield
    finally:
        machines.shutdown()


@pytest.mark.services
def test_a_run_goes_on_when_a_machine_was_lost(runs: Runs) -> None:
    """Worker 0 is on the first machine."""
    expected, _ = runs.weights("one", "--set", "learner.replicas=2")
    with two_machines(runs):
        found, said = runs.weights("two", "--workers", "2")  # the engine is that of RAY_ADDRESS
    assert (runs.folder / "killed").exists()
    assert said.count("starting again from the newest checkpoint (2 more times)") == 1
    assert found == expected


@pytest.mark.services
def test_a_run_goes_on_with_fewer_workers_if_there_is_no_room_for_all(runs: Runs) -> None:
    """It has the bits of 3 workers up to its checkpoint, and of 2 from there on."""
    pytest.importorskip("mpi4py")
    runs.weights("one", "--engine", "mpi", "--workers", "3", "--set", "learner.passes=1")
    expected, warned = runs.weights("one", "--engine", "mpi", "--workers", "2", "--resume", "auto")
    with two_machines(runs):
        found, said = runs.weights(
            "two", "--workers", "3", "--set", "distributed.replace_seconds=20"
        )
    assert (runs.folder / "killed").exists()
    assert "going on with 2 of 3 workers" in said
    for text in (warned, said):
        assert "going on with workers=2, but the run had 3: from here on" in text
    assert found == expected


def running(text: str) -> list[str]:
    """Commands of processes that have `text`, after those that are ending had time to do so."""
    found: list[str] = []
    for _ in range(100):
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                command = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if text in command:
                found.append(command)
        if not found:
            break
        time.sleep(0.1)
    return found
