"""Connections that clients cannot hold for ever."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

STAGES = 3  # limits of time for a request: one to arrive, one for the answer, one to spare


class LimitedProtocol(H11Protocol):
    """HTTP as uvicorn has it, with limits of time that uvicorn lacks.

    A connection is closed if the head of a request does not arrive within `seconds`, counted from
    the answer to the one before, which must have been read by then.
    """

    seconds = 30.0

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Make a connection without a timer."""
        super().__init__(*arguments, **options)
        self._timer: asyncio.TimerHandle | None = None
        self._stage: tuple[Any, bool] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Take data, which may complete the head of a request."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Begin to wait for the next request."""
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        super().connection_lost(exc)
        if self._timer is not None:
            self._timer.cancel()

    def _watch(self) -> None:
        """Set the timer anew where a request has arrived, or is answered."""
        working = self.cycle is not None and not self.cycle.response_complete
        if self._stage == (self.cycle, working):
            return
        if self._timer is not None:
            self._timer.cancel()
        seconds = self.seconds * (STAGES if working else 1)
        self._stage = (self.cycle, working)
        self._timer = self.loop.call_later(seconds, self.transport.abort)


def protocol(seconds: float) -> type[LimitedProtocol]:
    """Return the class of connections with this limit of time."""
    return type("Limited", (LimitedProtocol,), {"seconds": seconds})
