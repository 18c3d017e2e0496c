"""Operations on counts that are sequential within a row, with their own kernels."""

from __future__ import annotations

import numpy as np

from ..containers.launching import launch
from ..containers.matrices import Mat, SparseMat, slots_of
from ..containers.patterns import values_container
from ..errors import ShapeError, source_line


def split_tokens(X: SparseMat, row_ids: Mat, key: Mat) -> tuple[SparseMat, SparseMat]:
    """Split each row's tokens at random into two halves `(seen, scored)`.

    X: counts [n x m], the sum of both halves.
    row_ids: int64 [n x 1], the numbers of the rows in their source.
    key: int64 [1 x 3].

    The split of a row depends only on its number and the key, not on its block.
    """
    cache = X.cache
    X.mat(), row_ids.mat(), key.mat()
    fits = row_ids.shape == (X.shape[0], 1) and key.shape == (1, 3)
    if not fits or any(mat.dtype != np.int64 for mat in (row_ids, key)):
        raise ShapeError(
            f"split_tokens at {source_line()}: row_ids {row_ids.shape} {row_ids.dtype} and key "
            f"{key.shape} {key.dtype} of a matrix of {X.shape[0]} rows; expected "
            f"({X.shape[0]}, 1) and (1, 3), int64."
        )
    identity = (("split_tokens",), X.guid, row_ids.guid, key.guid)
    slots = [
        values_container(cache, (*identity, half), X.pattern, X.dtype, f"{half} half of {X.label}")
        for half in ("seen", "scored")
    ]
    if any([cache.begin(slot) for slot in slots]):  # noqa: C419 - each must begin
        for slot in slots:
            slot.written()
        launch(cache, "split_tokens", X.pattern, X.slot, row_ids.slot, key.slot, *slots)
        for slot in slots:
            slot.computed_from(*slots_of([X, row_ids, key]))
    first, second = (SparseMat(cache, slot, X.pattern, X.tables) for slot in slots)
    return first, second
