"""The parts of a configuration that depend on the data, and the error for data of another kind."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from ..inspection.look import Look

MATRICES = (".npz", ".mtx")


@dataclass
class Start:
    """The parts of a configuration that depend on the data.

    train: keys of `data.train`; model: keys of `model`; told: a comment for a key of any part.
    optimizer, learner: keys of these sections.
    left_out: names of columns that are neither numbers nor categories, such as dates.
    note: a line about columns that may be meant otherwise; or empty.
    """

    train: dict[str, Any]
    model: dict[str, Any] = field(default_factory=dict)
    told: dict[str, str] = field(default_factory=dict)
    optimizer: dict[str, Any] = field(default_factory=dict)
    learner: dict[str, Any] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    note: str = ""


def separated(look: Look) -> dict[str, Any]:
    """Return the separator of a table, if it is not that of its ending."""
    return {} if look.separator is None else {"separator": look.separator}


def wrong(path: Path, rule: str) -> ConfigError:
    """Return the error for a file of another kind."""
    return ConfigError([f"{path}: must be {rule}. `learn inspect {path}` says what it has"])
