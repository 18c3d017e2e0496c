"""Workers that exchange, agree, fail and merge; all of them are threads here."""

from __future__ import annotations

import re
import sys
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import blocklearn as bl
from blocklearn.learner.command_line.launching import launched, mpiexec
from blocklearn.learner.engines import choice, merging
from blocklearn.learner.engines.crew import Crew
from blocklearn.learner.engines.exchange import Alone, Exchange
from blocklearn.learner.engines.merging import CrewMerger
from blocklearn.learner.engines.open import chosen, opened, started_together
from blocklearn.learner.errors import ConfigError, DivergedError, WorkerError, WorkerLostError
from blocklearn.learner.exit_codes import ExitCode, exit_code
from blocklearn.matcache import MatCache, from_array, make_merger
from tests.support import exchange_cases
from tests.support.workers import as_workers, results


@pytest.mark.parametrize("size", [1, 2, 5])
def test_each_worker_gets_what_each_gave_to_it(size: int) -> None:
    def work(own: Exchange) -> list[list[float]]:
        parts = [np.full(to * own.rank, own.rank + to / 10) for to in range(size)]
        return [part.tolist() for part in own.exchange(parts)]

    for rank, found in enumerate(results(size, work)):
        assert found == [[by + rank / 10] * (rank * by) for by in range(size)]


@pytest.mark.parametrize("size", [1, 2, 5])
def test_parts_arrive_in_memory_that_a_worker_names(size: int) -> None:
    """The own part, too, and in the order of the workers."""

    def work(own: Exchange) -> tuple[list[float], list[list[float]]]:
        parts = [np.full(to * own.rank + 1, own.rank + to / 10) for to in range(size)]
        into = np.full(sum(own.rank * by + 1 for by in range(size)), np.nan)
        found = own.exchange(parts, into)
        return into.tolist(), [part.tolist() for part in found]

    for rank, (into, found) in enumerate(results(size, work)):
        assert found == [[by + rank / 10] * (rank * by + 1) for by in range(size)]
        assert into == sum(found, [])


@pytest.mark.parametrize("size", [1, 2, 5])
def test_workers_fill_memory_together(size: int) -> None:
    expected = [whole.tobytes() for whole, _ in exchange_cases.rooms(size)]
    assert results(size, exchange_cases.filled) == [expected] * size


def test_messages_and_shares() -> None:
    def work(own: Exchange) -> tuple[Any, ...]:
        crew, table = Crew(own), np.full((2, 3), float(own.rank))
        parts = own.share(np.full((own.rank, 1), own.rank))
        assert [part.tolist() for part in parts] == [[], [1], [2, 2]]
        crew.spread(table)
        told = crew.told({"nan": None, "rank": 0} if crew.leads else None)
        return crew.gather([own.rank, "ü"]), told, list(crew.own(range(7))), table.tolist()

    for rank, (gathered, told, share, table) in enumerate(results(3, work)):
        assert gathered == [[0, "ü"], [1, "ü"], [2, "ü"]]
        assert told == {"nan": None, "rank": 0}
        assert share == list(range(rank, 7, 3))
        assert table == [[0.0] * 3] * 2


def test_a_failure_reaches_all_whatever_they_exchange_next() -> None:
    def work(own: Exchange) -> None:
        crew = Crew(own)
        with crew.guard(exit_code):
            if own.rank == 1:
                raise DivergedError("W is not finite")
            crew.spread(np.zeros(5)) if own.rank == 2 else crew.gather("a message")

    first, failed, third = as_workers(3, work)
    assert isinstance(failed, DivergedError)
    for other in (first, third):
        assert isinstance(other, WorkerError)
        assert str(other) == "worker 1: DivergedError: W is not finite"
        assert exit_code(other) == ExitCode.DIVERGED


def test_a_worker_that_does_not_answer_is_noticed() -> None:
    late = threading.Event()

    def work(own: Exchange) -> None:
        if own.rank == 1:
            assert late.wait(60)  # it hangs
        try:
            own.exchange([np.zeros(1)] * 2)
        finally:
            late.set()

    for error in as_workers(2, work, patience=0.05):
        assert isinstance(error, WorkerLostError)
        assert exit_code(error) == ExitCode.UNAVAILABLE


