"""Before a run: what it needs, whether that is there, what to lower, and how long it takes."""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.datasources import MatrixSource
from blocklearn.learner.command_line.cli import main
from blocklearn.learner.configuration.config import MemoryLimit
from blocklearn.learner.memory import ADDRESSES, FREE, GROUP, memory_limits, shared_limits
from blocklearn.learner.training.plans import trial
from blocklearn.learner.training.plans.plan import Plan
from blocklearn.learner.training.plans.trial import Trial
from blocklearn.learner.training.settings import work
from tests.support.corpora import planted

LDA = """
model: {kind: lda, topics: 7, inference: gibbs}
data:
  train: {kind: file, path: counts.npz}
  eval: {kind: holdout, share: 0.1}
  block_rows: 50
learner: {passes: 20, seed: 1}
"""
ALS = """
model: {kind: als, rank: 9}
data:
  train: {kind: time-zones}
  block_rows: 64
  shuffle: false
learner: {passes: 3, row_folder: state}
"""


@pytest.fixture
def learn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Any:
    monkeypatch.chdir(tmp_path)
    X, _ = planted(documents=400, words=60)
    sp.save_npz("counts.npz", X.tocsr())
    Path("lda.yaml").write_text(LDA)
    Path("als.yaml").write_text(ALS)

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        captured = capsys.readouterr()
        assert isinstance(stop.value.code, int)
        return stop.value.code, captured.out, captured.err

    return run


def files() -> set[str]:
    return {str(path) for path in Path().rglob("*")}


def test_says_what_a_run_needs_and_leaves_nothing(learn: Any) -> None:
    before = files()
    code, out, err = learn("--config", "lda.yaml", "--dry-run", "--threads", "1")
    assert (code, err) == (0, "")
    assert files() == before
    assert re.search(r"1,680 bytes  lambda: float32 60 x 7\n", out)
    assert re.search(r"\d bytes  in all\n", out)
    assert re.search(r"[\d,]+ bytes  (free on this machine|left in the control group)\n", out)
    assert re.search(r"a pass: 8 blocks of 50 rows; ", out)
    assert re.search(r"a pass: about [\d.]+ m?s\na pass from pass 2 on: about [\d.]+ m?s\n", out)
    assert "a checkpoint: 1.7 kB\n" in out  # lambda
    assert re.search(r"in all: about [\d.]+ m?s, estimated from 6 blocks\n$", out)


def test_the_lines_add_up(learn: Any) -> None:
    _, out, _ = learn("--config", "lda.yaml", "--dry-run", "--set", "learner.replicas=3")
    lines = [line for line in out.splitlines() if " bytes  " in line]
    end = next(i for i, line in enumerate(lines) if line.endswith("in all"))

    def count(line: str) -> int:
        times, _, number = line.split(" bytes")[0].rpartition(" x ")
        return int(times or 1) * int(number.replace(",", ""))

    assert sum(map(count, lines[:end])) == count(lines[end])
    assert any("3 x" in line for line in lines[:end])
    assert re.search(r"bytes  of it in each of 3 replicas", out)
    assert "in all: about" in out and "from 16 blocks" in out  # 8 of either phase, all there are


def test_scores_and_merges_are_part_of_the_plan() -> None:
    rng = np.random.default_rng(0)
    X = sp.csr_array(sp.random(3000, 40, 0.1, dtype=np.float32, random_state=0))
    Y = (rng.random((3000, 60)) < 0.3).astype(np.float32)
    source = MatrixSource(X, targets=Y, block_rows=100)
    learner = bl.Learner(
        bl.models.GLM(l1=1e-3),
        source,
        source,
        replicas=2,
        threads=2,
        sync_weight=0.5,
        evaluation=bl.Evaluation(metric="auc"),
    )
    planned = {row.name: row for row in learner.plan().rows}
    assert planned["scores to rank (evaluation)"].shape == (60, 3000)
    assert planned["labels to rank (evaluation)"].nbytes == 4 * 60 * 3000
    assert planned["weights to rank (evaluation)"].shape == (1, 3000)
    assert planned["order of ranked rows (evaluation)"].nbytes == 8 * 3000
    assert planned["order of the rows of a block (training)"].nbytes == 8 * 100
    assert planned["room to merge replicas"].nbytes == 2**16
    assert planned["W of the best model"].held == 2 * 4 * 40 * 60
    assert planned["W while it is read"].held == 2 * 4 * 40 * 60


