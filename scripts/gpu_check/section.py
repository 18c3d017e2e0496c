"""Run one section of `scripts/gpu-check` in a process of its own.

A kernel that hangs, or writes out of bounds, spoils its whole process on a card. Sections therefore
share no process, and each appends its rows to a file as they come.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

from . import glm, index, kernels, lda, table1, trainings, versions
from .measure import Row, Scale


def peers(scale: Scale) -> Iterator[Row]:
    """Yield the E-step and the gradient by other packages."""
    for by_peers in (lda.by_peers, glm.by_peers):
        yield from by_peers(scale)


SECTIONS: dict[str, Callable[[Scale], Iterator[Row]]] = {
    "versions": versions.rows,
    "kernels": kernels.rows,
    "operations": table1.rows,
    "lda": lda.rows,
    "glm": glm.rows,
    "index": index.rows,
    "trainings": trainings.rows,
    "peers": peers,
}


def main(arguments: list[str]) -> None:
    """Append rows to a file, as lines of JSON, until the section or its time is over."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=SECTIONS)
    parser.add_argument("rows", type=Path)
    parser.add_argument("until", type=float, help="time.monotonic(), the same in all processes")
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args(arguments)
    left = max(args.until - time.monotonic(), 0.1)
    faulthandler.dump_traceback_later(left)  # if it hangs, print where, before it is ended
    scale = Scale(args.quick, args.until - 0.1 * left)
    with args.rows.open("a") as file:
        for row in collected(args.name, SECTIONS[args.name](scale), scale):
            print(f"  {row.name}: {row.seconds or 0:.4g} s {row.note}", file=sys.stderr, flush=True)
            file.write(json.dumps(asdict(row)) + "\n")
            file.flush()
    faulthandler.cancel_dump_traceback_later()


def collected(name: str, rows: Iterator[Row], scale: Scale) -> Iterator[Row]:
    """Yield the rows as they come, and the error that ends them early."""
    try:
        for row in rows:
            yield row
            if scale.late:
                yield Row(name, note="its time is over: what would follow is not measured")
                return
    except Exception as error:  # the other sections must still run
        yield Row(name, note=f"failed: {type(error).__name__}: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
