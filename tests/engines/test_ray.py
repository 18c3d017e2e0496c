"""Workers that are actors of Ray, in a cluster of this machine."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import blocklearn as bl
from blocklearn.datasources import MatrixSource
from blocklearn.datasources.blocks.write import write_blocks
from blocklearn.learner.engines.crew import Crew
from blocklearn.learner.engines.exchange import Exchange
from blocklearn.learner.engines.open import opened
from blocklearn.learner.errors import ConfigError, WorkerError, WorkerLostError
from tests.engines.test_workers import CASES, FIRST, Stops, data_of, learnt, trained
from tests.support.learn_command import Learn

ROOT = Path(__file__).parents[2]
PATIENCE = 600.0  # seconds, far more than any test needs


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ModuleNotFoundError, match=r"^engine=ray: needs ray .*'blocklearn\[ray\]'"):
        bl.Learner("nmf", np.ones((40, 3), np.float32), engine="ray", workers=2)


@pytest.mark.services
@pytest.mark.parametrize(
    "message, given",
    [
        (r"^workers: must be given with engine=ray, such as workers=4\.$", {}),
        (r"^device=cuda:0: must be cpu with engine=ray\.", {"workers": 2, "device": "cuda"}),
    ],
)
def test_what_ray_cannot_do_is_refused_before_it_starts(message: str, given: Any) -> None:
    pytest.importorskip("ray")
    with pytest.raises(ConfigError, match=message):
        bl.Learner("nmf", np.ones((40, 3), np.float32), block_rows=10, engine="ray", **given)


@pytest.mark.services
def test_the_address_of_a_client_is_refused() -> None:
    pytest.importorskip("ray")
    with pytest.raises(ConfigError, match=r"^address=ray://node: must be that of a cluster"):
        opened("ray", 2, task=lambda: work, address="ray://node")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A cluster of this machine, which all tests share, and no statistics of which are sent."""
    pytest.importorskip("ray")
    from blocklearn.learner.engines.ray_cluster import joined

    with joined(None, 4):
        yield


def started(size: int, task: Any, patience: float = PATIENCE) -> Any:
    """The connection of worker 0. Other workers call `task` with theirs."""
    return opened("ray", size, patience, task=lambda: task, threads=1)


def work(own: Exchange) -> None:
    """Exchange parts of odd sizes, small ones and large ones, three times."""
    for count in (3, 2**13 + 1, 0):
        own.exchange([np.full(count + to, own.rank, np.float32) for to in range(own.size)])


@pytest.mark.services
def test_each_worker_gets_what_each_gave_to_it(cluster: Any) -> None:
    with started(3, work) as own:
        for count in (3, 2**13 + 1, 0):
            found = own.exchange([np.full(count + to, 7, np.float32) for to in range(3)])
            assert [part.tolist() for part in found] == [[7] * count, [1] * count, [2] * count]
            assert all(part.flags.writeable and part.flags.aligned for part in found)


def fails(own: Exchange) -> None:
    """Meet once, then raise an error."""
    crew = Crew(own)
    crew.gather(0)
    raise ValueError("no such luck")


def hangs(own: Exchange) -> None:
    """Meet once, and never again."""
    Crew(own).gather(0)
    signal.pause()


def dies(own: Exchange) -> None:
    """Meet once; then the process is killed, if it is worker 2."""
    crew = Crew(own)
    crew.gather(0)
    if own.rank == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    crew.gather(0)


@pytest.mark.services
def test_an_error_of_a_worker_is_that_of_all(cluster: Any) -> None:
    with started(3, fails) as own:
        crew = Crew(own)
        crew.gather(0)
        with pytest.raises(WorkerError, match="worker 1: ValueError: no such luck"):
            crew.gather(0)
        with pytest.raises(WorkerLostError, match="a worker was lost before"):
            crew.gather(0)


