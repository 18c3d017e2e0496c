"""Operations on counts that are sequential within a row, and so have kernels of their own."""

from __future__ import annotations

from .lazy import Mat, SparseMat
from .rowwise import row_bounds, values_container


def split_tokens(X: SparseMat, row_ids: Mat, key: Mat) -> tuple[SparseMat, SparseMat]:
    """Split each row's tokens at random into two halves: `(seen, scored)`, which add up to X.

    X: counts [n x m]; row_ids: int64 [n x 1], the numbers of the rows in their source; key: int64
    [1 x 3]. The split of a row depends on its number and the key alone, not on its block.
    """
    cache = X.cache
    X, row_ids, key = SparseMat.mat(X), row_ids.mat(), key.mat()
    assert isinstance(X, SparseMat)
    identity = ("split_tokens", X.guid, row_ids.guid, key.guid)
    slots = [
        values_container(cache, (*identity, half), X.pattern, X.dtype, f"{half} half of {X.label}")
        for half in ("seen", "scored")
    ]
    bounds = row_bounds(cache, X.shape[0], X.pattern)
    if any([cache.begin(slot) for slot in slots]):
        if not cache.reserving:
            seen, scored = (slot.array for slot in slots)
            assert seen is not None and scored is not None and X.slot.array is not None
            cache.backend.run(
                cache.backend.kernels["split_tokens"],
                len(bounds) - 1,
                bounds,
                X.pattern.indptr,
                X.slot.array[0],
                row_ids.slot.array,
                key.slot.array,
                seen[0],
                scored[0],
            )
        for slot in slots:
            slot.written()
            slot.inputs = (
                (X.slot, X.slot.version),
                (X.pattern, X.pattern.version),
                (row_ids.slot, row_ids.slot.version),
                (key.slot, key.slot.version),
            )
            slot.computed = slot.version
    first, second = (SparseMat(cache, slot, X.pattern) for slot in slots)
    return first, second