def test_orders_of_the_leader_are_carried_out() -> None:
    done: list[tuple[int, str]] = []

    def work(own: Exchange) -> list[Any]:
        crew = Crew(own)

        def add(name: str) -> list[int]:
            with crew.ordered(name):
                done.append((own.rank, name))
                return [int(part[0]) for part in crew.pooled(np.array([own.rank]))]

        found = []
        orders = {name: lambda name=name: found.append(add(name)) for name in ("a", "b")}
        crew.lead(lambda: found.extend([add("b"), add("a"), add("b")]), orders)
        return found

    assert results(2, work) == [[[0, 1]] * 3] * 2
    assert sorted(done) == [(rank, name) for rank in (0, 1) for name in "abb"]


def nothing() -> Any:
    raise AssertionError("no worker starts")


numbers = st.floats(-1e3, 1e3, width=32)


@settings(deadline=None, max_examples=25)
@example((2, 1), [31, 3, 32, 17], "mean", "f4", 1.0, 7, 0, 0.0, False)  # a mean rounded to -0.0
@given(
    st.sampled_from([(2, 1), (3, 1), (2, 3)]),
    st.lists(st.integers(1, 200), min_size=1, max_size=4),
    st.sampled_from(["mean", "sum", "max", "same"]),
    st.sampled_from(["f4", "f8"]),
    st.sampled_from([1.0, 0.3]),
    st.sampled_from([7, 2**22]),
    st.integers(0, 2**31),
    st.sampled_from([0.0, 0.9, 1.0]),
    st.booleans(),
)
def test_a_merge_of_workers_has_the_bits_of_one_process(
    crew: tuple[int, int], sizes: list[int], rule: Any, dtype: str, weight: float, piece: int,
    seed: int, alike: float, sparse: bool,
) -> None:  # fmt: skip
    """Also with fewer numbers than workers, and with numbers that are not finite.

    alike: share of numbers that are the same in all replicas. sparse: compare lines first.
    """
    workers, each = crew
    total, rng = workers * each, np.random.default_rng(seed)
    odd = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3e38]
    draws = [rng.normal(size=(total, n)) for n in sizes]
    for draw in draws:
        strange = rng.random(draw.shape) < 0.1
        draw[strange] = rng.choice(odd, strange.sum())
        rest = rng.random(draw.shape[1]) < alike
        draw[:, rest] = draw[0, rest]
    values, bases = [x.astype(dtype) for x in draws], [x[0].astype(dtype) for x in draws]
    for base in bases:
        base[: rng.integers(base.size + 1)] += 1
    caches = [MatCache(threads=1) for _ in range(total)]
    groups = [
        [from_array(cache, base[None], f"x{i}") for cache in caches] for i, base in enumerate(bases)
    ]

    def merged(merger: Any, own: list[int]) -> None:
        some = [[mats[r] for r in own] for mats in groups]
        merger.begin(some)
        for mats, array in zip(some, values, strict=True):
            for r, mat in zip(own, mats, strict=True):
                mat.set(array[r][None])
        merger.merge([(rule, mats) for mats in some], weight)

    def bits() -> list[bytes]:
        found = [mat.numpy() for mats in groups for mat in mats]
        return [np.where(np.isnan(x), np.nan, x).tobytes() for x in found]  # one kind of NaN

    with np.errstate(all="ignore"):
        merged(make_merger(caches, []), list(range(total)))
        expected = bits()
        for mats, base in zip(groups, bases, strict=True):
            for mat in mats:
                mat.set(base[None])
        before = merging.PIECE, choice.FEW
        merging.PIECE, choice.FEW = piece, 0 if sparse else 2**20
        try:
            results(
                workers,
                lambda own: merged(CrewMerger(Crew(own)), list(range(own.rank, total, workers))),
            )
        finally:
            merging.PIECE, choice.FEW = before
    assert bits() == expected


def test_workers_that_differ_are_refused_by_all() -> None:
    X = np.ones((40, 3), np.float32)

    def work(own: Exchange) -> None:
        seed = 4 if own.rank == 1 else 0
        bl.Learner("nmf", X, block_rows=10, engine=own, seed=seed, verbose=False).fit()

    for error in as_workers(2, work):
        assert isinstance(error, ConfigError)
        assert str(error).startswith("seed=4 on worker 1, but 0 on worker 0: must be the same")


