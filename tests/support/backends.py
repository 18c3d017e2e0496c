"""A cache on each backend: the CPU, and a device that is none, whose kernels g++ compiles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from blocklearn.matcache import MatCache
from blocklearn.matcache.cuda import Cuda
from tests.support import cuda_host
from tests.support.cuda_device import HostDriver

needs_compiler = pytest.mark.skipif(not cuda_host.available(), reason="no g++ on this machine")
BACKENDS = ["cpu", pytest.param("cuda", marks=needs_compiler)]


@pytest.fixture(params=BACKENDS)
def memory(request: Any) -> Iterator[MatCache]:
    backend = Cuda(HostDriver()) if request.param == "cuda" else None
    with MatCache(threads=2, backend=backend) as cache:
        yield cache
