"""Workers that are processes of MPI."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import blocklearn as bl
from blocklearn.datasources import MatrixSource
from blocklearn.datasources.blocks.write import write_blocks
from blocklearn.learner.command_line.launching import launched
from tests.engines.test_workers import CASES, FIRST, learnt, trained
from tests.support import exchange_cases, needed_cases
from tests.support.filed_workers import made, whole
from tests.support.learn_command import Learn
from tests.support.mpi_workers import FILED

ROOT = Path(__file__).parents[2]
WORSE = ROOT / "tests" / "support" / "worse_models.py"
MPIEXEC = Path(sys.executable).with_name("mpiexec")
PATIENCE = 1200  # seconds, far more than any test needs

pytest.importorskip("mpi4py", reason="mpi4py is not installed")
pytestmark = pytest.mark.skipif(not MPIEXEC.exists(), reason="no mpiexec beside this Python")


def mpiexec(workers: int, *command: Any) -> subprocess.CompletedProcess[str]:
    """Run `python COMMAND` as workers of MPI on this machine."""
    given = [MPIEXEC, "-n", workers, sys.executable, *command]
    environment = os.environ | {"HYDRA_IFACE": "lo", "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [str(each) for each in given],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )


def learn(
    workers: int, *arguments: Any, model: tuple[str, ...] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command `learn train` as workers, on data of the package.

    model: name of a configuration, and settings; None: LDA.
    """
    name, *own = model or ("lda", *SMALL)
    settings = ["learner.passes=2", "learner.sync_every=2", "learner.threads=1", *own]
    given = [word for each in settings for word in ("--set", each)]
    command = ["-m", "blocklearn.learner.command_line.cli", "train"]
    config = ROOT / "configs" / f"{name}.yaml"
    return mpiexec(workers, *command, "--config", config, *given, *arguments)


SMALL = ("model.inference=cvb0", "model.topics=3", "data.train={kind: python-docs}")


SOME = ["lda kept", "als by need", "lda wide", "als explicit cg", "nmf frobenius"]
"""Variants whose workers exchange in ways of their own."""


def outcomes(workers: int, names: list[str], folder: Path) -> list[dict[str, Any]]:
    """What the workers of one job have of merges, of rows fetched, and of variants, by rank."""
    run = mpiexec(workers, "-m", "tests.support.mpi_workers", folder, *names)
    assert run.returncode == 0, run.stderr
    return [pickle.loads((folder / f"worker-{rank}").read_bytes()) for rank in range(workers)]


def check_merged(found: list[dict[str, Any]]) -> None:
    exchange_cases.check([own["merged"] for own in found], exchange_cases.CASES)


def check_fetched(found: list[dict[str, Any]]) -> None:
    needed_cases.check([own["fetched"] for own in found], needed_cases.CASES)


def check_learnt(found: list[dict[str, Any]], names: list[str]) -> None:
    expected = {name: learnt(trained(CASES[name], replicas=len(found))) for name in names}
    for own in found:
        assert own["learnt"] == expected


def check_filled(found: list[dict[str, Any]]) -> None:
    expected = [whole.tobytes() for whole, _ in exchange_cases.rooms(len(found))]
    assert [own["filled"] for own in found] == [expected] * len(found)


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The outcomes of three workers, by rank."""
    return outcomes(3, SOME[:2], tmp_path_factory.mktemp("three"))


def test_processes_learn_what_replicas_learn(three: list[dict[str, Any]]) -> None:
    """The same processes train one model after another."""
    check_learnt(three, SOME[:2])


def test_processes_merge_hostile_shapes_with_the_bits_of_numpy(three: list[dict[str, Any]]) -> None:
    check_merged(three)


def test_processes_fill_memory_together(three: list[dict[str, Any]]) -> None:
    check_filled(three)


def test_processes_keep_tables_in_files(three: list[dict[str, Any]]) -> None:
    for name in FILED:
        expected = whole(made(name, replicas=3).fit())
        assert [own["filed"][name] for own in three] == [expected] * 3


def test_processes_fetch_rows_with_the_bits_of_numpy(three: list[dict[str, Any]]) -> None:
    check_fetched(three)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 4])
def test_processes_learn_all_models(workers: int, tmp_path: Path) -> None:
    """Every variant with workers that are threads is in test_workers.py."""
    names = list(dict.fromkeys([*FIRST, *SOME]))
    found = outcomes(workers, names, tmp_path)
    check_merged(found)
    check_filled(found)
    check_fetched(found)
    check_learnt(found, names)


STOPPED = """\
import os, signal, sys
from blocklearn.learner.engines.mpi import connect
if os.environ["PMI_RANK"] == "1":
    if sys.argv[1] == "after":
        from mpi4py import MPI
    os.kill(os.getpid(), signal.SIGSTOP)
