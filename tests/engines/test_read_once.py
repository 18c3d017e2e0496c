"""Worker 0 reads the data of commands, and hands them to the others, which read no file of data."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

from blocklearn.learner.command_line import parts, sharing
from blocklearn.learner.command_line.parts import Given, Output, Trained, Wanted
from blocklearn.learner.engines import open as engines
from blocklearn.learner.engines import shared_folder
from blocklearn.learner.engines.crew import Crew
from blocklearn.learner.errors import ConfigError, RunInterrupted, WorkerError
from blocklearn.learner.exit_codes import ExitCode, exit_code
from blocklearn.learner.files.row_folder import RowFolder
from blocklearn.learner.runs import handing, new_data, read_once
from blocklearn.learner.runs.run_folder import HANDED
from blocklearn.learner.runs.training import RunOptions, train
from tests.engines.test_handed_rows import (
    ALS,
    CASES,
    GLM,
    KMEANS,
    RATINGS,
    TABLE,
    TEXT,
    config_of,
    in_a_folder,
)
from tests.support.thread_workers import thread_exchanges
from tests.support.workers import PATIENCE

Result = TypeVar("Result")
MODELS = {
    "text": ([KMEANS, TEXT], "long.txt"),  # into memory
    "table": ([GLM, TABLE], "rows.csv"),
    "libsvm": (CASES["libsvm"], "rows.svm"),  # converted
    "ratings": ([ALS, RATINGS], "ratings.csv"),
}
RUN = Trained(Path("run"), None)
ALL = Wanted(None, None, 3, None, None, False, False)
LISTS = {
    "training data": ALL,
    "nothing seen": replace(ALL, include_seen=True),
    "seen items": replace(ALL, seen=Path("seen.csv")),
    "new users": replace(ALL, data=Path("seen.csv")),
    "some users and items": replace(ALL, users=Path("users"), items=Path("items")),
}

__all__ = ["in_a_folder"]


@pytest.fixture(autouse=True)
def more_files(in_a_folder: None) -> None:
    Path("long.txt").write_text(Path("rows.txt").read_text() * 200)  # two blocks
    rows = [f"u{i},i{j},{1 + (i + j) % 5}" for i in range(16) for j in range(12) if (i + j) % 4]
    Path("seen.csv").write_text("user,item,rating\n" + "\n".join(rows) + "\n")
    Path("users").write_text("".join(f"u{i}\n" for i in (7, 3, 11, 2)))
    Path("items").write_text("".join(f"i{i}\n" for i in (9, 1, 4, 6, 8)))


def trained(settings: list[str]) -> None:
    train(config_of(*settings), RunOptions(quiet=True))


def together(work: Callable[[Crew], Result], second: Callable[[Crew], Result]) -> list[Any]:
    """Return what two workers return or raise."""

    def outcome(own: Crew) -> Result | Exception:
        try:
            with own.guard(exit_code):
                return work(own) if own.leads else second(own)
        except Exception as error:
            return error

    with ThreadPoolExecutor(2) as threads:
        return list(threads.map(outcome, map(Crew, thread_exchanges(2, PATIENCE))))


def handed_in(folder: str = "run") -> list[Path]:
    """What is left of data that were handed over."""
    return list(Path(folder).glob(f"{HANDED}*"))


@pytest.mark.parametrize("name", MODELS)
def test_two_workers_predict_and_score_what_one_does(name: str) -> None:
    """The second worker could not read the data: its files do not exist."""
    settings, path = MODELS[name]
    trained(settings)
    parts.predict(Crew(), RUN, Given(path), Output("all.npy"))
    first, second = (
        lambda crew, given=given: (
            parts.predict(crew, RUN, given, Output("part.npy")),
            parts.evaluate(crew, RUN, given),
        )
        for given in (Given(path), Given(f"gone/{path}"))
    )
    (lines, scores), (others, _) = together(first, second)
    assert lines == others and len(lines) == 2
    found = [np.load(f"part-{rank}-of-2.npy") for rank in range(2)]
    assert np.concatenate(found).tobytes() == Path("all.npy").read_bytes()[128:]
    assert scores == parts.evaluate(Crew(), RUN, Given(path)) != {}
    assert handed_in() == []


def test_data_stay_until_all_have_opened_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though worker 0 finds an error at once; the others find the same."""
    trained(MODELS["text"][0])
    leads: list[Crew] = []

    def take(told: Any) -> Any:
        while not leads[0].exchange.under_way:  # it waits for this worker, or tells of its error
            time.sleep(0.01)
        return handing.taken_over(told)

    def work(crew: Crew) -> None:
        if crew.leads:
            leads.append(crew)
        parts.predict(crew, RUN, Given("rows.txt"), Output("p.npy"))

    monkeypatch.setattr(read_once, "taken_over", take)
    found = together(work, work)
    assert [type(each) for each in found] == [ConfigError] * 2, found
    assert "2 parts of 1 block: each must have one at least" in str(found[0])
    assert handed_in() == []


