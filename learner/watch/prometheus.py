"""Write the state of a run as a text file for Prometheus.

node_exporter's textfile collector reads it. The format is the text exposition format
0.0.4. The file is replaced atomically, so a reader never sees half of it.
`blocklearn_updated_seconds` tells a run that has stopped from a slow one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from .events import scores_of


class Family(NamedTuple):
    """A family of samples: the event's field `field`, times `unit`."""

    name: str
    help: str
    field: str
    unit: float = 1


FAMILIES = (
    Family("pass", "Number of the pass, from 1.", "pass"),
    Family("block", "Blocks done in the pass.", "batch"),
    Family("rows_total", "Rows trained on, all passes together.", "rows"),
    Family("train_seconds_total", "Training time, without evaluation.", "seconds"),
    Family("rows_per_second", "Speed of training.", "rows_per_s"),
    Family("data_bytes_per_second", "Data trained on per second.", "gb_per_s", 1e9),
    Family("flops_per_second", "Floating point operations per second.", "gflops", 1e9),
    Family("queue_ratio", "How full the reader's queue is: near 0 the model waits.", "queue"),
    Family("host_bytes", "Resident memory of all workers.", "host_bytes"),
    Family("cache_bytes", "All arrays of training.", "cache_bytes"),
    Family("device_bytes", "Arrays on accelerators.", "device_bytes"),
    Family("disk_read_bytes_total", "Bytes that the process has read from disks.",
           "disk_read_bytes"),
    Family("disk_written_bytes_total", "Bytes that the process has written to disks.",
           "disk_written_bytes"),
    Family("page_waits_total", "Pages of mapped files that a thread has waited for.",
           "page_waits"),
    Family("table_pages_total", "Pages that blocks have asked for, of tables in files.",
           "table_pages"),
    Family("table_page_hits_total", "Those of them that were in memory already, by a sample.",
           "table_page_hits"),
    Family("table_wait_seconds_total",
           "Seconds that training has waited for pages of tables in files.", "table_wait_s"),
    Family("allocations_total", "Arrays made after warm-up; 0.", "allocations_after_warmup"),
)  # fmt: skip
SPEEDS = frozenset({"rows_per_s", "gb_per_s", "gflops", "queue"})
PARTS = ("read", "copy", "compute", "merge")


class Prometheus:
    """A sink of events that keeps `file` up to date."""

    def __init__(self, file: Path) -> None:
        """Keep the path; nothing is written before the first event."""
        self.file = file
        self._latest: dict[str, Any] = {}
        self._scores: dict[str, float] = {}
        self._parts = dict.fromkeys(PARTS, 0.0)

    def __call__(self, event: Mapping[str, Any]) -> None:
        """Replace the file. Speeds are those of the latest `train` event."""
        training = event["event"] == "train"
        self._latest |= {k: v for k, v in event.items() if training or k not in SPEEDS}
        if training:
            for part in PARTS:
                self._parts[part] += event[f"{part}_s"]
        if event["event"] in ("eval", "end"):
            self._scores = scores_of(event)
        self.file.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.file.with_name(f".{self.file.name}.{os.getpid()}")
        try:
            temporary.write_text(self._text(), encoding="utf-8")
            os.replace(temporary, self.file)
        finally:
            temporary.unlink(missing_ok=True)

    def _text(self) -> str:
        run, latest = {"run": str(self._latest["run"])}, self._latest
        lines: list[str] = []
        for name, about, field, unit in FAMILIES:
            if latest.get(field) is not None:
                lines += family(name, about, (run, latest[field] * unit))
        parts = [(run | {"part": part}, seconds) for part, seconds in self._parts.items()]
        what = "Training time of this process by what it went to."
        lines += family("part_seconds_total", what, *parts)
        if self._scores:
            scores = []
            for name, value in self._scores.items():
                figure, _, target = name.partition("/")
                scores.append((run | {"figure": figure, "target": target}, value))
            lines += family("score", "Held-out figures of the latest evaluation.", *scores)
        lines += family("finished", "1 once all passes are done.", (run, latest["event"] == "end"))
        time = datetime.fromisoformat(latest["ts"]).timestamp()
        lines += family("updated_seconds", "Unix time of this file.", (run, time))
        return "\n".join(lines) + "\n"


def family(name: str, about: str, *samples: tuple[Mapping[str, str], float]) -> list[str]:
    """Return the lines of samples, each with its labels. Names of counters end in _total."""
    kind = "counter" if name.endswith("_total") else "gauge"
    return [*head(name, about, kind), *(sample(name, *each) for each in samples)]


def head(name: str, about: str, kind: str) -> list[str]:
    """Return the two lines before the samples of a family."""
    return [f"# HELP blocklearn_{name} {about}", f"# TYPE blocklearn_{name} {kind}"]


def sample(name: str, labels: Mapping[str, str], value: float) -> str:
    """Return a sample as a line.

    >>> sample("score", {"run": "a", "target": 'say "x"'}, 0.5)
    'blocklearn_score{run="a",target="say \\\\"x\\\\""} 0.5'
    """
    inside = ",".join(f'{key}="{escaped(text)}"' for key, text in labels.items() if text)
    return f"blocklearn_{name}{{{inside}}} {float(value)!r}"


def escaped(text: str) -> str:
    """Escape backslash, quote and line feed in a label's value."""
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