connect(1.0)
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_worker_that_is_stopped_while_mpi_starts_is_noticed(when: str) -> None:
    """Before the library starts, or before its first call: it waits for it without a deadline."""
    run = mpiexec(2, "-c", STOPPED, when)
    assert run.returncode != 0
    assert "Timeout (0:00:01)!" in run.stderr


SHARES = """\
from pathlib import Path
from blocklearn.learner.engines.mpi import SHARED, connect
connect(600.0)
names = {each for each in Path("/proc/self/maps").read_text().splitlines() if SHARED in each}
assert names and all(each.endswith("(deleted)") for each in names), names
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="no list of a process's memory")
def test_workers_have_no_files_in_shared_memory_that_a_kill_would_leave() -> None:
    run = mpiexec(2, "-c", SHARES)
    assert run.returncode == 0, run.stderr


def test_the_command_trains_with_the_workers_of_mpirun(tmp_path: Path, command: Learn) -> None:
    """Worker 0 alone writes and prints; one process with two replicas resumes the run."""
    run = learn(2, "--out", tmp_path / "two")
    assert run.returncode == 0, run.stderr
    assert run.stderr.count("the model is in") == 1
    one = [f"--config={ROOT / 'configs' / 'lda.yaml'}", f"--out={tmp_path / 'one'}", "--quiet"]
    given = ["learner.passes=2", "learner.sync_every=2", "learner.replicas=2", *SMALL]
    settings = [word for each in given for word in ("--set", each)]
    assert command("train", *one, *settings)[0] == 0
    for file in ("weights.safetensors", "checkpoints/pass-0002/state.safetensors"):
        assert (tmp_path / "two" / file).read_bytes() == (tmp_path / "one" / file).read_bytes()
    code, _, said = command(
        "train", *one[:1], f"--out={tmp_path / 'two'}", "--resume=auto", *settings
    )
    assert code == 0 and "finished, 2 passes are done" in said


KILLED = {
    "writing": (1, ["pass-0001"]),
    "all parts are written": (0, ["pass-0001"]),
    "all is written": (0, ["pass-0001", "pass-0002"]),
}
"""What a worker has done last: its rank, and the checkpoints that its job leaves."""


@pytest.mark.slow
@pytest.mark.parametrize("when", KILLED)
def test_killed_workers_leave_whole_checkpoints(when: str, tmp_path: Path) -> None:
    """The next run has the bits of replicas, and removes what was left."""
    rank, left = KILLED[when]
    run = mpiexec(2, "-m", "tests.support.mpi_parts", tmp_path, "--kill", rank, when)
    assert run.returncode != 0
    saved = tmp_path / "saved"
    assert sorted(path.name for path in saved.glob("pass-*")) == left
    assert (saved / ".pass-0002.saving").exists() == (len(left) == 1)
    run = mpiexec(2, "-m", "tests.support.mpi_parts", tmp_path)
    assert run.returncode == 0, run.stderr
    expected = learnt(trained(CASES["nmf frobenius"], replicas=2))
    for number in range(2):
        assert pickle.loads((tmp_path / f"worker-{number}").read_bytes()) == expected
    assert sorted(path.name for path in saved.iterdir()) == ["pass-0002", "pass-0003"]
    assert len(list((saved / "pass-0003").glob("part-*"))) == 2


KILLED_WITH_LOGS = {
    "all logs are written": ("rows", 0, ["pass-0001"]),
    "writing logs": ("vb", 1, ["pass-0001"]),
    "all parts are written": ("rows", 0, ["pass-0001"]),
    "all is written": ("vb", 0, ["pass-0001", "pass-0002"]),
}
"""Whose logs, and what a worker has done last: its rank, the checkpoints that its job leaves."""


@pytest.mark.slow
@pytest.mark.parametrize("when", KILLED_WITH_LOGS)
def test_killed_workers_leave_whole_logs(when: str, tmp_path: Path) -> None:
    """Logs of tables in files that no manifest lists are none: the run begins one before."""
    name, rank, left = KILLED_WITH_LOGS[when]
    run = mpiexec(
        2, "-m", "tests.support.mpi_parts", tmp_path, "--tables", name, "--kill", rank, when
    )
    assert run.returncode != 0
    saved = tmp_path / "saved"
    assert sorted(path.name for path in saved.glob("pass-*")) == left
    logs = sorted(path.name for path in (saved / ".pass-0002.saving").glob("pages-*"))
    if when == "all logs are written":
        assert logs == ["pages-0000-0000.safetensors", "pages-0001-0000.safetensors"]
        assert not (saved / ".pass-0002.saving" / "checkpoint.json").exists()
    run = mpiexec(2, "-m", "tests.support.mpi_parts", tmp_path, "--tables", name)
    assert run.returncode == 0, run.stderr
    expected = whole(made(name, replicas=2).fit())
    for number in range(2):
        assert pickle.loads((tmp_path / f"worker-{number}").read_bytes()) == expected
    assert sorted(path.name for path in saved.iterdir()) == ["pass-0001", "pass-0002"]


@pytest.mark.slow
def test_the_command_resumes_from_parts(tmp_path: Path, command: Learn) -> None:
    """One process reads those of two, with the best model of all, which is in parts, too."""
    worse = f"model.kind={WORSE}:LikenessNMF", "evaluation={metric: likeness, better: higher}"
    nmf = ("nmf", "model.components=3", "data.block_rows=64", *worse)
    run = learn(2, "--out", tmp_path / "two", model=nmf)
    assert run.returncode == 0, run.stderr
    assert "the model is the best one: likeness" in run.stderr
    assert "after pass 1" in run.stderr
    parts = list((tmp_path / "two" / "checkpoints" / "pass-0001").glob("part-*"))
    assert len(parts) == 2
    given = ["learner.passes=3", "learner.sync_every=2", "learner.replicas=2", *nmf[1:]]
    settings = [word for each in given for word in ("--set", each)]
    one = [f"--config={ROOT / 'configs' / 'nmf.yaml'}", "--quiet", *settings]
    assert command("train", *one, f"--out={tmp_path / 'two'}", "--resume=auto")[0] == 0
    assert command("train", *one, f"--out={tmp_path / 'one'}")[0] == 0
    weights = [(tmp_path / out / "weights.safetensors").read_bytes() for out in ("two", "one")]
    assert weights[0] == weights[1]


@pytest.mark.slow
def test_the_command_keeps_tables_in_files(tmp_path: Path, command: Learn) -> None:
    """The best model is that of one process with tables in memory, which resumes the run."""
    worse = f"model.kind={WORSE}:LikenessLDA", "evaluation={metric: likeness, better: higher}"
    own = (*SMALL, "data.block_rows=10", "data.eval={kind: holdout, share: 0.02}", *worse)
    given = ("--set", f"learner.table_folder={tmp_path / 'tables'}")
    run = learn(2, "--out", tmp_path / "two", *given, model=("lda", *own, "learner.sync_every=40"))
    assert run.returncode == 0, run.stderr
    assert "after pass 1" in run.stderr
    assert list((tmp_path / "two" / "checkpoints" / "pass-0001").glob("pages-*"))
    assert list((tmp_path / "tables").iterdir()) == []
    few = ("learner.passes=3", "learner.sync_every=40", "learner.replicas=2", *own)
    settings = [word for each in few for word in ("--set", each)]
    one = [f"--config={ROOT / 'configs' / 'lda.yaml'}", "--quiet", *settings]
    assert command("train", *one, f"--out={tmp_path / 'two'}", "--resume=auto")[0] == 0
    assert command("train", *one, f"--out={tmp_path / 'one'}")[0] == 0
    weights = [(tmp_path / out / "weights.safetensors").read_bytes() for out in ("two", "one")]
    assert weights[0] == weights[1]


@pytest.mark.slow
def test_the_command_starts_workers_itself(tmp_path: Path) -> None:
    """Where no launcher has started it; the number must be that of `mpirun` otherwise."""
    plain = {k: v for k, v in os.environ.items() if not launched({k: v})}
    few = [word for each in ("learner.passes=1", *SMALL) for word in ("--set", each)]
    command = [sys.executable, "-m", "blocklearn.learner.command_line.cli", "train"]
    given = ["--config", str(ROOT / "configs" / "lda.yaml"), *few, "--out", str(tmp_path / "run")]
    run = subprocess.run(
        [*command, *given, "--engine", "mpi", "--workers", "2"],
        cwd=ROOT,
        env=plain | {"HYDRA_IFACE": "lo", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert run.returncode == 0, run.stderr
    assert run.stderr.count("the model is in") == 1
    state = json.loads((tmp_path / "run/checkpoints/pass-0001/checkpoint.json").read_text())
    assert state["config"]["learner"]["replicas"] == 2
    wrong = learn(2, "--workers", "3", "--out", tmp_path / "other")
    assert wrong.returncode == 78
    assert "workers=3: must be 2, so many run here by engine=auto" in wrong.stderr


def test_a_failure_of_one_worker_ends_all(tmp_path: Path) -> None:
    """The worker that fails and worker 0 say why; all exit with the code of the error."""
    counts = sparse.csr_array(np.arange(4000.0).reshape(400, 10) % 7)
    write_blocks(MatrixSource(counts, block_rows=100), [tmp_path / "0"])  # worker 1 has none
    data = f'data.train={{kind: blocks, paths: ["{tmp_path}/${{PMI_RANK}}"]}}'
    run = learn(2, "--out", tmp_path / "run", "--set", data)
    assert run.returncode == 66
    assert f"learn: {tmp_path}/1: No such file" in run.stderr
    assert "learn: worker 1: FileNotFoundError" in run.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_workers_share_the_rows_of_commands(tmp_path: Path, command: Learn) -> None:
    """The parts in their order, and the scores, are those of one process.

    They read blocks, and ratings that worker 0 hands over.
    """
    rng = np.random.default_rng(0)
    X = sparse.csr_array(rng.poisson(0.3, (50, 12)).astype(np.float32))
    write_blocks(MatrixSource(X, block_rows=10), [tmp_path / "data"])
    model = bl.Learner(bl.models.ALS(rank=3), X, passes=1, threads=1, verbose=False).fit()
    bl.save(model, tmp_path / "model")
    pairs = zip(*X.nonzero(), X.data, strict=True)
    lines = ["user,item,rating", *(f"{user},{item},{value}" for user, item, value in pairs)]
    (tmp_path / "ratings.csv").write_text("\n".join(lines))
    data, ratings = (["--data", tmp_path / name] for name in ("data", "ratings.csv"))
    commands = [
        ["predict", tmp_path / "model", *data, "--out", tmp_path / "p.npy"],
        ["evaluate", tmp_path / "model", *data, "--json"],
        ["evaluate", tmp_path / "model", *ratings, "--json"],
        ["recommend", tmp_path / "model", "--include-seen", "--out", tmp_path / "r.csv"],
        ["recommend", tmp_path / "model", *ratings, "--out", tmp_path / "n.csv"],
    ]
    given = json.dumps([list(map(str, each)) for each in commands])
    run = mpiexec(2, "-m", "tests.support.mpi_commands", given)
    assert run.returncode == 0, run.stderr
    alone = [command(*each) for each in json.loads(given)]
    assert [code for code, *_ in alone] == [0] * 5
    assert [line for line in run.stdout.splitlines() if line.startswith("{")] == [
        said.strip() for _, said, _ in alone[1:3]
    ]
    parts = [np.load(tmp_path / f"p-{number}-of-2.npy") for number in range(2)]
    assert np.concatenate(parts).tobytes() == np.load(tmp_path / "p.npy").tobytes()
    for name in "rn":
        (head, *rows), *texts = (
            (tmp_path / f"{name}{part}.csv").read_text().splitlines()
            for part in ("", "-0-of-2", "-1-of-2")
        )
        assert [text[0] for text in texts] == [head] * 2
        assert [line for text in texts for line in text[1:]] == rows != []
    assert run.stdout.count("p-1-of-2.npy: ") == 1
    assert not list((tmp_path / "model").glob(".handed*"))
