"""Write `metrics.jsonl`, one JSON object per event.

`docs/metrics.schema.json` describes the format. Lines are appended and flushed as
events happen. A run that resumes from a checkpoint first drops the events after it, so that no step
occurs twice. Other sinks (TensorBoard, Prometheus) get the same events.
"""

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TextIO

from pydantic import BaseModel, ConfigDict, Field

from blocklearn.durable import naming, write_file

from ..errors import ModelFolderError
from ..hooks import Hook, Progress
from ..learner import Learner
from ..memory import disk_traffic, resident_bytes
from ..storage.manifest import finite
from ..storage.schemas import REMEDY, check_content
from ..training.settings.schedule import Interval
from ..training.settings.work import Work

Sink = Callable[[Mapping[str, Any]], None]
"""Takes events with the names and values of `metrics.jsonl`."""

SPAN = "`train`: since the event before; other events: over the whole process."
SAME = "over the time of `rows_per_s`."

log = logging.getLogger(__name__)


class Event(BaseModel):
    """One line of `metrics.jsonl`.

    Scores (`perplexity`, ...) are further numbers. In `eval` and `end` they are held-out scores. In
    `train` they are scores of some training rows before these were trained on, if there are new
    ones.
    """

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, float | None] = Field(init=False)

    ts: str = Field(description="Time of writing, UTC, ISO 8601 with milliseconds.")
    run: str = Field(description="Name of the run folder.")
    event: Literal["start", "train", "eval", "checkpoint", "end"]
    pass_: int = Field(alias="pass", description="Number of the pass, from 1.")
    batch: int = Field(description="Blocks done in this pass.")
    rows: int = Field(description="Rows trained on so far, all passes together.")
    seconds: float = Field(description="Training time so far, without evaluation.")
    rows_per_s: float | None = Field(description=f"Speed of training. {SPAN}")
    gb_per_s: float | None = Field(description=f"10^9 bytes of data per second, {SAME}")
    gflops: float | None = Field(description=f"10^9 floating point operations per second, {SAME}")
    read_s: float = Field(description=f"Seconds of waiting for the next block, {SAME}")
    copy_s: float = Field(
        description="Seconds of copying blocks and the state of their rows to the model "
        f"(mean of the replicas), {SAME}"
    )
    compute_s: float = Field(
        description=f"Seconds of model and optimizer (mean of the replicas), {SAME}"
    )
    merge_s: float = Field(description=f"Seconds of merging replicas, {SAME}")
    queue: float | None = Field(
        description=f"How full the reader's queue was, 0 (the model waits) to 1, {SAME}"
    )
    host_bytes: int = Field(description="Resident memory of all workers; of the process, if alone.")
    cache_bytes: int = Field(description="Memory of the cache: all arrays of training.")
    device_bytes: int = Field(description="The part of cache_bytes on accelerators.")
    disk_read_bytes: int | None = Field(
        None, description="Bytes that the process has read from disks, pages of tables included."
    )
    disk_written_bytes: int | None = Field(
        None, description="Bytes that the process has written to disks, pages of tables included."
    )
    page_waits: int | None = Field(
        None, description="Pages of mapped files that a thread of the process has waited for."
    )
    table_pages: int | None = Field(
        None, description="Pages that blocks have asked for, of tables in files."
    )
    table_page_hits: int | None = Field(
        None, description="How many of table_pages were in memory already, estimated by a sample."
    )
    table_wait_s: float | None = Field(
        None, description="Seconds that training has waited for pages of tables in files."
    )
    allocations_after_warmup: int = Field(
        description="Arrays that training has allocated since the first block; 0."
    )
    checkpoint: str | None = Field(
        None, description="Folder of the saved checkpoint; in `start`, of the one resumed from."
    )
    checkpoint_bytes: int | None = Field(
        None, description="Bytes of its files, without those that it shares with the one before."
    )
    checkpoint_s: float | None = Field(
        None, description="Seconds that training has waited for it, without a copy in a store."
    )


class WrittenEvent(Event):
    """An event as it is read again: values must have their types."""

    model_config = ConfigDict(extra="allow", strict=True)


FIELDS = frozenset(field.alias or name for name, field in Event.model_fields.items())


def scores_of(event: Mapping[str, Any]) -> dict[str, float]:
    """Return the scores in an event, without those that are null."""
    return {k: v for k, v in event.items() if k not in FIELDS and v is not None}


