"""`scripts/gpu-check`: tests, then benchmarks, then one table."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path

from blocklearn.matcache.cuda import devices
from scripts.benchmarks.report import table

from . import index, kernels, steps, table1, trainings
from .measure import Row, Scale

SECTIONS: dict[str, Callable[[Scale], Iterator[Row]]] = {
    "operations": table1.rows,
    "steps": steps.rows,
    "kernels": kernels.rows,
    "index": index.rows,
    "trainings": trainings.rows,
}


def main(arguments: list[str] | None = None) -> int:
    """0: all is well; 1: a test or a section failed; 2: there is no GPU."""
    parser = argparse.ArgumentParser(prog="scripts/gpu-check", description=__doc__)
    parser.add_argument("--minutes", type=float, default=7.5, help="about; large things stop then")
    parser.add_argument("--json", type=Path, help="write what was measured here")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: a test of this script")
    parser.add_argument("--no-tests", action="store_true")
    args = parser.parse_args(arguments)
    if not devices.count():
        print("scripts/gpu-check: CuPy sees no CUDA device", file=sys.stderr)
        return 2
    begun = time.monotonic()
    found = [] if args.no_tests else [run_tests(args.minutes * 60 / 2)]
    scale = Scale(args.quick, begun + args.minutes * 60)
    for name, section in SECTIONS.items():
        if scale.late:
            found.append(Row(name, note="not run: the time is over"))
            continue
        found += collected(name, section(scale))
    print(shown(found))
    print(f"{time.monotonic() - begun:.0f} seconds")
    if args.json is not None:
        args.json.write_text(json.dumps([asdict(row) for row in found], indent=1) + "\n")
    return int(any(row.note.startswith("failed") for row in found))


def run_tests(limit: float) -> Row:
    """`pytest -m gpu`, with what is installed."""
    if find_spec("pytest") is None:
        return Row("tests", note="not run: pytest is not installed")
    files = ["tests/test_gpu.py"]
    if find_spec("pydantic"):
        every = sorted(Path("tests").glob("test_*.py"))
        files = [str(path) for path in every if "mark.gpu" in path.read_text()]
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "-W", "ignore", *files]
    begun = time.monotonic()
    try:
        done = subprocess.run(command, timeout=limit, capture_output=True, text=True, check=False)
    except subprocess.TimeoutExpired:
        return Row("tests", note=f"failed: not done after {limit:.0f} seconds")
    spent = time.monotonic() - begun
    said = (done.stdout.strip().splitlines() or ["nothing"])[-1]
    if done.returncode:
        print(done.stdout[-8000:], done.stderr[-2000:])
    return Row("tests", spent, note=f"{'failed' if done.returncode else 'passed'}: {said}")


def collected(name: str, rows: Iterator[Row]) -> Iterator[Row]:
    """The rows as they come, and the error that ends them, if one does."""
    try:
        for row in rows:
            print(f"  {row.name}: {row.seconds or 0:.4g} s {row.note}", file=sys.stderr, flush=True)
            yield row
    except Exception as error:  # the other sections are to run all the same
        yield Row(name, note=f"failed: {type(error).__name__}: {error}")


def shown(rows: list[Row]) -> str:
    """The table. floor: of an H200; share: of the floor in the time on the device."""
    lines = [
        [
            row.name,
            row.seconds and row.seconds * 1e3,
            row.cpu and row.cpu * 1e3,
            row.cpu / row.seconds if row.cpu and row.seconds else None,
            row.floor and row.floor * 1e3,
            100 * row.floor / row.seconds if row.floor and row.seconds else None,
            row.note,
        ]
        for row in rows
    ]
    return table(["", "GPU ms", "CPU ms", "CPU/GPU", "floor ms", "floor %", ""], lines)


if __name__ == "__main__":
    sys.exit(main())