@pytest.mark.services
def test_a_worker_that_was_killed_is_noticed_and_others_may_start(cluster: Any) -> None:
    with started(3, dies) as own:
        crew = Crew(own)
        assert crew.gather(0) == [0, 0, 0]
        with pytest.raises(WorkerLostError, match="worker 2 has ended"):
            crew.gather(0)
        own.renew()
        own.task = lambda: work
        work(own)


@pytest.mark.services
def test_a_worker_that_hangs_is_named_with_its_stacks(
    cluster: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with started(2, hangs) as own:
        crew = Crew(own)
        crew.gather(0)
        own.patience = 0.5  # it never comes, however long this is
        with pytest.raises(WorkerLostError, match=r"^worker 1 did not answer within 0\.5 s"):
            crew.gather(0)
    assert "in hangs\n    signal.pause()" in caplog.text


@pytest.mark.services
@pytest.mark.parametrize("name", FIRST)
def test_workers_learn_what_replicas_learn(name: str, cluster: Any) -> None:
    expected = learnt(trained(CASES[name], replicas=2))
    learner = trained(CASES[name], engine="ray", workers=2)
    try:
        assert learnt(learner) == expected
    finally:
        learner.close()


@pytest.mark.services
def test_a_learner_goes_on_with_its_workers(cluster: Any) -> None:
    """After a hook has stopped it where replicas are apart, and on other data."""
    variant, options = CASES["glm block"], {"sync_every": 1, "sync_weight": 0.5}
    found = []
    for given in ({"replicas": 3}, {"engine": "ray", "workers": 3}):
        hook = Stops(6)
        learner = trained(variant, hooks=[hook], **options, **given)
        early = learnt(learner), hook.heard, hook.seen
        hook.blocks = 10**9
        later = learnt(learner.fit())
        learner.close()  # its workers end, and others start
        found.append((early, later, learnt(learner.fit(data_of(variant), passes=2))))
        learner.close()
    assert found[0] == found[1]


@pytest.mark.services
def test_workers_share_the_rows_of_commands(cluster: Any, tmp_path: Path, command: Learn) -> None:
    """The parts in their order, and the scores, are those of one process."""
    X = sparse.csr_array(np.random.default_rng(0).poisson(0.3, (50, 12)).astype(np.float32))
    write_blocks(MatrixSource(X, block_rows=10), [tmp_path / "data"])
    model = bl.Learner(bl.models.LDA(topics=3), X, passes=1, threads=1, verbose=False).fit()
    bl.save(model, tmp_path / "model")
    given = [str(tmp_path / "model"), "--data", str(tmp_path / "data")]
    engine, out = ["--engine", "ray", "--workers", "3"], str(tmp_path / "p.npy")
    code, said, _ = command("predict", *given, "--out", out, *engine)
    assert code == 0 and said.count(" rows\n") == 3
    assert command("predict", *given, "--out", out)[0] == 0
    parts = [np.load(tmp_path / f"p-{number}-of-3.npy") for number in range(3)]
    assert np.concatenate(parts).tobytes() == np.load(out).tobytes()
    assert command("evaluate", *given, *engine) == command("evaluate", *given)
    bl.save(bl.Learner(bl.models.ALS(rank=3), X, passes=1, verbose=False).fit(), tmp_path / "als")
    lists = ["recommend", str(tmp_path / "als"), "--include-seen", "--out", str(tmp_path / "r.csv")]
    assert command(*lists)[0] == command(*lists, *engine)[0] == 0
    head, *rows = (tmp_path / "r.csv").read_text().splitlines()
    texts = [(tmp_path / f"r-{number}-of-3.csv").read_text().splitlines() for number in range(3)]
    assert [text[0] for text in texts] == [head] * 3
    assert [line for text in texts for line in text[1:]] == rows
    code, _, said = command("predict", *given, "--out", out, *engine)
    assert code != 0 and "p-0-of-3.npy: the file exists already" in said


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
def test_a_run_goes_on_when_a_machine_was_lost(runs: Runs, cluster: Any) -> None:
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
