"""Counts and times of requests, as text for Prometheus."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import defaultdict
from itertools import accumulate

from ..memory import resident_bytes
from ..watch.prometheus import family, head, sample

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds of the times of requests that are counted, in seconds."""


class Counters:
    """What a service has done since it started.

    model: the kind of its model.
    waiting: requests that have arrived and are not answered yet.
    """

    def __init__(self, model: str) -> None:
        """Start at zero."""
        self.model, self.waiting, self.rows = model, 0, 0
        self.started = time.time()
        self._requests: dict[tuple[str, int], int] = defaultdict(int)
        self._times: dict[str, list[int]] = defaultdict(lambda: [0] * (len(BUCKETS) + 1))
        self._seconds: dict[str, float] = defaultdict(float)

    def count(self, path: str, status: int, seconds: float) -> None:
        """Count an answered request. path: one of the service's own, or "other"."""
        self._requests[path, status] += 1
        self._times[path][bisect_left(BUCKETS, seconds)] += 1
        self._seconds[path] += seconds

    def text(self) -> str:
        """Return the text exposition format 0.0.4."""
        up = {"model": self.model}
        answered = [
            ({"path": path, "status": str(status)}, number)
            for (path, status), number in sorted(self._requests.items())
        ]
        name = "serve_request_seconds"
        lines = [
            *family("serve_up", "1; the label is the kind of the model.", (up, 1)),
            *family("serve_started_seconds", "Unix time of the start.", ({}, self.started)),
            *family("serve_waiting_requests", "Requests without an answer.", ({}, self.waiting)),
            *family("serve_host_bytes", "Resident memory of the process.", ({}, resident_bytes())),
            *family("serve_rows_total", "Rows that were answered.", ({}, self.rows)),
            *family("serve_requests_total", "Answered requests.", *answered),
            *head(name, "Times from a request to its answer.", "histogram"),
        ]
        for path, times in sorted(self._times.items()):
            bounds = [*map(str, BUCKETS), "+Inf"]
            for bound, number in zip(bounds, accumulate(times), strict=True):
                lines.append(sample(f"{name}_bucket", {"path": path, "le": bound}, number))
            lines.append(sample(f"{name}_sum", {"path": path}, self._seconds[path]))
            lines.append(sample(f"{name}_count", {"path": path}, sum(times)))
        return "\n".join(lines) + "\n"
