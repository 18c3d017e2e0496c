"""Runs `learn` again and again and kills it, until it has been killed often enough.

    python kill_loop.py SEED KILLS ARGUMENTS...

Run by `test_kills.py` as a process of its own: every run is a fork of it, so what was imported and
compiled once is there for all of them. The first two, in the folders `whole` and `run-0`, are left
alone. From then on each is killed by SIGKILL after a random time, at most that of the second one
(and MOST seconds); every other one lives until it writes or removes a checkpoint, too. The next one
resumes there. When a run is complete, another one begins in another folder; the last one is
left to complete. Prints the number of kills, how many of them left a checkpoint half written or
removed, and the folders.
"""

import os
import random
import signal
import sys
import time
from pathlib import Path

from blocklearn.learner.command_line.cli import main

MOST = 3.0
AFTER = 0.004  # seconds, at most, from the beginning of a save to the kill


def learn(arguments: list[str]) -> int:
    """The exit code of `learn`."""
    try:
        main(arguments)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 1
    return 1


def run(arguments: list[str], seconds: float, saving: Path | None, after: float) -> int | None:
    """The exit code of `learn`; None: it was killed after `seconds`, and, if a folder `saving` is
    given, `after` a checkpoint in it was begun.
    """
    child = os.fork()
    if child == 0:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115  for the rest of its life
        code = 1
        try:
            code = learn(arguments)
        finally:
            os._exit(code)
    end = time.monotonic() + seconds
    while time.monotonic() < end or (saving is not None and not half(saving)):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.0002)
    time.sleep(0.0 if saving is None else after)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return None if code == -signal.SIGKILL else code


def half(checkpoints: Path) -> list[Path]:
    """Checkpoints that are being written or removed."""
    return list(checkpoints.glob(".pass-*"))


def loop(rng: random.Random, kills: int, arguments: list[str]) -> None:
    """See above."""
    if code := learn([*arguments, "--out", "whole"]):
        sys.exit(f"whole: exit code {code}")
    folders, done, killed, inside, seconds = ["run-0"], False, 0, 0, 0.0
    while killed < kills or not done:
        begun = time.monotonic()
        limit = rng.uniform(0.0, seconds) if seconds and killed < kills else 600.0
        checkpoints = Path(folders[-1], "checkpoints")
        saving = checkpoints if killed % 2 and killed < kills else None
        again = [*arguments, "--out", folders[-1], "--resume", "auto"]
        code = run(again, limit, saving, rng.uniform(0.0, AFTER))
        seconds = seconds or min(MOST, time.monotonic() - begun)
        if code is None:
            killed, done, inside = killed + 1, False, inside + bool(half(checkpoints))
        elif code != 0:
            sys.exit(f"{folders[-1]}: exit code {code} after {killed} kills")
        elif killed < kills:
            folders.append(f"run-{len(folders)}")
        else:
            done = True
    print(killed, inside, *folders)


if __name__ == "__main__":
    loop(random.Random(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
