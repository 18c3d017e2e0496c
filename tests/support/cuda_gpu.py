"""Run CUDA text on a device, called as `cuda_host.HostModule` is."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

THREADS = 256  # of a block, where the text does not say


class DeviceModule:
    """A compiled module; `call` copies arrays to the device, runs a kernel, copies them back."""

    def __init__(self, source: str) -> None:
        self.cupy: Any = pytest.importorskip("cupy")
        self.threads = int((re.findall(r"#define BL_BLOCK (\d+)", source) or [THREADS])[0])
        self.module = self.cupy.RawModule(code=source, options=("--std=c++17",))

    def call(self, name: str, *args: Any, blocks: int = 1) -> None:
        """args: arrays, Python ints (as int64), NumPy scalars (as they are)."""
        held = [(a, self.cupy.asarray(a)) if isinstance(a, np.ndarray) else (a, None) for a in args]
        given = [
            np.int64(a) if isinstance(a, int) else a if device is None else device
            for a, device in held
        ]
        self.module.get_function(name)((blocks,), (self.threads,), tuple(given))
        for a, device in held:
            if device is not None and a.flags.writeable:
                np.copyto(a, device.get())
