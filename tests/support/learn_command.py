"""The command `learn` as tests run it: in a folder of its own, in this process or in another."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen
from threading import Timer
from typing import Any

import pytest

Learn = Callable[..., tuple[int, str, str]]
"""Arguments of the command; returns its exit code, what it printed, and on stderr."""


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Learn:
    """Runs `learn` in an empty folder, which is the working directory of the test."""
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: (learn(*arguments), *capsys.readouterr())


def learn(*arguments: Any) -> int:
    """The exit code of `learn`, run in this process."""
    from blocklearn.learner.command_line.cli import main

    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    assert isinstance(stop.value.code, int)
    return stop.value.code


@contextmanager
def started(*arguments: str, code: str = "") -> Iterator[Popen[str]]:
    """`learn` as a process of its own, after `code`, in the working directory; killed at the end.

    What runs in the background hears no SIGINT otherwise. `ready()` in `code` prints a line.
    """
    program = f"""\
import os, signal
from blocklearn.learner.command_line.cli import main
def ready():
    os.write(1, b"ready\\n")  # in one piece, whichever threads do so at the same time
signal.signal(signal.SIGINT, signal.default_int_handler)
{code}
main()"""
    command = [sys.executable, "-c", program, *arguments]
    with Popen(command, stdout=PIPE, stderr=PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()
            process.communicate()


def wait_until_ready(process: Popen[str]) -> None:
    """Until `ready()` is called in what was `started`."""
    assert process.stdout is not None
    patience = Timer(120, process.kill)
    patience.start()
    try:
        line = process.stdout.readline()
    finally:
        patience.cancel()
        patience.join()
    if line != "ready\n":
        process.kill()
        raise AssertionError(line, *process.communicate())