def test_a_plan_for_several_workers_has_the_copies_that_reading_takes() -> None:
    """One process plans for all: with `sync_weight` below 1, their parameters may differ."""
    X, Y = np.ones((60, 4), np.float32), np.zeros((60, 1), np.float32)
    learner = bl.Learner("glm", (X, Y), sync_weight=0.5)
    alone, of_two = ({row.name for row in learner.plan(count).rows} for count in (1, 2))
    copies = {name for name in of_two - alone if not name.startswith("ring of")}  # read ahead
    assert copies == {"W while it is read", "intercept while it is read"}


def test_a_plan_has_bins_where_scores_would_take_more_than_they_may() -> None:
    X = sp.csr_array(sp.random(9000, 40, 0.1, dtype=np.float32, random_state=0))
    Y = np.zeros((9000, 2000), np.float32)
    source = MatrixSource(X, targets=Y, block_rows=100)
    planned = {row.name: row for row in bl.Learner(bl.models.GLM(), source, source).plan().rows}
    assert planned["weights by bin of score (evaluation)"].nbytes == 2000 * 2**16
    assert not any(name.startswith("scores to rank") for name in planned)


def test_replicas_for_devices_are_counted(learn: Any) -> None:
    auto = ["--config", "lda.yaml", "--set", "learner.replicas=auto"]
    _, out, _ = learn(*auto, "--dry-run", "--set", "learner.devices=[cpu, cpu]")
    assert re.search(r"bytes  of it in each of 2 replicas", out)
    _, out, _ = learn(*auto, "--dry-run")
    assert "replicas" not in out
    assert learn(*auto, "-q", "--out", "m", "--set", "learner.passes=1")[0] == 0
    assert "replicas: 1\n" in Path("m/config.yaml").read_text()
    code, _, err = learn("--config", "lda.yaml", "--dry-run", "--set", "learner.replicas=many")
    assert code == 78 and "learner.replicas: must be" in err and "'auto'" in err


def test_state_of_rows_in_files_does_not_count_and_is_removed(learn: Any) -> None:
    before = files()
    code, out, _ = learn("--config", "als.yaml", "--dry-run")
    assert code == 0 and files() == before
    assert re.search(r"users \(row state\): float32 \d+ x 11, in a file\n", out)
    assert re.search(r"a pass: 1\d blocks of 64 rows, then \d blocks of 64 columns; ", out)


