"""Kills runs of every case of `test_kills.py` many times.

    python -m tests.support.many_kills --kills 1000

The kills are dealt to the cases a few at a time: a command that is stopped early has killed all of
them about as often. Prints a line for each share and a table in the end; ends with 1 where a
run differs in a bit from one that was left alone.
"""

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.learner.test_kills import CASES, check_run, killed_runs, make_data

SHARE = 5  # kills of a case at a time


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.many_kills")
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    os.environ["PYTHONPATH"] = str(Path(__file__).parents[2])  # for the loops, which run elsewhere
    kills, inside, runs, equal = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    begun, number = time.monotonic(), 0
    with tempfile.TemporaryDirectory() as name:
        data = Path(name) / "data"
        data.mkdir()
        make_data(data)
        while kills.total() < given.kills:
            case = list(CASES)[number % len(CASES)]
            share = min(SHARE, given.kills - kills.total())
            with tempfile.TemporaryDirectory() as folder:
                found = killed_runs(data, Path(folder), case, share, f" {given.seed}.{number}")
                kills[case], inside[case] = kills[case] + found[0], inside[case] + found[1]
                for run in found[2]:
                    runs[case] += 1
                    try:
                        check_run(Path(folder, run), Path(folder, "whole"))
                    except AssertionError as error:
                        print(f"{case}, seed {given.seed}.{number}, {run}: {error}", flush=True)
                    else:
                        equal[case] += 1
            number += 1
            print(
                f"{kills.total()} kills, {inside.total()} within a save; {equal.total()} of "
                f"{runs.total()} runs equal to the bit; {time.monotonic() - begun:.0f} s; {case}",
                flush=True,
            )
    print(
        "| case | kills | within a save | runs | equal to the bit |",
        "|---|---|---|---|---|",
        sep="\n",
    )
    for case in CASES:
        print(f"| {case} | {kills[case]} | {inside[case]} | {runs[case]} | {equal[case]} |")
    return int(equal.total() != runs.total())


if __name__ == "__main__":
    sys.exit(main())