@pytest.mark.parametrize("name", LISTS)
def test_two_workers_list_what_one_does(name: str) -> None:
    """The second worker has the model, but no file of data or ids."""
    trained(MODELS["ratings"][0])
    wanted = LISTS[name]
    parts.recommend(Crew(), RUN, wanted, Output("all.csv"))
    shutil.copytree("run", "other")
    config = Path("other/config.yaml")
    config.write_text(config.read_text().replace("ratings.csv", "gone.csv"))
    gone = {key: Path("gone") for key in ("users", "data", "items", "seen") if getattr(wanted, key)}
    first, second = together(
        lambda crew: parts.recommend(crew, RUN, wanted, Output("p.csv")),
        lambda crew: parts.recommend(
            crew, replace(RUN, run=Path("other")), replace(wanted, **gone), Output("p.csv")
        ),
    )
    assert first == second and len(first) == 2
    (head, *rows), *texts = (
        Path(file).read_text().splitlines() for file in ("all.csv", "p-0-of-2.csv", "p-1-of-2.csv")
    )
    assert [text[0] for text in texts] == [head] * 2
    assert [line for text in texts for line in text[1:]] == rows != []
    assert handed_in() == []


@pytest.mark.parametrize("name", ["text", "libsvm"])
@pytest.mark.parametrize("why", ["not all see the folder", "Permission denied"])
def test_where_there_is_no_common_folder_each_reads(
    name: str, why: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It says so, and what to do."""
    settings, path = MODELS[name]
    trained(settings)

    def taken(self: RowFolder) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(self.path))

    if why == "Permission denied":
        monkeypatch.setattr(RowFolder, "take", taken)
    else:
        monkeypatch.setattr(shared_folder.os.path, "exists", lambda path: False)
    with caplog.at_level(logging.WARNING):
        first, second = together(*[lambda crew: parts.evaluate(crew, RUN, Given(path))] * 2)
    assert first == second == parts.evaluate(Crew(), RUN, Given(path))
    (said,) = [text for text in caplog.messages if "each of 2 workers reads all" in text]
    assert f"reads all of {path}, because " in said and why in said
    assert "Copy the model into a folder that all workers see" in said
    assert handed_in() == []


@pytest.mark.parametrize("name", ["text", "libsvm"])
def test_an_error_of_one_worker_leaves_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, path = MODELS[name]
    trained(settings)

    def failing(crew: Crew) -> Any:
        with Given(path).opened(crew, RUN.load(crew), RUN.run):
            assert len(handed_in()) == 1
            raise ValueError("no more")

    def predict(crew: Crew) -> Any:
        return parts.predict(crew, RUN, Given(path), Output("p.npy"))

    first, second = together(predict, failing)
    assert isinstance(first, WorkerError) and isinstance(second, ValueError)
    assert handed_in() == []
    first, second = together(
        lambda crew: parts.predict(crew, RUN, Given(f"gone/{path}"), Output("q.npy")), predict
    )
    assert isinstance(first, FileNotFoundError) and isinstance(second, WorkerError)
    assert handed_in() == []


def test_a_full_disk_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    settings, path = MODELS["text"]
    trained(settings)
    monkeypatch.setattr(handing, "free_bytes", lambda folder: 1000)
    first, second = together(*[lambda crew: parts.evaluate(crew, RUN, Given(path))] * 2)
    assert isinstance(first, OSError) and isinstance(second, WorkerError)
    assert "Make room on its disk" in first.__notes__[0]
    assert handed_in() == []


@pytest.mark.parametrize("name", ["text", "libsvm"])
def test_a_command_that_is_stopped_leaves_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal comes when worker 0 has begun to write what it hands over."""
    settings, path = MODELS[name]
    trained(settings)
    one, two = thread_exchanges(2, PATIENCE)
    monkeypatch.setattr(engines, "opened", lambda *given, **options: one)

    def stopped(*given: Any, **options: Any) -> Any:
        assert len(handed_in()) == 1
        (here,) = handed_in()
        (here / "rows.safetensors").write_bytes(b"half") if name == "text" else None
        os.kill(os.getpid(), signal.SIGTERM)

    if name == "text":
        monkeypatch.setattr(handing, "write_tensors", stopped)
    else:
        monkeypatch.setattr(new_data, "BlockSource", stopped)

    def work(crew: Crew) -> Any:
        return parts.predict(crew, RUN, Given(path), Output("p.npy"))

    def along() -> None:
        with Crew(two).guard(exit_code):
            sharing._along(work, two)

    with ThreadPoolExecutor(1) as threads:
        ended = threads.submit(along)
        with pytest.raises(RunInterrupted) as caught:
            sharing.shared(work, None, None)
        assert isinstance(ended.exception(), WorkerError)
    assert exit_code(caught.value) == ExitCode.INTERRUPTED
    assert handed_in() == [] and not list(Path().glob("*.npy*"))


@pytest.mark.parametrize("what", ["command", "training"])
def test_a_signal_during_an_exchange_waits_for_its_end(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exchange that is cut short would leave the others out of step: they would wait."""
    one, two = thread_exchanges(2, PATIENCE)
    monkeypatch.setattr(engines, "opened", lambda *given, **options: one)
    heard = []

    def along() -> None:
        own = Crew(two)
        while not one.under_way:
            pass
        os.kill(os.getpid(), signal.SIGTERM)
        heard.append(own.gather({}))
        own.gather({})

    with ThreadPoolExecutor(1) as threads:
        ended = threads.submit(along)
        with pytest.raises(RunInterrupted):
            if what == "command":
                sharing.shared(lambda crew: None, None, None)
            else:
                train(config_of(KMEANS, TEXT), RunOptions(quiet=True), Crew(one))
        error = ended.exception()
    assert len(heard) == 1
    assert isinstance(error, WorkerError) and error.code == ExitCode.INTERRUPTED


def test_a_signal_after_the_last_exchange_of_a_work_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Worker 0 may have more to do than the others, such as to rank items."""
    one, two = thread_exchanges(2, PATIENCE)
    monkeypatch.setattr(engines, "opened", lambda *given, **options: one)

    def work(crew: Crew) -> None:
        crew.gather(None)
        if crew.leads:
            os.kill(os.getpid(), signal.SIGTERM)

    with ThreadPoolExecutor(1) as threads:
        ended = threads.submit(lambda: sharing._along(work, two))
        with pytest.raises(RunInterrupted):
            sharing.shared(work, None, None)
        assert isinstance(ended.exception(), WorkerError)


def test_what_a_killed_command_left_is_removed_and_another_that_runs_is_not_disturbed() -> None:
    trained(MODELS["text"][0])
    left = Path("run", f"{HANDED}-0123")
    (left / "rows.blocks").mkdir(parents=True)
    (left / "rows.blocks" / "part.0").write_bytes(b"half")
    (left / ".blocklearn-rows").write_text("process 1\nrows.blocks\n")
    with RowFolder(Path("run"), f"{HANDED}-4567") as other:
        found = together(*[lambda crew: parts.evaluate(crew, RUN, Given("long.txt"))] * 2)
        assert found[0] == found[1] != {}
        assert handed_in() == [other.path]
    assert handed_in() == []
