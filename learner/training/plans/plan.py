"""The memory that training takes, by array: a plan, which is read as JSON, too."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

Of = Literal["model", "block", "rows", "kept", "hooks", "scores"]
"""What an array's size depends on: the model, the rows of a block, all rows of the data, the bytes
that may be kept, the hooks, or the rows that are scored."""

ROW_STATE = " (row state)"  # follows the name of a state
ON_HOST = " (rows on the host)"  # follows the name of a table whose first rows lie on a device
OF_BLOCKS = "rows of tables, of two blocks at most"  # the name of what tables in files need


class Planned(NamedTuple):
    """An array of the plan, or several of one kind.

    nbytes: of one copy.
    of: what the size depends on.
    copies: one for each replica where there are several.
    in_file: whether it is mapped from a file, so that memory need not hold it.
    device: whose memory it is in (that of each replica, if there are several); "": the host's.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    nbytes: int
    of: Of = "model"
    copies: int = 1
    in_file: bool = False
    device: str = ""

    @property
    def held(self) -> int:
        """The bytes of all copies in the host's memory."""
        return 0 if self.in_file else self.mapped

    @property
    def mapped(self) -> int:
        """The bytes of all copies in the host's memory, or in files that are mapped into it."""
        return 0 if self.device else self.nbytes * self.copies


class DeviceRoom(NamedTuple):
    """The memory of a device that replicas share.

    replicas: how many are on the device.
    free: its bytes that they may take.
    """

    device: str
    replicas: int
    free: int


@dataclass(frozen=True)
class Plan:
    """The memory by array.

    rows: the arrays; those of the model come first, largest first.
    devices: the devices of the replicas, which all take the same memory; none on the CPU.
    """

    rows: list[Planned]
    devices: Sequence[DeviceRoom] = ()

    @property
    def total(self) -> int:
        """The bytes of the host's memory."""
        return sum(row.held for row in self.rows)

    @property
    def on_device(self) -> int:
        """The bytes that a replica takes on its device; 0 on the CPU."""
        return sum(row.nbytes for row in self.rows if row.device)

    @property
    def rows_in_memory(self) -> bool:
        """Whether a state of rows is in memory, which could be in a file."""
        return any(row.name.endswith(ROW_STATE) and not row.in_file for row in self.rows)

    @property
    def row_files(self) -> dict[str, int]:
        """The bytes of each state of rows that is kept in a file, by the file's name."""
        return {
            f"{row.name.removesuffix(ROW_STATE)}.{row.dtype}": row.nbytes
            for row in self.rows
            if row.in_file and row.of == "rows"
        }

    @property
    def table_files(self) -> dict[str, int]:
        """The bytes of each table that is kept in a file, by the file's name, largest first."""
        return {
            f"{row.name}.{row.dtype}": row.nbytes
            for row in self.rows
            if row.in_file and row.of == "model"
        }

    def json(self) -> str:
        """Return the plan as a JSON object."""
        rows = [row._asdict() for row in self.rows]
        found = {
            "total": self.total,
            "on_device": self.on_device,
            "devices": [room._asdict() for room in self.devices],
        }
        return json.dumps(found | {"rows": rows}, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Read the plan that `json` returned as `text`."""
        found = json.loads(text)
        rows = [
            Planned(**{k: v for k, v in row.items() if k in Planned._fields})._replace(
                shape=tuple(row["shape"])
            )
            for row in found["rows"]
        ]
        return cls(rows, tuple(DeviceRoom(**room) for room in found.get("devices", ())))