def test_what_workers_exchange(learn: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    given = ["--config", "lda.yaml", "--dry-run", "--engine", "mpi", "--workers", "16"]
    small = ["--set", "data.block_rows=20"]
    _, out, _ = learn(*given, *small)
    assert "a merge of 16 workers: " in out and "at 10 Gb/s and 50 us (assumed)" in out
    assert "all numbers are exchanged: they are few" in out
    monkeypatch.setattr("blocklearn.learner.runs.exchange_plan.FEW", 0)
    _, out, _ = learn(*given, *small)
    assert "where workers differ, at most " in out and "in layers of 2 x 2 x 2 x 2 workers" in out
    code, _, said = learn(*given)
    assert code == 78 and "16 workers for 8 blocks of a pass: each must have one" in said


def test_what_rows_each_worker_has(learn: Any) -> None:
    """Those of blocks 0, 3, 6: 48 of 130 users; blocks of many entries need all users."""
    R = sp.random_array((130, 40), density=0.02, rng=np.random.default_rng(0), format="csr")
    sp.save_npz("few.npz", R)
    config = """
model: {kind: als, rank: 4}
data: {train: {kind: file, path: few.npz}, block_rows: 16, shuffle: false}
learner: {passes: 1}
"""
    Path("few.yaml").write_text(config)
    given = ["--config", "few.yaml", "--dry-run", "--engine", "mpi", "--workers", "3"]
    code, out, said = learn(*given)
    assert code == 0, said
    assert "users: each of 3 workers has its own, 1.2 kB of 3.1 kB" in out
    assert "items: all of them, 960 B, in each of 3 workers" in out
    assert "1,152 bytes  users (row state): float32 48 x 6" in out
    assert "users on their way between workers" in out
    for other in ("data.block_rows=40", "learner.replicas=2"):
        assert "users: all of them, 3.1 kB, in each" in learn(*given, "--set", other)[1]


def test_workers_of_a_wide_glm_exchange_what_blocks_need(learn: Any) -> None:
    """Unless rows rest, or a worker has several replicas."""
    rng = np.random.default_rng(0)
    columns = np.sort(rng.choice(10**6, (256, 4), replace=False), axis=1)
    columns[-1, -1] = 10**6
    rows = [" ".join(f"{each}:1" for each in row) for row in columns]
    Path("wide.svm").write_text("\n".join(f"{i % 2} {row}" for i, row in enumerate(rows)))
    config = """
model: {kind: glm}
data: {train: {kind: blocks, paths: [wide]}, block_rows: 16}
learner: {passes: 1}
"""
    Path("wide.yaml").write_text(config)
    assert learn("convert", "wide.svm", "wide", "--block-rows", "64")[0] == 0
    given = ["--config", "wide.yaml", "--dry-run", "--engine", "mpi", "--workers", "4"]
    code, out, said = learn(*given)
    assert code == 0, said
    assert re.search(r"the rows that the next blocks need, at most 2,048: about .* at the end", out)
    assert "rows on their way take at most about 36.9 kB more than is planned above" in out
    assert "chosen by these times: the rows that the next blocks need" in out
    assert "2,000,000 bytes  own rows of tables, as merged: float32 250,000 x 2\n" in out
    for other in ("learner.replicas=2", "model.l2=0.1", "learner.sync_weight=0.5"):
        out = learn(*given, "--set", other)[1]
        assert "the rows that the next blocks" not in out and "own rows of tables" not in out
    code, out, said = learn(*given, "--set", "learner.table_folder=tables")
    assert code == 0, said
    assert "tables: all of them, 12.0 MB, in files of each of 4 workers" in out
    assert re.search(r"4,000,000 bytes  optimizer.W.G: float32 1,000,000 x 1, in a file\n", out)
    assert "2,000,000 bytes  own rows of tables, as merged: float32 250,000 x 2\n" in out
    assert "chosen, because tables lie in files: the rows that the next blocks need" in out
    out = learn(*given[:3], "--set", "learner.table_folder=tables")[1]
    assert re.search("a checkpoint: .*, and of 8.0 MB of tables the rows that have changed", out)
    code, _, said = learn(
        *given, "--set", "learner.table_folder=t", "--set", "learner.sync_weight=0.5"
    )
    assert code == 78 and "GLM with AdaGrad cannot keep its tables in files of several" in said


@pytest.mark.parametrize("dry", [True, False])
def test_too_much_is_refused_with_what_to_lower(
    learn: Any, dry: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blocklearn.learner.runs.memory_check.resident_bytes", lambda: 10**8)
    arguments = ["--config", "lda.yaml", "--set", "learner.memory_limit.host=100050000"]
    before = files()
    code, out, err = learn(*arguments, *(["--dry-run"] if dry else []))
    assert code == 71 and files() == before
    assert ("bytes  in all" in out) == dry
    assert re.search(
        r"training needs [\d.]+ kB of memory, and [\d.]+ k?B are left of learner.memory_limit.host",
        err,
    )
    assert re.search(r" bytes  ring of 3 training blocks: ", err)
    assert re.search(r"  [\d.]+ kB  data.block_rows: 50\n", err)
    assert re.search(r"  [\d.]+ kB  model.topics: 7\n", err)


def test_the_remedies_work(learn: Any) -> None:
    """Lowering what is named brings the run under the limit."""

    def needed(*settings: str) -> int:
        options = [part for s in settings for part in ("--set", s)]
        _, out, _ = learn("--config", "lda.yaml", "--dry-run", *options)
        return int(re.search(r"([\d,]+) bytes  in all", out)[1].replace(",", ""))  # type: ignore[index]

    most = needed("learner.replicas=2")
    assert needed("learner.replicas=1") < most
    assert needed("learner.replicas=2", "data.block_rows=10") < most
    assert needed("learner.replicas=2", "model.topics=2") < most


def test_a_limit_of_addresses_counts_files(learn: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of `als.yaml` are in files; the run is refused, and no folder is named."""
    _, out, _ = learn("--config", "als.yaml", "--dry-run")
    needed = int(re.search(r"([\d,]+) bytes  in all", out)[1].replace(",", ""))  # type: ignore[index]
    for name, expected in (("free on this machine", 0), (ADDRESSES, 71)):
        monkeypatch.setattr(
            "blocklearn.learner.runs.memory_check.memory_limits", lambda name=name: {name: needed}
        )
        code, _, err = learn("--config", "als.yaml", "--dry-run")
        assert code == expected and "_folder" not in err
    assert f"are {ADDRESSES}. Largest" in err


def test_a_run_that_is_there_is_not_tried(learn: Any) -> None:
    assert learn("--config", "lda.yaml", "-q", "--out", "m", "--set", "learner.passes=1")[0] == 0
    code, _, err = learn("--config", "lda.yaml", "--out", "m", "--dry-run")
    assert code == 2 and "a run exists already" in err
    plan = Plan.from_json(Path("m/plan.json").read_text())
    assert plan.total == json.loads(Path("m/plan.json").read_text())["total"] > 0
    assert plan.json() == Path("m/plan.json").read_text()


def test_data_that_cannot_be_read_are_found(learn: Any) -> None:
    code, _, err = learn(
        "--config", "lda.yaml", "--dry-run", "--set", "data.train={kind: file, path: none.npz}"
    )
    assert code == 66 and "none.npz" in err


GROWTH = """
import numpy as np, scipy.sparse as sp
import blocklearn as bl
from blocklearn.learner.memory import resident_bytes
rng = np.random.default_rng(0)
X = sp.csr_array((rng.random((1000, 60_000)) < 0.01).astype(np.float32))
# Most words occur in a block, so none rests, and all of each table is touched.
small = X[:, :50]  # the same kernels: compiling them takes memory, too
bl.Learner(bl.models.LDA(topics=100, inference="cvb0"), small, block_rows=250, threads=1).fit()
learner = bl.Learner(
    bl.models.LDA(topics=100, inference="cvb0"), X, block_rows=250, threads=1, replicas={replicas}
)
plan, before = learner.plan().total, resident_bytes()
learner.fit()
print(plan, resident_bytes() - before)
"""


@pytest.mark.slow
@pytest.mark.parametrize("replicas", [1, 2])
def test_the_plan_is_what_a_process_takes(replicas: int) -> None:
    code = GROWTH.format(replicas=replicas)
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    planned, taken = map(int, found.stdout.split())
    assert planned > replicas * 70e6
    assert 0.85 * planned < taken < 1.15 * planned + 20e6


# ---- how long ------------------------------------------------------------------------------------


def test_time_of_phases() -> None:
    trial = Trial([(0, 10.0), (2, 1.0)], 5.0, 6)
    assert [trial.seconds(n) for n in (1, 2, 3, 10)] == [10.0, 20.0, 21.0, 28.0]


@pytest.mark.slow
def test_the_estimate_is_about_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the processor time of this thread, which does all the work."""
    monkeypatch.setattr(trial, "time", SimpleNamespace(perf_counter=time.thread_time))
    monkeypatch.setattr(work, "perf_counter", time.thread_time)
    X, _ = planted(documents=20_000, words=600, topics=6, length=100)
    options: Any = {"passes": 6, "block_rows": 500, "threads": 1, "seed": 1}
    learner = bl.Learner(bl.models.LDA(topics=50), X, **options)
    estimate = learner.trial(3).seconds(6)
    learner.close()
    done = bl.Learner(bl.models.LDA(topics=50), X, **options).fit()
    assert 0.2 < estimate / done.progress.seconds < 5.0  # the machine may have changed meanwhile


# ---- limits --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "group, left",
    [
        ({"memory.max": "max", "memory.current": "5", "memory.stat": "inactive_file 0"}, None),
        ({"memory.max": "1000", "memory.current": "700", "memory.stat": "inactive_file 50"}, 350),
        ({"memory.max": "1000", "memory.current": "1200", "memory.stat": "anon 1"}, 0),
        ({"memory.max": "1000"}, None),
        ({"memory.limit_in_bytes": "1000", "memory.usage_in_bytes": "300",
          "memory.stat": "inactive_file 1\ntotal_inactive_file 7"}, 707),
        ({"memory.limit_in_bytes": "9223372036854771712", "memory.usage_in_bytes": "300",
          "memory.stat": ""}, None),
    ],
)  # fmt: skip
def test_control_groups(group: dict[str, str], left: int | None, tmp_path: Path) -> None:
    for name, text in group.items():
        (tmp_path / name).write_text(text + "\n")
    assert memory_limits(root=tmp_path).get("left in the control group") == left
    assert (GROUP in shared_limits(root=tmp_path)) == (left is not None)


def test_whose_memory_a_limit_is_of(tmp_path: Path) -> None:
    def limits(group: str, machine: str) -> dict[str, str]:
        (root := tmp_path / group).mkdir(exist_ok=True)
        for name, text in (("memory.max", "1000"), ("memory.current", "7"), ("memory.stat", "")):
            (root / name).write_text(text)
        (proc := tmp_path / machine / "sys" / "kernel" / "random").mkdir(
            parents=True, exist_ok=True
        )
        (proc / "boot_id").write_text(f"{machine}\n")
        return shared_limits(tmp_path / machine, root)

    first = limits("group", "machine")
    assert first[FREE] == "machine" and first == limits("group", "machine")
    other = limits("another group", "machine")
    assert other[FREE] == first[FREE] and other[GROUP] != first[GROUP]
    assert not set(first.values()) & set(limits("group", "another machine").values())
    assert shared_limits(tmp_path / "none", tmp_path) == {}


def test_what_is_free(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:  3 kB\n")
    assert memory_limits(tmp_path, tmp_path)["free on this machine"] == 3072
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\n")
    assert "free on this machine" not in memory_limits(tmp_path, tmp_path)


def test_address_space() -> None:
    """`ulimit -v`, as some batch systems set it."""
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (2**34, 2**34))\n"
        "from blocklearn.learner.memory import memory_limits\n"
        "print(memory_limits()['left of ulimit -v'])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 0 < int(found.stdout) < 2**34
    if resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY:
        assert "left of ulimit -v" not in memory_limits()


@pytest.mark.parametrize("text, count", [("8GiB", 2**33), ("1.5 GB", 1.5e9), (4096, 4096)])
def test_sizes_with_units(text: Any, count: float) -> None:
    assert MemoryLimit.model_validate({"host": text}).host == count