def test_workers_whose_models_differ_are_told_in_which_setting() -> None:
    X = np.ones((40, 3), np.float32)

    def work(own: Exchange) -> None:
        model = bl.models.NMF(components=2 + own.rank)
        bl.Learner(model, X, block_rows=10, engine=own, verbose=False).fit()

    for error in as_workers(2, work):
        assert isinstance(error, ConfigError)
        assert [text.split(":")[0] for text in error.problems] == [
            "model.components=3 on worker 1, but 2 on worker 0"
        ]


def test_more_workers_than_blocks_are_refused() -> None:
    X = np.ones((20, 3), np.float32)

    def work(own: Exchange) -> None:
        bl.Learner("nmf", X, block_rows=10, engine=own, verbose=False).fit()

    for error in as_workers(3, work):
        assert isinstance(error, ConfigError)
        assert "3 workers for 2 blocks" in str(error)


def test_the_engine_is_local_unless_the_environment_says_otherwise() -> None:
    assert opened("local", task=nothing) is None
    assert not started_together({})
    assert not started_together({"PMI_SIZE": "1"})
    assert started_together({"OMPI_COMM_WORLD_SIZE": "3"})
    joined = {"RAY_ADDRESS": "10.0.0.1:6379"}
    assert chosen("auto", 4, {}) == chosen("auto", None, joined) == "local"
    assert chosen("auto", None, {"PMI_SIZE": "2"}) == chosen("mpi", None, {}) == "mpi"
    assert chosen("auto", 2, joined) == chosen("ray", 2, {}) == "ray"
    with pytest.raises(ConfigError, match="engine='mpj': must be one of local, auto, mpi, ray"):
        opened("mpj", task=nothing)  # type: ignore[arg-type]


LAUNCHED = ["PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"]


@pytest.mark.parametrize("name", LAUNCHED)
def test_processes_that_mpi_does_not_bring_together_are_refused(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the launcher is that of another library: each would write the same files."""
    found = Alone()
    module: Any = SimpleNamespace(connect=lambda patience: found)
    monkeypatch.setitem(sys.modules, "blocklearn.learner.engines.mpi", module)
    for each in LAUNCHED:
        monkeypatch.delenv(each, raising=False)
    assert opened("mpi", task=nothing) is found
    monkeypatch.setenv(name, "2")
    with pytest.raises(ConfigError, match=f"{name}=2 processes were started together, but each"):
        opened("mpi", task=nothing)
    found.size = 2
    assert opened("mpi", task=nothing) is found


@pytest.mark.parametrize("engine", ["local", "auto"])
def test_another_number_of_workers_is_refused(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PMI_SIZE", raising=False)
    message = f"workers=3: must be 1, so many run here by engine={engine}. Start the program with"
    with pytest.raises(ConfigError, match=re.escape(message)):
        bl.Learner("nmf", np.ones((20, 3), np.float32), engine=engine, workers=3)
    assert opened(engine, 1, task=nothing) is None


def test_a_launcher_is_known_by_its_variables() -> None:
    """Settings of a library of MPI, such as images of containers have, do not count."""
    assert launched({"PMIX_RANK": "0"}) and launched({"OMPI_COMM_WORLD_RANK": "1"})
    assert not launched({"PATH": "/bin", "SLURM_JOB_ID": "3"})
    assert not launched({"OMPI_ALLOW_RUN_AS_ROOT": "1", "PMIX_MCA_gds": "hash"})


def test_the_command_that_starts_workers(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """`mpiexec` beside Python comes before one on the path."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    monkeypatch.setenv("PATH", str(tmp_path / "other"))
    with pytest.raises(FileNotFoundError, match="engine=mpi: no mpiexec beside .*python"):
        mpiexec(2, ["learn"])
    for folder in ("other", "bin"):
        program = tmp_path / folder / "mpiexec"
        program.parent.mkdir()
        program.write_text("")
        program.chmod(0o755)
        assert mpiexec(2, ["learn", "train"]) == [str(program), "-n", "2", "learn", "train"]
