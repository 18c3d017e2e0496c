"""Runs `learn` again and again and kills it, until it has been killed often enough.

    python kill_loop.py SEED KILLS ARGUMENTS...

Run by `test_kills.py` as a process of its own: what is imported once is there for every run, which
is a fork of it. The first one is left alone. From then on each is killed by SIGKILL after a random
time, at most that of the first one (and MOST seconds), and the next one goes on where it was. When
a run is complete, another one begins in another folder; the last one is left to complete. Prints
the number of kills and the folders.
"""

import os
import random
import signal
import sys
import time

from blocklearn.learner import training  # noqa: F401  what `learn` imports when it runs
from blocklearn.learner.cli import main

MOST = 3.0


def run(arguments: list[str], seconds: float) -> int | None:
    """The exit code of `learn`; None: it was killed after `seconds`."""
    child = os.fork()
    if child == 0:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115  for the rest of its life
        try:
            main(arguments)
        except SystemExit as stop:
            os._exit(stop.code if isinstance(stop.code, int) else 1)
        finally:
            os._exit(1)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def loop(rng: random.Random, kills: int, arguments: list[str]) -> None:
    """See above."""
    folders, done, killed, seconds = ["run-0"], False, 0, 0.0
    while killed < kills or not done:
        begun = time.monotonic()
        limit = rng.uniform(0.0, seconds) if seconds and killed < kills else 600.0
        code = run([*arguments, "--out", folders[-1], "--resume", "auto"], limit)
        seconds = seconds or min(MOST, time.monotonic() - begun)
        if code is None:
            killed, done = killed + 1, False
        elif code != 0:
            sys.exit(f"{folders[-1]}: exit code {code} after {killed} kills")
        elif killed < kills:
            folders.append(f"run-{len(folders)}")
        else:
            done = True
    print(killed, *folders)


if __name__ == "__main__":
    loop(random.Random(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
