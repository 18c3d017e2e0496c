"""`metrics.jsonl`, one JSON object per event; `docs/metrics.schema.json` describes it.

Lines are appended and flushed as they happen. A run that goes on from a checkpoint first drops the
events after it, so no step is there twice.
"""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TextIO

from pydantic import BaseModel, ConfigDict, Field

from .durable import write_file
from .hooks import Hook, Progress
from .interval import Interval
from .learner import Learner
from .manifest import finite


class Event(BaseModel):
    """One line of `metrics.jsonl`. Held-out scores (`perplexity`, ...) are further numbers."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, float | None] = Field(init=False)

    ts: str = Field(description="Time of writing, UTC, ISO 8601 with milliseconds.")
    run: str = Field(description="Name of the run folder.")
    event: Literal["start", "train", "eval", "checkpoint", "end"]
    pass_: int = Field(alias="pass", description="Number of the pass, from 1.")
    batch: int = Field(description="Blocks done in this pass.")
    rows: int = Field(description="Rows trained on so far, all passes together.")
    seconds: float = Field(description="Training time so far, without evaluation.")
    rows_per_s: float | None = Field(description="Speed of training.")
    gflops: float | None = Field(description="Arithmetic per second, in 10^9.")
    host_bytes: int = Field(description="Memory of the cache: all arrays of training.")
    allocations_after_warmup: int = Field(description="Arrays made after the first block; 0.")
    checkpoint: str | None = Field(None, description="Its folder, in events of that kind.")


class Metrics(Hook):
    """Writes an `Event` for everything that happens to `file` and, if given, to `echo`."""

    def __init__(self, file: Path, *, run: str, every: float, echo: TextIO | None = None) -> None:
        """`every`: seconds between two `train` events, of which each pass has one at least."""
        self.file, self.run, self.echo = file, run, echo
        self.interval = Interval(every)

    def start(self, learner: Learner, progress: Progress) -> None:
        """Before the first block."""
        self.write("start", progress)

    def block(self, learner: Learner, progress: Progress) -> None:
        """After a block: an event if it is time for one."""
        if self.interval.due():
            self.write("train", progress)

    def evaluated(self, learner: Learner, progress: Progress) -> None:
        """After an evaluation."""
        self.write("eval", progress, progress.scores)

    def pass_end(self, learner: Learner, progress: Progress) -> None:
        """After a pass."""
        self.write("train", progress)

    def saved(self, progress: Progress, path: Path) -> None:
        """After a checkpoint was written to `path`."""
        self.write("checkpoint", progress, checkpoint=path.name)

    def end(self, learner: Learner, progress: Progress) -> None:
        """After the last pass: with the final scores."""
        self.write("end", progress, progress.scores)

    def write(
        self,
        event: str,
        progress: Progress,
        scores: dict[str, float] | None = None,
        checkpoint: str | None = None,
    ) -> None:
        """Appends one event."""
        fields: dict[str, Any] = {
            "ts": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "run": self.run,
            "event": event,
            "pass": progress.pass_ + 1,
            "batch": progress.block,
            "rows": progress.rows,
            "seconds": round(progress.seconds, 6),
            "rows_per_s": progress.rows_per_s,
            "gflops": progress.gflops,
            "host_bytes": progress.cache_bytes,
            "allocations_after_warmup": progress.allocations_after_warmup,
            **({"checkpoint": checkpoint} if checkpoint else {}),
            **(scores or {}),
        }
        line = json.dumps({name: finite(value) for name, value in fields.items()}, default=float)
        with self.file.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
        if self.echo:
            print(line, file=self.echo, flush=True)


def evaluations(file: Path) -> list[dict[str, Any]]:
    """The number of the pass (`pass`) and the held-out scores of each evaluation, in order."""
    events = map(Event.model_validate_json, file.read_text(encoding="utf-8").splitlines())
    return [{"pass": e.pass_, **(e.model_extra or {})} for e in events if e.event == "eval"]


def rewind(file: Path, rows: int) -> None:
    """Drops what happened after `rows` rows, the end of the run, and a line cut off by a crash."""
    if file.exists():
        lines = file.read_bytes().splitlines(keepends=True)
        write_file(file, b"".join(line for line in lines if _before(line, rows)))


def _before(line: bytes, rows: int) -> bool:
    try:
        event = json.loads(line)
    except ValueError:
        return False
    return bool(line.endswith(b"\n") and event["rows"] <= rows and event["event"] != "end")
