"""`scripts/bench TASK [--peers a,b|none|all] [--json FILE]`, for all benchmarks."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from . import (
    allocation,
    als,
    als_grid,
    alternation,
    calls,
    compilation,
    devices,
    everything,
    fits,
    glm,
    gpu_model,
    graph,
    kernels,
    kmeans,
    lda,
    lists,
    machines,
    mixture,
    optima,
    overhead,
    read,
    ridge,
    scale,
    svd,
    table1,
    tables,
    words,
)
from .als_systems import PEERS as ALS_PEERS
from .glm_systems import PEERS as GLM_PEERS
from .lda_systems import PEERS as LDA_PEERS
from .machines import PEERS as MACHINES
from .words import PEERS as WORDS

TASKS = {
    "allocation": allocation,
    "als": als,
    "als-grid": als_grid,
    "alternation": alternation,
    "calls": calls,
    "compile": compilation,
    "devices": devices,
    "fits": fits,
    "glm": glm,
    "gpu-model": gpu_model,
    "graph": graph,
    "kernels": kernels,
    "kmeans": kmeans,
    "lda": lda,
    "lists": lists,
    "machines": machines,
    "mixture": mixture,
    "optima": optima,
    "overhead": overhead,
    "read": read,
    "ridge": ridge,
    "scale": scale,
    "svd": svd,
    "table1": table1,
    "tables": tables,
    "words": words,
}
PEERS = ALS_PEERS | GLM_PEERS | LDA_PEERS | MACHINES | WORDS  # packages that may be missing


def main(arguments: list[str] | None = None) -> int:
    """Run a task; return 0, or 1 if a system stopped with an error."""
    parser = argparse.ArgumentParser(
        prog="scripts/bench", description="Measure blocklearn against hand-written code and peers."
    )
    tasks = parser.add_subparsers(dest="task", required=True, metavar="TASK")
    for name, task in TASKS.items():
        question = (task.__doc__ or "").splitlines()[0]
        own = tasks.add_parser(name, help=question, description=question)
        own.add_argument(
            "--peers", default="all", help=f"a,b | none | all, of: {', '.join(task.PEER_NAMES)}"
        )
        own.add_argument("--json", type=Path, help="write all measurements to this file")
        own.add_argument("--quick", action="store_true", help="tiny: a test, no figures")
        task.options(own)
    question = (everything.__doc__ or "").splitlines()[0]
    everything.options(tasks.add_parser("all", help=question, description=question))
    args = parser.parse_args(arguments)
    try:
        if args.task == "all":
            return everything.run(args, TASKS)
        task = TASKS[args.task]
        peers, missing = chosen(args.peers, task.PEER_NAMES)
        report = task.run(args, peers)
    except (ValueError, OSError) as error:
        parser.exit(2, f"scripts/bench {args.task}: {error}\n")
    report.missing = missing
    print(task.show(report))
    if missing:
        print(f"not installed: {', '.join(missing)} (.venv/bin/pip install --editable '.[bench]')")
    if args.json is not None:
        report.write(args.json)
    return 1 if report.failed else 0


def chosen(text: str, names: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Return the peers of `--peers` that can run, and those that are not installed.

    >>> chosen("none", ("sklearn",))
    ([], [])
    """
    wanted = {"all": list(names), "none": []}.get(text, text.split(","))
    if unknown := [name for name in wanted if name not in names]:
        raise ValueError(f"--peers {text}: no {unknown[0]} here; there are {', '.join(names)}.")
    missing = [n for n in wanted if n in PEERS and not PEERS[n].installed]
    return [n for n in wanted if n not in missing], missing


if __name__ == "__main__":
    sys.exit(main())
