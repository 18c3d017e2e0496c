"""Compare merging two replicas on one card and on the host: time and bits."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from blocklearn.matcache import MatCache, Merge, make_backend, make_merger, named, plan_merge

from .measure import Row, Scale, floor

REPLICAS = 2
RULES: tuple[Merge, ...] = ("mean", "sum", "max")
WEIGHT = 0.7  # step of a replica towards the mean, where bits are compared


class Merged(NamedTuple):
    """One way to merge.

    seconds: of a merge of means.
    bits: of all Mats after one merge by each rule.
    """

    seconds: float
    bits: list[bytes]


def rows(scale: Scale) -> Iterator[Row]:
    """Yield the merge of a table of V x K in float32, such as the topics of LDA.

    On one card all parts are copied there and back, and read and written once by the kernel: three
    times 2 * REPLICAS * 4VK bytes. On two cards each one moves half of that.
    """
    shape = scale.of(50_000, 60), scale.of(256, 5)
    device, host = (_merged(name, shape, scale) for name in ("cuda:0", "cpu"))
    nbytes = 3 * 2 * REPLICAS * 4.0 * shape[0] * shape[1]
    same = "same bits as on the CPU" if device.bits == host.bits else "failed: other bits"
    yield Row(
        f"merge of {REPLICAS} replicas on one card, {shape[0]:,} x {shape[1]}",
        *(device.seconds, host.seconds),
        floor(nbytes, 0),
        f"{nbytes / 1e6:,.0f} MB, {nbytes / device.seconds / 1e9:,.0f} GB/s; {same}",
    )


def _merged(device: str, shape: tuple[int, int], scale: Scale) -> Merged:
    caches = [MatCache(backend=make_backend(device, None), reserving=True) for _ in range(REPLICAS)]
    mats = {rule: [named(cache, rule, shape) for cache in caches] for rule in RULES}
    for turn, cache in enumerate(caches):
        plan_merge(cache, [(rule, mats[rule][turn]) for rule in RULES], REPLICAS)
        cache.commit()
    merger = make_merger(caches, [(rule, mats[rule][0]) for rule in RULES])
    try:
        rng = np.random.default_rng(0)
        _fill(mats["sum"], [rng.random(shape, np.float32)] * REPLICAS)
        merger.begin([mats["sum"]])
        for rule in RULES:
            _fill(mats[rule], [rng.random(shape, np.float32) for _ in caches])
        merger.merge(mats.items(), WEIGHT)
        bits = [mat.numpy().tobytes() for rule in RULES for mat in mats[rule]]
        return Merged(_seconds(merger, mats["mean"], scale), bits)
    finally:
        merger.close()
        for cache in caches:
            cache.close()


def _fill(mats: list[Any], arrays: list[Any]) -> None:
    for mat, array in zip(mats, arrays, strict=True):
        mat.set(array)
        mat.version = mat.slot.version


def _seconds(merger: Any, mats: list[Any], scale: Scale) -> float:
    """Return the seconds of a merge, which returns when all devices are done."""
    calls, begun = 0, time.perf_counter()
    while (spent := time.perf_counter() - begun) < scale.least or calls < 2:
        merger.merge([("mean", mats)])
        calls += 1
    return spent / calls
