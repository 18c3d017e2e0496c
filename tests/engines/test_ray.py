"""Workers that are actors of Ray, in a cluster of this machine."""

from __future__ import annotations

import hashlib
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import psutil
import pytest
from scipy import sparse

import blocklearn as bl
from blocklearn.datasources import MatrixSource
from blocklearn.datasources.blocks.write import write_blocks
from blocklearn.learner.engines.crew import Crew
from blocklearn.learner.engines.exchange import Exchange
from blocklearn.learner.engines.open import opened
from blocklearn.learner.errors import ConfigError, WorkerError, WorkerLostError
from blocklearn.models import NMF
from tests.engines.test_workers import CASES, Stops, data_of, learnt, trained
from tests.support import exchange_cases, needed_cases
from tests.support.filed_workers import made, whole
from tests.support.learn_command import Learn
from tests.support.web_servers import closed_port
from tests.support.workers import few_travel

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


@pytest.mark.services
def test_an_address_at_which_nothing_listens_is_named_at_once() -> None:
    pytest.importorskip("ray")
    address = closed_port()
    with (
        opened("ray", 2, task=lambda: work, address=address) as own,
        pytest.raises(WorkerLostError, match=f"no cluster at {address}: .*refused"),
    ):
        Crew(own).gather(0)


@pytest.mark.services
def test_a_class_that_workers_cannot_import_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray")
    from blocklearn.learner.engines.meeting import loaded
    from blocklearn.learner.engines.ray import pickled

    module = ModuleType("mine")
    exec("class Mine: pass", vars(module))
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "mine", module)
        task = pickled(module.Mine)
        assert loaded(task) is module.Mine
    with pytest.raises(ConfigError, match=r"No module named 'mine'\)\. Install it on"):
        loaded(task)


UNCLOSED = """\
import numpy as np, blocklearn as bl
X = np.ones((20, 3), np.float32)
learner = bl.Learner("nmf", X, block_rows=10, threads=1, engine="ray", workers=2).fit()
"""


@pytest.mark.services
def test_a_program_that_does_not_close_its_learner_leaves_nothing() -> None:
    pytest.importorskip("ray")
    with TemporaryDirectory(dir="/tmp") as short:  # as names of sockets must be
        environment = os.environ | {"TMPDIR": short, "RAY_worker_niceness": "0"}
        environment.pop("RAY_ADDRESS", None)
        command = [sys.executable, "-c", UNCLOSED]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        assert os.listdir(short) == []


@pytest.mark.services
def test_workers_regroup_without_a_cluster_that_did_not_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ray would start another one by itself, which any machine can reach."""
    ray = pytest.importorskip("ray")

    def fails(**given: Any) -> None:
        raise Exception("The node timed out during startup.\nSee its logs.")

    workers = started(2, work)
    monkeypatch.setattr(ray, "init", fails)
    for _ in range(2):
        with pytest.raises(WorkerLostError, match=r"no cluster: The node timed out .*\.$"):
            work(workers)
        workers.regroup(2, 1.0)
    assert not ray.is_initialized()
    workers.close()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A cluster of this machine, which all tests share, and no statistics of which are sent."""
    pytest.importorskip("ray")
    from blocklearn.learner.engines.ray_cluster import joined

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_worker_niceness", "0")  # by 15 they would wait for whatever else runs
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
    with started(3, work, patience=float("inf")) as own:
        for count in (3, 2**13 + 1, 0):
            found = own.exchange([np.full(count + to, 7, np.float32) for to in range(3)])
            assert [part.tolist() for part in found] == [[7] * count, [1] * count, [2] * count]
            assert all(part.flags.writeable and part.flags.aligned for part in found)


@pytest.mark.services
def test_actors_merge_and_fetch_with_the_bits_of_numpy(cluster: Any, tmp_path: Path) -> None:
    """Tables of hostile shapes, and rows that blocks need."""

    def work(own: Exchange) -> None:
        merged = [exchange_cases.merged(case, own) for case in exchange_cases.CASES]
        fetched = [needed_cases.by_workers(case, own) for case in needed_cases.CASES]
        (tmp_path / f"worker-{own.rank}").write_bytes(pickle.dumps((merged, fetched)))
        own.exchange([np.zeros(0)] * own.size)  # all have written

    with started(3, work) as own:
        work(own)
    found = [pickle.loads((tmp_path / f"worker-{rank}").read_bytes()) for rank in range(3)]
    exchange_cases.check([merged for merged, _ in found], exchange_cases.CASES)
    needed_cases.check([fetched for _, fetched in found], needed_cases.CASES)


