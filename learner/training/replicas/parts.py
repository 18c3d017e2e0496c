"""What a run trains: a model, its optimizer, and the terms of the objective."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from blocklearn.mixins import Mixin
from blocklearn.models import Model
from blocklearn.optimizers import Optimizer


@dataclass(frozen=True)
class Parts:
    """The model, its optimizer, and the terms of the objective."""

    model: Model
    optimizer: Optimizer | None
    mixins: Sequence[Mixin]

    def copies(self) -> Parts:
        """Return copies, for another replica."""
        optimizer = None if self.optimizer is None else self.optimizer.model_copy()
        mixins = [mixin.model_copy() for mixin in self.mixins]
        return Parts(self.model.model_copy(), optimizer, mixins)

    @property
    def shuffled(self) -> bool:
        """Whether the order of rows matters, so that every pass takes another one."""
        by_pass = self.optimizer is not None and self.optimizer.steps_by_pass
        by_pass = by_pass or self.model.steps_by_pass or self.model.rows_in_order
        return not by_pass and 1 not in self.model.row_states.values()

    def json(self) -> dict[str, Any]:
        """Return the fields of each, in values for JSON, in the keys of a configuration."""
        optimizer = self.optimizer
        return {
            "model": self.model.model_dump(mode="json"),
            "optimizer": None if optimizer is None else optimizer.model_dump(mode="json"),
            "mixins": [mixin.model_dump(mode="json") for mixin in self.mixins],
        }

    def settings(self) -> list[tuple[object, dict[str, Any]]]:
        """Return each of them with a copy of its fields."""
        parts = (self.model, self.optimizer, *self.mixins)
        return [(part, part.model_dump()) for part in parts if part is not None]

    def report(self, columns: int, names: Sequence[str] | None) -> list[str]:
        """Return the lines of the mixins about their tables.

        columns: of the data. names: of these; None: unknown.
        """
        return [
            line
            for mixin in self.mixins
            for name, mat in mixin.tables.items()
            for line in mixin.report(name, mat.numpy(), names if mat.shape[0] == columns else None)
        ]
