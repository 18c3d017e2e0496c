"""The row that a section yields for each measurement. Needs the standard library only."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Row:
    """One line of the table.

    seconds: on the device.
    cpu: the same on the host; None if it was not run.
    floor: the least that memory and arithmetic of an H200 allow.
    note: further findings.
    """

    name: str
    seconds: float | None = None
    cpu: float | None = None
    floor: float | None = None
    note: str = ""