def ports(process: psutil.Process) -> list[tuple[str, str]]:
    """The names of a process and of those it has started, and the addresses they listen at."""
    found = []
    for each in [process, *process.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):
            for port in each.net_connections("inet"):
                if port.status == psutil.CONN_LISTEN:
                    found.append((each.name(), port.laddr.ip.removeprefix("::ffff:")))
    return found


@pytest.mark.services
def test_a_cluster_of_this_machine_listens_to_this_machine_alone(cluster: Any) -> None:
    with started(3, work) as own:
        work(own)
        found = ports(psutil.Process())
    assert {"gcs_server", "raylet"} < {name for name, _ in found}
    assert len(found) >= 7  # of the driver, three actors, and the parts of Ray
    assert {address for _, address in found} == {"127.0.0.1"}


@pytest.mark.services
def test_signals_are_heard_while_workers_wait_for_cores(
    cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray's own wait has no end for them."""
    from ray.util.placement_group import PlacementGroup

    waits = []

    def wait(group: Any, seconds: float) -> bool:
        waits.append(seconds)
        if len(waits) == 3:
            raise KeyboardInterrupt  # as a handler does
        return False

    monkeypatch.setattr(PlacementGroup, "wait", wait)
    with started(2, work) as own, pytest.raises(KeyboardInterrupt):
        work(own)
    assert waits == [1.0] * 3


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
@pytest.mark.parametrize("name", ["lda kept", "als explicit cg", "word-vectors"])
def test_workers_that_a_learner_starts_learn_what_replicas_learn(name: str, cluster: Any) -> None:
    expected = learnt(trained(CASES[name], replicas=2))
    learner = trained(CASES[name], engine="ray", workers=2)
    try:
        assert learnt(learner) == expected
    finally:
        learner.close()


@pytest.mark.services
@pytest.mark.parametrize("name", ["blocks", "vb"])
def test_each_worker_has_tables_in_files_of_its_own(
    name: str, cluster: Any, tmp_path: Path
) -> None:
    expected = whole(made(name, replicas=2).fit())
    learner = made(name, engine="ray", workers=2, table_folder=tmp_path)
    try:
        assert whole(learner.fit()) == expected
        assert (tmp_path / "learner-worker-1-tables").exists()
    finally:
        learner.close()
    assert list(tmp_path.iterdir()) == []


class Mortal(NMF):
    """Ends the process of a worker at the end of its second pass, once."""

    recorded: ClassVar[bool] = False  # else the code of `end_pass` is left out
    folder: str

    def end_pass(self) -> None:
        """See `Model`."""
        super().end_pass()
        folder = Path(self.folder)
        if "RAY_JOB_ID" in os.environ and (folder / "saved" / "pass-0001").exists():
            with suppress(FileExistsError):
                (folder / "dead").mkdir()
                os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.services
def test_a_learner_closes_after_a_worker_was_lost_and_begins_anew(
    cluster: Any, tmp_path: Path
) -> None:
    """Or at its newest checkpoint."""
    X = np.random.default_rng(0).random((90, 8), np.float32)
    model = Mortal(components=3, folder=str(tmp_path))
    given: dict[str, Any] = {
        "passes": 3, "block_rows": 10, "threads": 1, "checkpoint": tmp_path / "saved",
    }  # fmt: skip
    learner = bl.Learner(model, X, engine="ray", workers=2, verbose=False, **given)
    with pytest.raises(WorkerLostError, match="worker 1 has ended"):
        learner.fit()
    assert (tmp_path / "dead").exists()
    learner.close()
    with pytest.raises(ValueError, match="nothing is trained"):
        learner.parameter("H")
    found = learnt(learner.fit())
    learner.close()
    expected = bl.Learner(model, X, replicas=2, verbose=False, **given | {"checkpoint": None})
    assert found == learnt(expected.fit())


def digests(names: list[str], own: Exchange) -> dict[str, list[str]]:
    """Train variants one after another; return digests of what each worker has learnt, by name."""
    crew = Crew(own)
    with few_travel():
        return {name: crew.gather(digest(trained(CASES[name], engine=crew))) for name in names}


def digest(learner: bl.Learner) -> str:
    """A digest of all that comes out of a training."""
    return hashlib.sha256(repr(learnt(learner)).encode()).hexdigest()


@pytest.mark.services
@pytest.mark.parametrize("size", [2, 4])
def test_the_same_workers_learn_all_models(size: int, cluster: Any) -> None:
    """What replicas learn."""
    names = list(CASES)
    with started(size, partial(digests, names)) as own:
        found = digests(names, own)
    for name in names:
        assert found[name] == [digest(trained(CASES[name], replicas=size))] * size, name


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
