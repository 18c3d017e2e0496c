"""What a user hands over as data, as a source of blocks."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..datasources import DataSource, HostBlock, MatrixSource
from ..datasources.matrix import KEEP_BYTES
from ..matcache import ShapeError
from ..models import LabelCounts, Model


def open_source(
    data: Any, *, block_rows: int, shuffle: bool = False, seed: int = 0, keep: bool = False
) -> DataSource:
    """`data` itself if it is a source, else one over a matrix X, (X, Y) or (X, Y, weights).

    keep: blocks that are the same in every pass may be kept, because there will be other passes.
    """
    if hasattr(data, "read") and hasattr(data, "blocks"):
        return data  # type: ignore[no-any-return]
    X, targets, weights = data, None, None
    if isinstance(data, tuple):
        if len(data) not in (2, 3):
            raise ValueError(
                f"Learner: data as a tuple of {len(data)}, but it is (X, Y) or (X, Y, weights)."
            )
        X, targets, weights = (*data, None)[:3]
    return MatrixSource(
        X,
        targets=targets,
        weights=weights,
        block_rows=block_rows,
        shuffle=shuffle,
        seed=seed,
        keep_bytes=KEEP_BYTES if keep else 0,
    )


def check_labelled(model: Model, source: DataSource | None, name: str) -> None:
    """Raises ShapeError where `model` needs targets and `source` has none."""
    if model.needs_targets and source is not None and not source.shape.targets:
        raise ShapeError(
            f"Learner: {type(model).__name__} learns from targets and is scored by them, but the "
            f"data for {name} have none; pass (X, Y) in place of X."
        )


def count_labels(source: DataSource) -> LabelCounts:
    """Sums of the rows' weights, and of their targets times these, over one pass."""
    block = HostBlock(source.shape)
    weight, sums = 0.0, np.zeros(source.shape.targets)
    for index in range(source.blocks):
        source.read(0, index, block)
        weights = block.weights.astype(np.float64)
        weight += float(weights.sum())
        sums += weights @ block.targets
    return LabelCounts(weight, sums.tolist())
