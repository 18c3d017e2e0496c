"""An evaluation that takes worse scores for better ones, so that an early one is the best."""

from __future__ import annotations

from typing import Any

import blocklearn as bl


def worse_first(metric: str, better: str, **fields: Any) -> bl.Evaluation:
    """Return the evaluation. Its fields are not checked: other code cannot set such ones."""
    given: dict[str, Any] = {"metric": metric, "better": better, **fields}
    return bl.Evaluation.model_construct(**given)
