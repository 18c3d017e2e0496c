"""The kernels of a backend: their source texts, and the functions that these are compiled to."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ..cpu.processors import available_threads
from ..threads import starting
from .driver import Driver

THREADS = 256  # threads in a block
COMPILING = "blocklearn-nvrtc"


class Text:
    """The source text of a kernel, and the driver's function once it is compiled.

    threads: in a block.
    """

    def __init__(self, source: str, name: str, threads: int) -> None:
        """Keep the text; it is compiled later."""
        self.source, self.name, self.threads = source, name, threads
        self.function: Any = None


class Texts:
    """Texts by what they are for."""

    def __init__(self, driver: Driver) -> None:
        """Start without texts. The driver compiles them."""
        self._driver = driver
        self._texts: dict[Hashable, Text] = {}

    def text(self, key: Hashable, source: Callable[[], str], name: str, threads: int) -> Text:
        """Return the text known by `key`; the first call makes its `source`."""
        found = self._texts.get(key)
        if found is None:
            found = self._texts[key] = Text(source(), name, threads)
        return found

    def compile_all(self) -> None:
        """Compile all that are not compiled yet, several at a time.

        NVRTC compiles texts side by side. Kernels of one text are compiled once.
        """
        one_each = {text.source: text for text in self._texts.values() if text.function is None}
        at_once = max(1, min(len(one_each), available_threads()))
        with starting(COMPILING), ThreadPoolExecutor(at_once, COMPILING) as threads:
            list(threads.map(self.compile, one_each.values()))
        for text in self._texts.values():
            self.compile(text)

    def compile(self, text: Text) -> None:
        """Compile a text, unless it is compiled already."""
        if text.function is None:
            text.function = self._driver.function(text.source, text.name)

    def clear(self) -> None:
        """Forget all texts."""
        self._texts.clear()
