"""Make all devices idle ones: what remains is the host's work for each block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from blocklearn.matcache.cuda import devices
from blocklearn.matcache.cuda.idle import IdleDriver


@contextmanager
def idle_devices() -> Iterator[None]:
    """Make all devices of this process idle ones."""
    with (
        mock.patch.object(devices, "open_driver", IdleDriver),
        mock.patch.object(devices, "count", lambda: 8),
    ):
        yield
