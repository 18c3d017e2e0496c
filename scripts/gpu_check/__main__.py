"""`scripts/gpu-check`: run tests, then benchmarks, and print one table."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from scripts.benchmarks.report import table

from . import apart, needs, tests
from .row import Row

PARTS = {  # shares of the time, in seconds; time that a part leaves goes to the later ones
    "versions": 25,
    "kernels": 80,
    "trainings": 80,
    "operations": 35,
    "lda": 40,
    "glm": 15,
    "index": 15,
    "tests": 90,
    "peers": 30,
}


def main(arguments: list[str] | None = None) -> int:
    """Return 0: all is well; 1: a test or a section failed; 2: there is no GPU.

    The table is printed and written however this ends, except by SIGKILL.
    """
    parser = argparse.ArgumentParser(prog="scripts/gpu-check", description=__doc__)
    parser.add_argument("--minutes", type=float, default=7.5, help="time limit of the whole check")
    parser.add_argument("--json", type=Path, help="write the measurements to this file")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: a test of this script")
    parser.add_argument("--no-tests", action="store_true")
    parser.add_argument("--only", metavar="a,b", help="these parts alone; --plan lists them")
    parser.add_argument("--plan", action="store_true", help="print the parts with their minutes")
    parser.add_argument("--needs", action="store_true", help="list the packages with their sizes")
    parser.add_argument("--cubins", action="store_true", help="list what kernels need; no GPU used")
    args = parser.parse_args(arguments)
    chosen = args.only.split(",") if args.only else list(PARTS)
    if unknown := set(chosen) - PARTS.keys():
        parser.error(f"--only: no part {min(unknown)}; there are {', '.join(PARTS)}")
    parts = [part for part in chosen if part != "tests" or not args.no_tests]
    if args.plan or args.needs:  # on any machine, whatever it has
        print(planned(parts, args.minutes) if args.plan else needs.shown())
        return 0
    from blocklearn.matcache.cuda import devices

    if args.cubins:
        from . import cubins

        print(cubins.shown())
        return 0
    if not devices.count():
        print("scripts/gpu-check: CuPy sees no CUDA device", file=sys.stderr)
        return 2
    found: list[Row] = []
    begun = time.monotonic()
    before = signal.signal(signal.SIGTERM, _stop)
    try:
        for name, seconds in shares(parts, begun + args.minutes * 60):
            print(f"{name}: up to {seconds:.0f} seconds", file=sys.stderr, flush=True)
            if name == "tests":
                found += tests.rows(seconds)
            else:
                found += apart.section(name, seconds, quick=args.quick)
            write(args.json, found)
    finally:
        signal.signal(signal.SIGTERM, before)
        print(shown(found))
        print(f"{time.monotonic() - begun:.0f} seconds", flush=True)
    return int(any(row.note.startswith("failed") for row in found))


def _stop(number: int, frame: Any) -> None:
    sys.exit(128 + number)


def shares(parts: list[str], until: float) -> Iterator[tuple[str, float]]:
    """Yield each part, when its turn comes, with the seconds that it may take."""
    for turn, name in enumerate(parts):
        left = max(0.0, until - time.monotonic())
        yield name, left * PARTS[name] / sum(PARTS[other] for other in parts[turn:])


def planned(parts: list[str], minutes: float) -> str:
    """Return the parts in their order, with the minutes that each may take."""
    whole = sum(PARTS[part] for part in parts)
    lines = [[part, f"{minutes * PARTS[part] / whole:.2f}"] for part in parts]
    return table(["part", "minutes"], lines)


def write(file: Path | None, found: list[Row]) -> None:
    """Write the rows found so far."""
    if file is not None:
        file.write_text(json.dumps([asdict(row) for row in found], indent=1) + "\n")


def shown(rows: list[Row]) -> str:
    """Return the table.

    floor: the least time on an H200. share: the part that the floor has of the time on the device.
    """
    lines = [
        [
            row.name,
            row.seconds and row.seconds * 1e3,
            row.cpu and row.cpu * 1e3,
            row.cpu / row.seconds if row.cpu and row.seconds else None,
            row.floor and row.floor * 1e3,
            100 * row.floor / row.seconds if row.floor and row.seconds else None,
            row.note.partition("\n")[0],
        ]
        for row in rows
    ]
    return table(["", "GPU ms", "CPU ms", "CPU/GPU", "floor ms", "floor %", ""], lines)


if __name__ == "__main__":
    sys.exit(main())
