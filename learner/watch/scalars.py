"""Turn events into named numbers, as boards and trackers show them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .events import scores_of

TAGS = {
    "rows_per_s": "speed/rows_per_s",
    "gb_per_s": "speed/gb_per_s",
    "gflops": "speed/gflops",
    "read_s": "time/read_s",
    "copy_s": "time/copy_s",
    "compute_s": "time/compute_s",
    "merge_s": "time/merge_s",
    "queue": "reader/queue",
    "host_bytes": "memory/host_bytes",
    "cache_bytes": "memory/cache_bytes",
    "device_bytes": "memory/device_bytes",
    "disk_read_bytes": "disk/read_bytes",
    "disk_written_bytes": "disk/written_bytes",
    "page_waits": "disk/page_waits",
    "table_pages": "disk/table_pages",
    "table_page_hits": "disk/table_page_hits",
    "table_wait_s": "disk/table_wait_s",
}
"""Tags by the names of figures in `train` events."""


def scalars_of(event: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of an event by tag: `held_out/perplexity`, `speed/rows_per_s`.

    Only `train` and `eval` events have numbers.
    """
    if event["event"] == "train":
        figures = {tag: event[name] for name, tag in TAGS.items() if event.get(name) is not None}
        return figures | {f"training/{name}": value for name, value in scores_of(event).items()}
    if event["event"] == "eval":
        return {f"held_out/{name}": value for name, value in scores_of(event).items()}
    return {}
