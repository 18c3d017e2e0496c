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


class Gauge(NamedTuple):
    """A family of samples: the event's field `field`, times `unit`."""

    name: str
    help: str
    field: str
    unit: float = 1
    kind: str = "gauge"


FAMILIES = (
    Gauge("pass", "Number of the pass, from 1.", "pass"),
    Gauge("block", "Blocks done in the pass.", "batch"),
    Gauge("rows_total", "Rows trained on, all passes together.", "rows", kind="counter"),
    Gauge("train_seconds_total", "Training time, without evaluation.", "seconds", kind="counter"),
    Gauge("rows_per_second", "Speed of training.", "rows_per_s"),
    Gauge("data_bytes_per_second", "Data trained on per second.", "gb_per_s", 1e9),
    Gauge("flops_per_second", "Floating point operations per second.", "gflops", 1e9),
    Gauge("queue_ratio", "How full the reader's queue is: near 0 the model waits.", "queue"),
    Gauge("host_bytes", "Resident memory of all workers.", "host_bytes"),
    Gauge("cache_bytes", "All arrays of training.", "cache_bytes"),
    Gauge("device_bytes", "Arrays on accelerators.", "device_bytes"),
    Gauge(
        "disk_read_bytes_total",
        "Bytes that the process has read from disks.",
        "disk_read_bytes",
        kind="counter",
    ),
    Gauge(
        "disk_written_bytes_total",
        "Bytes that the process has written to disks.",
        "disk_written_bytes",
        kind="counter",
    ),
    Gauge(
        "page_waits_total",
        "Pages of mapped files that a thread has waited for.",
        "page_waits",
        kind="counter",
    ),
    Gauge(
        "table_pages_total",
        "Pages that blocks have asked for, of tables in files.",
        "table_pages",
        kind="counter",
    ),
    Gauge(
        "table_page_hits_total",
        "Those of them that were in memory already, by a sample.",
        "table_page_hits",
        kind="counter",
    ),
    Gauge(
        "table_wait_seconds_total",
        "Seconds that training has waited for pages of tables in files.",
        "table_wait_s",
        kind="counter",
    ),
    Gauge(
        "allocations_total",
        "Arrays made after warm-up; 0.",
        "allocations_after_warmup",
        kind="counter",
    ),
)
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
        run = {"run": str(self._latest["run"])}
        lines: list[str] = []
        for family in FAMILIES:
            value = self._latest.get(family.field)
            if value is not None:
                lines += [*head(family), sample(family.name, run, value * family.unit)]
        spent = Gauge("part_seconds_total", "Training time of this process by what it went to.", "")
        lines += head(spent._replace(kind="counter"))
        lines += [sample(spent.name, run | {"part": p}, s) for p, s in self._parts.items()]
        if self._scores:
            lines += head(Gauge("score", "Held-out figures of the latest evaluation.", ""))
        for name, value in self._scores.items():
            figure, _, target = name.partition("/")
            lines.append(sample("score", run | {"figure": figure, "target": target}, value))
        finished = Gauge("finished", "1 once all passes are done.", "")
        lines += [*head(finished), sample(finished.name, run, self._latest["event"] == "end")]
        time = datetime.fromisoformat(self._latest["ts"]).timestamp()
        updated = Gauge("updated_seconds", "Unix time of this file.", "")
        lines += [*head(updated), sample(updated.name, run, time)]
        return "\n".join(lines) + "\n"


def head(family: Gauge) -> list[str]:
    """Return the two lines before the samples of a family."""
    return [
        f"# HELP blocklearn_{family.name} {family.help}",
        f"# TYPE blocklearn_{family.name} {family.kind}",
    ]


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
