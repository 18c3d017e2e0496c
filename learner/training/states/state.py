"""The state from which a run continues."""

from __future__ import annotations

import re
from collections.abc import Iterable, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..replicas.names import OPTIMIZER

if TYPE_CHECKING:
    from ..replicas.paged_tables import Pages

OF_REPLICA = re.compile(r"replica\.(\d+)\.")


@dataclass(frozen=True)
class State:
    """The state from which a run continues.

    In the middle of a pass, parameters may be inexact, in a form that only training can use.

    tensors: parameters, row state and optimizer state by name. If replicas differ, the Mats of
        those after the first are called `replica.1.NAME` and so on. States of rows may be those of
        this worker only, where each has its own; or `RowPieces`, which read those of all.
    position: pass, block and other figures, in values for JSON.
    fresh: states of rows that begin afresh, because the rows are others.
    pages: the rows of tables that differ from their initial values; None: `tensors` has all tables.
    """

    tensors: dict[str, Any]
    position: dict[str, Any]
    fresh: Set[str] = frozenset()
    pages: Pages | None = None

    @property
    def exact(self) -> bool:
        """Whether it is that of a saved model: exact parameters, and nothing of an optimizer."""
        of_training = any(name.startswith(OPTIMIZER) for name in self.tensors)
        of_training |= replicas_of(self.tensors) > 1 or self.pages is not None
        return not (of_training or self.position.get("block"))


def name_in(replica: int, name: str) -> str:
    """Return the name of a Mat of a replica.

    >>> name_in(0, "weights"), name_in(2, "weights")
    ('weights', 'replica.2.weights')
    """
    return name if replica == 0 else f"replica.{replica}.{name}"


def replicas_of(names: Iterable[str]) -> int:
    """Return how many replicas have Mats of their own; 1: they are all the same.

    >>> replicas_of(["weights", "replica.1.weights", "replica.2.weights"])
    3
    """
    return 1 + max((int(match[1]) for match in map(OF_REPLICA.match, names) if match), default=0)
