"""Measure the speed of training, and the memory that it takes."""

from __future__ import annotations

from collections.abc import Sequence

from blocklearn.datasources import Reader

from ..files.table_files import TableFiles
from ..memory import resident_bytes
from .settings.progress import Progress
from .settings.work import Work, together
from .teams.team import Team


class Meter:
    """Counts what training does. A `Progress` learns it at each pause."""

    def __init__(self, team: Team, readers: Sequence[Reader], progress: Progress) -> None:
        """Count from zero: speeds are of this process, without the run that it resumes."""
        self._team, self._readers, self._progress = team, readers, progress
        self._before = team.work()
        self._earlier, self._rows, self._seconds = progress.work, progress.rows, progress.seconds
        self._done = Work()
        self._flops = 0  # of training
        self._flops_at_start = 0

    def start(self) -> None:
        """Count from now on."""
        self._team.counter.start()
        self._flops_at_start = self._team.flops

    def pause(self) -> None:
        """Stop counting, and tell the progress."""
        team, progress, flops = self._team, self._progress, self._team.flops
        self._flops += flops - self._flops_at_start
        self._flops_at_start = flops
        ready = sum([reader.ready for reader in self._readers])
        self._done = team.work(self._flops, ready) - self._before
        self._show(self._done)
        first = team.first
        progress.cache_bytes = team.nbytes
        if first.device != "cpu":
            progress.device_bytes = progress.cache_bytes
        progress.allocations_after_warmup = team.late_allocations
        if first.files is not None and isinstance(files := first.files, TableFiles):
            progress.table_pages = files.asked
            progress.table_wait_seconds = files.live.waited

    def meet(self) -> None:
        """Tell the progress the work and the memory of all workers, at a pause."""
        if self._team.crew.size == 1:
            return
        progress, resident = self._progress, resident_bytes()
        arrays = progress.cache_bytes, progress.device_bytes, progress.allocations_after_warmup
        told = self._team.meet([list(self._done), [*arrays, resident]])
        self._show(together([Work(*done) for done, _ in told]))
        caches, devices, allocations, everywhere = map(sum, zip(*[m for _, m in told], strict=True))
        progress.cache_bytes, progress.device_bytes = caches, devices
        progress.allocations_after_warmup = allocations
        progress.bytes_elsewhere = everywhere - resident

    def _show(self, done: Work) -> None:
        progress = self._progress
        progress.work = self._earlier + done
        progress.rows, progress.seconds = self._rows + done.rows, self._seconds + done.seconds
        progress.rows_per_s, progress.gflops = done.rows_per_s, done.gflops
