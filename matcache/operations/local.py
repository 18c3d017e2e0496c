"""Tables with a row for each column that occurs in a block, for data of many columns.

X = local(block.X)                          # columns numbered in the block
phi = local_table(X, k, "phi")              # a row for each column that occurs
scale_rows(X.T, phi, weights)               # a program over the columns sets them: weights has
                                            # a row for each column of the data
scores = X @ phi
"""

from __future__ import annotations

import numpy as np

from ..containers.arrays import named
from ..containers.launching import launch
from ..containers.local import LocalPattern, grows_with
from ..containers.matrices import Mat, SparseMat
from ..containers.slots import PatternSlot

FEW = 0.5  # share of the columns: up to here, a block is taken to have few


def few_occur(nnz: int, columns: int) -> bool:
    """Return whether most columns occur in no block of up to `nnz` non-zeros."""
    return nnz <= FEW * columns


def local(X: SparseMat) -> SparseMat:
    """Return X with columns numbered in the block, if most columns do not occur in it, or X itself.

    Column n is the n-th of those that occur. Values are those of X, not a copy.
    """
    cache, whole = X.cache, X.pattern
    if isinstance(whole, LocalPattern):
        return X
    key = ("local", whole.guid)
    pattern = cache.patterns.get(key)
    if pattern is None:
        if not few_occur(whole.capacity, whole.columns):
            return X
        label = f"columns of {whole.label} in the block"
        places = cache.result(key, (1, whole.capacity), np.int32, label)
        whole.dependents[places.guid] = places
        pattern = cache.patterns[key] = LocalPattern(cache.new_guid(), whole, places)
    assert isinstance(pattern, LocalPattern)
    X.mat()
    if cache.begin(pattern.places):
        pattern.places.written()
        launch(cache, "number_columns", whole, pattern.places)
        pattern.places.computed_from(whole)
    return SparseMat(cache, X.slot, pattern, X.tables)


def local_table(X: SparseMat, columns: int, name: str) -> Mat:
    """Return the table called `name`, with a row for each column of X.

    X: of `local`. Of its numbers, only rows of columns that occur in the block have a meaning.
    """
    pattern: PatternSlot = X.pattern
    if not isinstance(pattern, LocalPattern):
        return named(X.cache, name, (pattern.columns, columns))
    found = named(X.cache, f"{name}, columns in the block", (pattern.columns, columns))
    grows_with(pattern, found)
    return found