class Metrics(Hook):
    """Write an `Event` for everything that happens to `file` and, if given, to `echo`.

    sinks: further takers of events. A sink that fails when training starts ends the run. One that
    fails later is dropped with a warning, because training matters more.
    """

    def __init__(
        self,
        file: Path,
        *,
        run: str,
        every: float,
        echo: TextIO | None = None,
        sinks: Sequence[Sink] = (),
        after: str | None = None,
    ) -> None:
        """Set up the file and the sinks.

        every: seconds between two `train` events; each pass has at least one.
        after: the checkpoint that the run resumes from.
        """
        self.file, self.run, self.echo, self.sinks = file, run, echo, list(sinks)
        self.interval = Interval(every)
        self._before = Work()  # work at the latest `train` event
        self._told: dict[str, float] = {}  # scores of training data
        self._after = after

    def start(self, learner: Learner, progress: Progress) -> None:
        """Write the `start` event."""
        self._before = progress.work
        self.write("start", progress, {}, **({"checkpoint": self._after} if self._after else {}))

    def block(self, learner: Learner, progress: Progress) -> None:
        """Write a `train` event if it is time for one and the pass has more blocks."""
        if progress.block < progress.blocks and self.interval.due():
            self._train(progress)

    def evaluated(self, learner: Learner, progress: Progress) -> None:
        """Write an `eval` event."""
        self.write("eval", progress, progress.scores)

    def pass_end(self, learner: Learner, progress: Progress) -> None:
        """Write the last `train` event of a pass."""
        self._train(progress)

    def saved(self, progress: Progress, path: Path, seconds: float) -> None:
        """Write the event of a checkpoint saved at `path`, and what it has cost."""
        files = [file.stat() for file in path.iterdir()]
        nbytes = sum(found.st_size for found in files if found.st_nlink == 1)
        cost = {"checkpoint_bytes": nbytes, "checkpoint_s": round(seconds, 6)}
        self.write("checkpoint", progress, {}, checkpoint=path.name, **cost)

    def end(self, learner: Learner, progress: Progress) -> None:
        """Write the `end` event with the final scores."""
        self.write("end", progress, progress.scores)

    def _train(self, progress: Progress) -> None:
        """Write a `train` event, with scores of training data if there are new ones."""
        new = progress.train_scores is not self._told
        self._told = progress.train_scores
        self.write("train", progress, progress.train_scores if new else {})

    def write(
        self, event: str, progress: Progress, scores: Mapping[str, float], **more: str | float
    ) -> None:
        """Write one event to the file, to `echo` and to all sinks. more: fields of its own."""
        work = progress.work
        if event == "train":
            work, self._before = work - self._before, work
        fields: dict[str, Any] = {
            "ts": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "run": self.run,
            "event": event,
            "pass": progress.pass_ + 1,
            "batch": progress.block,
            "rows": progress.rows,
            "seconds": round(progress.seconds, 6),
            **speeds(work),
            "host_bytes": resident_bytes() + progress.bytes_elsewhere,
            "cache_bytes": progress.cache_bytes,
            "device_bytes": progress.device_bytes,
            **_traffic(),
            **_pages(progress),
            "allocations_after_warmup": progress.allocations_after_warmup,
            **more,
            **{name: float(value) for name, value in scores.items()},
        }
        fields = {name: finite(value) for name, value in fields.items()}
        line = json.dumps(fields)
        with naming(self.file), self.file.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
        if self.echo:
            print(line, file=self.echo, flush=True)
        for sink in list(self.sinks):
            self._send(sink, fields)

    def _send(self, sink: Sink, event: Mapping[str, Any]) -> None:
        try:
            sink(event)
        except OSError as error:
            if event["event"] == "start":
                raise
            log.warning("%s; training continues without it", error)
            self.sinks.remove(sink)


def _pages(progress: Progress) -> dict[str, float]:
    """Return the fields of an event that count pages of tables; none if they are in memory."""
    pages = progress.table_pages
    if pages is None:
        return {}
    waited = round(progress.table_wait_seconds, 6)
    return {"table_pages": pages.asked, "table_page_hits": pages.hits, "table_wait_s": waited}


def _traffic() -> dict[str, int]:
    """Return the fields of an event that count the traffic with disks; none where it is unknown."""
    names, found = ("disk_read_bytes", "disk_written_bytes", "page_waits"), disk_traffic()
    return {} if found is None else dict(zip(names, found, strict=True))


def speeds(work: Work) -> dict[str, float | None]:
    """Return the fields of an event that measure `work`; speeds are None without work."""
    known = work.blocks > 0
    return {
        "rows_per_s": work.rows_per_s if known else None,
        "gb_per_s": work.gb_per_s if known else None,
        "gflops": work.gflops if known else None,
        "read_s": round(work.read, 6),
        "copy_s": round(work.copy, 6),
        "compute_s": round(work.compute, 6),
        "merge_s": round(work.merge, 6),
        "queue": round(work.queue, 4) if known else None,
    }


def events_of(file: Path) -> list[dict[str, Any]]:
    """Return all events in order, without a line that a crash cut off.

    Raises:
        ModelFolderError: a line was edited or damaged.
    """
    return [event for _, event in _lines(file)]


def _lines(file: Path) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """Yield each complete line of `file`, and its event."""
    for number, line in enumerate(file.read_bytes().split(b"\n")[:-1], start=1):
        place = f"{file}: line {number}"
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            raise ModelFolderError(f"{place}: damaged: not JSON. {REMEDY}") from None
        check_content(WrittenEvent, event, place)
        yield line + b"\n", event


def evaluations(file: Path) -> list[dict[str, Any]]:
    """Return the number (`pass`) and the held-out scores of each evaluation, in order."""
    found = (event for event in events_of(file) if event["event"] == "eval")
    return [{k: v for k, v in event.items() if k == "pass" or k not in FIELDS} for event in found]


def rewind(file: Path, rows: int, after: str | None = None) -> None:
    """Drop the events that a run resuming after `rows` rows will repeat.

    The `end` event and a line cut off by a crash are dropped, too.

    after: the checkpoint that the run resumes from. It has the rows of its pass, maybe not the end.
    """
    if not file.exists():
        return
    kept = []
    for line, event in _lines(file):
        kind = event["event"]
        if kind != "end" and (event["rows"] < rows or (event["rows"] == rows and kind != "start")):
            kept.append(line)
        if kind == "checkpoint" and event.get("checkpoint") == after:
            break
    write_file(file, b"".join(kept))
