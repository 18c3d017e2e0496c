"""Limits of a service, which become options of `learn serve`.

This is a plain dataclass without imports of heavy modules, so `--help` is quick.
"""

from dataclasses import dataclass

from ..conversion.settings import setting


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a service accepts. A request beyond a limit gets an error that names it."""

    max_body: int = setting(2**20, "Largest body of a request, in bytes.", "BYTES", min=1)
    max_rows: int = setting(1000, "Most rows, users, items or pairs in a request.", "N", min=1)
    max_requests: int = setting(1000, "Most requests at a time; more get status 503.", "N", min=1)
    seconds: float = setting(
        30.0, "Most seconds for a request to arrive, and then for its answer.", "S", min=0.01
    )
