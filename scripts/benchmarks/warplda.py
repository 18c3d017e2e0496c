"""Start WarpLDA (Chen, Li, Zhu, Chen, VLDB 2016) for the benchmark of LDA.

The variable WARPLDA names the folder of its programs `format` and `warplda`:
https://github.com/thu-ml/warplda.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from . import system
from .process import Clock
from .system import Job


@dataclass(frozen=True)
class Programs(system.Peer):
    """The peer: two programs in a folder."""

    @property
    def installed(self) -> bool:
        """Return whether the folder is known."""
        return "WARPLDA" in os.environ

    @property
    def version(self) -> str:
        """Say that it was built from its source, which has no number."""
        return "source"


def train(job: Job, X: Any, topics: int, alpha: float, eta: float) -> None:
    """Train from the start for each checkpoint, which counts sweeps.

    The seconds are those that the program prints for its sweeps, without starting, reading and
    writing. It takes no seed: one thread draws the same numbers in each run.
    """
    folder, text = Path(os.environ["WARPLDA"]), job.path("warplda.txt")
    prefix = job.path("warplda")
    with text.open("w") as file:
        for a, e in zip(X.indptr[:-1], X.indptr[1:], strict=True):
            tokens = np.repeat(X.indices[a:e], np.rint(X.data[a:e]).astype(int))
            file.write("d x " + " ".join(map(str, tokens)) + "\n")
    _run([folder / "format", "-input", text, "-prefix", prefix], job.threads)
    words = np.array(Path(f"{prefix}.vocab").read_text().split(), dtype=int)
    for sweeps in map(int, job.checkpoints):
        options = ["--k", topics, "--niter", sweeps, "-alpha", alpha * topics, "-beta", eta]
        command = [folder / "warplda", "--prefix", prefix, *options, "-dumpz=false"]
        clock = Clock()
        with clock:
            said = _run([*command, "-writeinfo=false"], job.threads)
        clock.wall = sum(map(float, re.findall(r"Iteration \d+, ([\d.]+) s", said)))
        counts = np.zeros((topics, X.shape[1]))
        lines = Path(f"{prefix}.model").read_text().splitlines()[1:]
        counts[:, words] = read_counts(lines, topics)
        job.keep(sweeps, clock, phi=(counts + eta) / (counts + eta).sum(1, keepdims=True))


def read_counts(lines: Sequence[str], topics: int) -> Any:
    r"""Return counts [topics x words] of a model: a line per word.

    >>> read_counts(["3\t1:2 0:1 "], 2).tolist()
    [[1.0], [2.0]]
    """
    counts = np.zeros((topics, len(lines)))
    for word, line in enumerate(lines):
        for pair in line.split()[1:]:
            topic, count = pair.split(":")
            counts[int(topic), word] = float(count)
    return counts


def _run(command: Sequence[Any], threads: int) -> str:
    """Run a program; return what it printed."""
    more = os.environ | {"OMP_NUM_THREADS": str(threads)}
    done = subprocess.run(
        [*map(str, command)], check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env=more, text=True,
    )  # fmt: skip
    return done.stdout
