"""Run the workers of a training as threads of this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import pytest

from blocklearn.learner.engines import given_rows
from blocklearn.learner.engines.exchange import Exchange
from blocklearn.learner.training.teams import needs, trained_rows
from tests.support.thread_workers import thread_exchanges

PATIENCE = 60.0  # far more than any test needs

Result = TypeVar("Result")


def as_workers(
    size: int, work: Callable[[Exchange], Result], patience: float = PATIENCE
) -> list[Result | BaseException]:
    """Return what each worker returns or raises, by rank."""

    def outcome(own: Exchange) -> Result | BaseException:
        try:
            return work(own)
        except BaseException as error:
            if not own.failed:
                own.close()  # the others must not wait
            return error

    with ThreadPoolExecutor(size) as threads:
        return list(threads.map(outcome, thread_exchanges(size, patience)))


def results(size: int, work: Callable[[Exchange], Result]) -> list[Result]:
    """Return what each worker returns; raise the error of the first that fails."""
    found = []
    for each in as_workers(size, work):
        if isinstance(each, BaseException):
            raise each
        found.append(each)
    return found


@contextmanager
def few_travel() -> Iterator[None]:
    """Let few rows travel early and in pieces: those that blocks need, and those of states."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(needs, "FEW", 0)
        patch.setattr(given_rows, "piece_of", lambda workers: 100)
        patch.setattr(needs, "needed_seconds", lambda _: 0.0)
        patch.setattr(trained_rows, "MANY", 0)
        yield
