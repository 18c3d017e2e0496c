"""Watches over the workers: what takes too long or dies is a verdict, too."""

import contextlib
import json
import os
import queue
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.mutations.case import Verdict, make

SECONDS = 10.0
"""Of a processor, for a case: time alone would count what other programs on the machine do."""

PATIENCE = 120.0
"""Seconds by the clock, for what sleeps for ever."""

START = 3600.0
"""Seconds by the clock until a worker has imported and compiled what it needs."""

MEMORY = 4 << 30
RENEWED = 5000
"""Cases of a worker: the memory of a longer life is in pieces, and looks like a bomb."""

TICKS = os.sysconf("SC_CLK_TCK")


class Worker:
    """A child process that is started again when it dies."""

    def __init__(self, seed: int) -> None:
        self._seed, self._judged = seed, 0
        self._process: subprocess.Popen[bytes] | None = None
        self._rest = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def judge(self, number: int) -> Verdict:
        """The verdict on a case."""
        self._judged += 1
        if self._judged % RENEWED == 0:  # a long life fragments its memory
            self._end()
        process = self._process or self._start()
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has died: no line will come
            process.stdin.write(b"%d\n" % number)
            process.stdin.flush()
        line, read = self._line(SECONDS, PATIENCE), False
        if line == b"read":
            line, read = self._line(SECONDS, PATIENCE), True
        if line:
            number, kind, sample, file, damages, detail, peak = json.loads(line)
            return Verdict(number, kind, sample, file, tuple(damages), detail, peak)
        case = make(self._seed, number)
        code = self._end()
        what = (
            ("hang", f"more than {SECONDS:g} seconds")
            if line is None
            else ("crash", f"exit {code}")
        )
        if read:
            what = "reference failed", what[1]
        return Verdict(number, what[0], case.sample.name, case.file, case.damages, what[1])

    def _start(self) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "tests.mutations.worker", str(self._seed), str(MEMORY)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._rest = b""
        if self._line(START, START) != b"ready":
            self._end()
            raise RuntimeError(f"{' '.join(command)}: does not start")
        return self._process

    def _line(self, seconds: float, patience: float) -> bytes | None:
        """The next line; b"" if the process ended, None if none comes in time."""
        assert self._process is not None and self._process.stdout is not None
        pipe, end = self._process.stdout.fileno(), time.monotonic() + patience
        begun = busy(self._process.pid)
        while b"\n" not in self._rest:
            ready, _, _ = select.select([pipe], [], [], 1.0)
            if ready:
                piece = os.read(pipe, 1 << 16)
                if not piece:
                    return b""
                self._rest += piece
            elif time.monotonic() > end or busy(self._process.pid) - begun > seconds:
                return None
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def _end(self) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        with process:
            process.send_signal(signal.SIGKILL) if process.poll() is None else None
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
        return process.returncode


def busy(process: int) -> float:
    """Seconds that its threads have had of the processors."""
    try:
        found = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0.0
    return (int(found[11]) + int(found[12])) / TICKS


def run(seed: int, cases: range, workers: int) -> Iterator[Verdict]:
    """Verdicts on all cases, as they come."""
    numbers: queue.SimpleQueue[int] = queue.SimpleQueue()
    done: queue.SimpleQueue[Verdict | BaseException] = queue.SimpleQueue()
    for number in cases:
        numbers.put(number)

    def work() -> None:
        try:
            with Worker(seed) as worker:
                while True:
                    done.put(worker.judge(numbers.get_nowait()))
        except queue.Empty:
            pass
        except BaseException as error:
            done.put(error)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for _ in cases:
        found = done.get()
        if isinstance(found, BaseException):
            raise found
        yield found
    for thread in threads:
        thread.join()
