"""Start Vowpal Wabbit for every benchmark that compares with it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

from .process import Clock
from .system import Job


def run_vw(
    job: Job, X: Any, labels: Sequence[str], caching: Sequence[Any], options: Sequence[Any],
    clock: type[Clock], read: Callable[[Sequence[str]], dict[str, Any]],
) -> None:  # fmt: skip
    """Train from a binary cache, made by a run with the options `caching`.

    labels: the text before each row.
    read: makes arrays from the lines of a readable model.

    The seconds include the start of the process, about 0.2 s.
    """
    data, cache, model, text = (job.path(f"vw.{s}") for s in ("data", "cache", "model", "text"))
    with data.open("w") as file:
        for label, a, e in zip(labels, X.indptr[:-1], X.indptr[1:], strict=True):
            pairs = zip(X.indices[a:e], X.data[a:e], strict=True)
            file.write(f"{label}| " + " ".join(f"{c}:{v:g}" for c, v in pairs) + "\n")
    cached = ["-d", data, "--cache_file", cache]
    _vw([*caching, *cached])
    job.settings |= {"command": "vw " + " ".join(map(str, options)), "threads": "learner + parser"}
    for passes in map(int, job.checkpoints):  # a run for each, from the start
        time = clock()
        with time:
            _vw([*options, *cached, "--passes", passes, "-f", model])
        _vw(["-i", model, "-t", "-d", os.devnull, "--readable_model", text, "--quiet"])
        job.keep(passes, time, **read(text.read_text().splitlines()))
    for path in (data, cache, model, text):
        path.unlink()


def _vw(arguments: Sequence[Any]) -> None:
    command = [sys.executable, "-m", "vowpalwabbit", *map(str, arguments)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
