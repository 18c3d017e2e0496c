"""Example of real-valued ratings: hours that clocks were ahead of UTC."""

from __future__ import annotations

import zoneinfo
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from ..errors import DataError
from ..ids import Ids
from ..ratings.matrix import Ratings

FIRST, LAST = 1970, 2025  # years; all are past, so their rules no longer change
REGIONS = frozenset(
    "Africa America Antarctica Arctic Asia Atlantic Australia Europe Indian Pacific".split()
)
DAY = 24.0


def time_zones() -> Ratings:
    """Return the hours that local time was ahead of UTC [months, zones].

    A row is the beginning of a month ("1970-01" to "2025-12"), a column a zone ("Europe/Paris"). An
    entry is the zone's offset at that moment, summer time included. The data come from the time
    zone database of the system or of the package `tzdata`.

    Of zones that agree in all months, only the one with the shortest name is kept. Zones that moved
    across the date line, by a whole day, are left out. Months are independent rows here. So a model
    predicts a hidden entry from other zones that had the same rules.

    Raises `DataError` if no such database exists.
    """
    months = [datetime(y, m, 1, tzinfo=UTC) for y in range(FIRST, LAST + 1) for m in range(1, 13)]
    zones: dict[bytes, str] = {}
    for name in sorted(zoneinfo.available_timezones(), key=lambda name: (len(name), name)):
        if name.partition("/")[0] in REGIONS:
            hours = hours_ahead(name, months)
            if np.ptp(hours) < DAY / 2:
                zones.setdefault(hours.tobytes(), name)
    if not zones:
        raise DataError(
            "time-zones: no time zone database on this system; install the package `tzdata` "
            "(pip install tzdata)."
        )
    by_name = sorted((name, key) for key, name in zones.items())
    table = np.array([np.frombuffer(key, np.float32) for _, key in by_name]).T
    rows, columns = [f"{month:%Y-%m}" for month in months], [name for name, _ in by_name]
    return Ratings(all_stored(table), Ids(rows), Ids(columns))


def hours_ahead(zone: str, moments: Sequence[datetime]) -> npt.NDArray[np.float32]:
    """Return the hours that clocks of `zone` were ahead of UTC at these moments."""
    place = zoneinfo.ZoneInfo(zone)
    ahead = [moment.astimezone(place).utcoffset() or timedelta() for moment in moments]
    hours = {offset: offset / timedelta(hours=1) for offset in set(ahead)}  # a zone has few
    return np.array([hours[offset] for offset in ahead], np.float32)


def all_stored(table: npt.NDArray[np.float32]) -> Any:
    """Return a SciPy CSR matrix that stores every entry, including zeros."""
    rows, columns = table.shape
    indices = np.tile(np.arange(columns, dtype=np.int32), rows)
    indptr = np.arange(rows + 1, dtype=np.int64) * columns
    return sparse.csr_array((table.reshape(-1), indices, indptr), shape=table.shape)
