"""Runs of several workers that end before training: what they say, and what they leave."""

from __future__ import annotations

import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest
import typer

from blocklearn.learner.command_line.train_commands import Manner, execute
from blocklearn.learner.configuration.config import RunConfig
from blocklearn.learner.configuration.yaml_config import Setting, resolve
from blocklearn.learner.engines.crew import Crew
from blocklearn.learner.engines.exchange import Exchange
from blocklearn.learner.errors import ConfigError, RunInterrupted, WorkerLostError
from blocklearn.learner.exit_codes import ExitCode, exit_code, message
from blocklearn.learner.learner import Learner
from blocklearn.learner.runs import training, workers
from blocklearn.learner.runs.assisting import assist
from blocklearn.learner.runs.signals import Requests
from blocklearn.learner.runs.training import RunOptions, train
from tests.support.thread_workers import ThreadExchange, thread_exchanges
from tests.support.workers import PATIENCE, as_workers

CONFIG = """\
model: {kind: kmeans, clusters: 2}
data: {train: {kind: file, path: rows.txt}, block_rows: 4}
learner: {threads: 1, report: false}
"""


def config_of(*settings: str) -> RunConfig:
    """The configuration of a worker."""
    given = [Setting.parse(each) for each in ("out=run", *settings)]
    return resolve(RunConfig, [Path("run.yaml")], {}, given)


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work where the configuration and its data are."""
    monkeypatch.chdir(tmp_path)
    Path("run.yaml").write_text(CONFIG)
    Path("rows.txt").write_text("one two three\ntwo three four\nthree four five\n" * 8)


@pytest.mark.parametrize(
    "both, other, text",
    [
        ("data.block_rows=64", "learner.seed=0", "2 workers for 1 block of a pass: each must"),
        ("learner.passes=2", "learner.seed=1", "seed=1 on worker 1, but 0 on worker 0: must be"),
    ],
)
def test_a_run_that_cannot_start_leaves_the_old_one(both: str, other: str, text: str) -> None:
    """With --overwrite, too; all workers know why."""
    old = {name: f"old {name}" for name in ("run.json", "weights.safetensors", "config.yaml")}
    Path("run").mkdir()
    for name, content in old.items():
        Path("run", name).write_text(content)
    first, second = (Crew(own) for own in thread_exchanges(2, PATIENCE))

    def help_first() -> None:
        with second.guard(exit_code):  # else the first one waits for it
            assist(config_of(both, other), Requests(), second)

    with ThreadPoolExecutor(1) as threads:
        along = threads.submit(help_first)
        with pytest.raises(ConfigError, match=text):
            train(config_of(both), RunOptions(overwrite=True, quiet=True), first)
        assert text in str(along.exception())
    assert {path.name: path.read_text() for path in Path("run").iterdir()} == old


def test_a_mistake_that_all_workers_make_is_told_by_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = (Crew(own) for own in thread_exchanges(2, PATIENCE))
    monkeypatch.setattr(workers, "crew_of", lambda config, alone: second)
    monkeypatch.setattr(Requests, "caught", lambda *_: nullcontext())  # threads hear no signals

    def along() -> None:
        execute(config_of("data.block_rows=64"), Manner(quiet=True))

    with ThreadPoolExecutor(1) as threads:
        ended = threads.submit(along)
        with pytest.raises(ConfigError, match="2 workers for 1 block"):
            train(config_of("data.block_rows=64"), RunOptions(quiet=True), first)
        end = ended.exception()
    assert isinstance(end, typer.Exit) and end.exit_code == ExitCode.CONFIG
    assert second.repeats and not first.repeats


def test_a_worker_that_an_engine_starts_trains_the_model_of_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Settings that the length of the run decides are not given, so it decides them, too."""
    tasks: list[Callable[[Exchange], None]] = []
    monkeypatch.setattr(workers, "opened", lambda *_, task, **__: tasks.append(task()))
    config = config_of("model={kind: lda, topics: 2, inference: vb}", "learner.passes=1")
    workers.crew_of(config)
    first, second = thread_exchanges(2, PATIENCE)
    with ThreadPoolExecutor(1) as threads:
        along = threads.submit(tasks[0], second)
        trained = train(config, RunOptions(quiet=True), Crew(first))
        along.result()
    assert trained is not None and trained.progress.pass_ == 1


def test_the_loss_of_a_worker_says_how_to_resume() -> None:
    Path("run/checkpoints").mkdir(parents=True)
    Path("run/run.json").touch()
    alone = Crew(thread_exchanges(2, 0.01)[0])  # the other one never answers
    with pytest.raises(WorkerLostError) as caught:
        train(config_of(), RunOptions(resume=True, quiet=True), alone)
    assert "needs a larger distributed.patience_seconds" in message(caught.value)
    assert (
        "The same command with --resume auto resumes the run from its last checkpoint"
        in message(caught.value)
    )


def test_a_signal_while_workers_start_again_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Finding room for them may take minutes."""

    def lost(*_: object) -> None:
        raise WorkerLostError("gone")

    own = thread_exchanges(2, PATIENCE)[0]
    monkeypatch.setattr(own, "starts", True)
    monkeypatch.setattr(workers, "train", lost)
    monkeypatch.setattr(Crew, "restart", lambda *_: signal.raise_signal(signal.SIGTERM))
    with pytest.raises(RunInterrupted, match="while workers started again. The same command with"):
        workers.train_again(config_of(), RunOptions(quiet=True), Crew(own))


def test_what_is_printed_at_the_end_may_read_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where an evaluation has stopped the run between replicas that are apart, this takes all."""
    stop = (
        "data.eval={kind: file, path: rows.txt}",
        "learner={sync_every: 1, sync_weight: 0.5, passes: 2, threads: 1}",
        "evaluation={metric: mean_squared_distance, better: lower, every_blocks: 1, patience: 1, "
        "keep_best: false}",
    )
    apart: list[bool] = []

    def show(learner: Learner) -> None:
        assert learner.team is not None and learner.report() == []
        apart.append(learner.team.apart)

    first, second = (Crew(own) for own in thread_exchanges(2, PATIENCE))
    monkeypatch.setattr(training, "say", lambda text: None)
    with ThreadPoolExecutor(1) as threads:
        along = threads.submit(assist, config_of(*stop), Requests(), second)
        trained = train(config_of(*stop), RunOptions(show=show), first)
        along.result()
    assert trained is not None and trained.progress.block == 4 and apart == [True]


@pytest.mark.parametrize("interrupted", [False, True])
def test_workers_are_seen_off_unless_an_order_was_left(interrupted: bool) -> None:
    """One in the middle of an order would take a farewell for the end of a part of it."""
    seen_off = []

    class Starter(ThreadExchange):
        @property
        def running(self) -> bool:
            return True

        def see_off(self) -> None:
            seen_off.append(self.rank)

    def hook(crew: Crew) -> None:
        with crew.ordered("part"):
            crew.gather(0)
        if interrupted:
            raise KeyboardInterrupt

    def work(own: Exchange) -> None:
        crew = Crew(own, followed=own.rank == 0)
        orders = {"part": lambda: crew.gather(0)}
        if not crew.leads:
            crew.follow({"fit": lambda: crew.lead(lambda: None, orders)})
            return
        own.__class__ = Starter
        with suppress(KeyboardInterrupt), crew.ordered("fit"):
            crew.lead(lambda: hook(crew), orders)
        crew.renew()
        if interrupted:
            own.close()  # the other one waits for orders

    first, second = as_workers(2, work)
    assert seen_off == ([] if interrupted else [0])
    assert first is None
    assert isinstance(second, WorkerLostError) if interrupted else second is None
