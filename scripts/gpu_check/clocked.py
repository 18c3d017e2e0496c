"""Time every kernel that a training launches, by events of its stream."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from blocklearn.matcache.cuda.driver import Driver, Product

Stamp = Callable[[Any], Any]  # marks a time on a stream
Between = Callable[[Any, Any], float]  # seconds between two marks


class Clocked:
    """A driver that times kernels and dense products; all else is the driver's.

    It is for launches without graphs: `Launcher.graphs = False`.
    """

    def __init__(self, driver: Driver) -> None:
        """Use the clock of the device, or that of the host for stand-ins."""
        self._driver = driver
        self._names: dict[Any, str] = {}
        self._marks: list[tuple[str, Any, Any]] = []
        self._stamp, self._between = clock_of(driver)

    def __getattr__(self, name: str) -> Any:
        """Return what the driver has."""
        return getattr(self._driver, name)

    def function(self, source: str, name: str) -> Any:
        """Compile a kernel, and remember its name: that of its program if it has one."""
        found = self._driver.function(source, name)
        first = source.partition("\n")[0]
        program = first.removeprefix("// ") if first.startswith("// ") else ""
        label = name.replace("run", program, 1) if program and name.startswith("run") else name
        self._names[found] = label
        return found

    def launch(
        self, function: Any, grid: int, block: int, args: tuple[Any, ...], stream: Any
    ) -> None:
        """Launch a kernel between two marks."""
        before = self._stamp(stream)
        self._driver.launch(function, grid, block, args, stream)
        self._marks.append((self._names[function], before, self._stamp(stream)))

    def product(self, product: Product, stream: Any) -> None:
        """Compute a dense product between two marks."""
        before = self._stamp(stream)
        self._driver.product(product, stream)
        self._marks.append(("cuBLAS", before, self._stamp(stream)))

    def times(self) -> dict[str, list[float]]:
        """Return the seconds of each launch by name, and forget them. The device must be idle."""
        found = defaultdict(list)
        for name, before, after in self._marks:
            found[name].append(self._between(before, after))
        self._marks.clear()
        return dict(found)


def clock_of(driver: Driver) -> tuple[Stamp, Between]:
    """Return how to mark a time on a stream, and the seconds between two marks."""
    from blocklearn.matcache.cuda.cupy_driver import CupyDriver

    if not isinstance(driver, CupyDriver):

        def after_all(stream: Any) -> float:
            driver.synchronize(stream)
            return time.perf_counter()

        return after_all, lambda before, after: float(after - before)

    import cupy

    def mark(stream: Any) -> Any:
        event = cupy.cuda.Event()
        event.record(stream)
        return event

    return mark, lambda before, after: 1e-3 * float(cupy.cuda.get_elapsed_time(before, after))
