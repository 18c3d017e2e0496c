"""What a reading found, in plain Python, so that two readings can be compared."""

import math
from typing import Any

import numpy as np
from scipy import sparse

Facts = dict[str, Any]
"""Some of: rows, columns (numbers); entries, a list of (row, column, value) without zeros; words, a
sorted list of (word, count) for each row; targets, weights, ids.
"""

CLOSE = 1e-6  # of numbers that are sums: their order is free


def table_facts(X: Any) -> Facts:
    """Of a matrix; values as float32 have them."""
    with np.errstate(over="ignore", invalid="ignore"):
        found = sparse.coo_array(X).astype(np.float32)
    found.sum_duplicates()
    order = np.lexsort((found.coords[1], found.coords[0]))
    rows, columns, values = found.coords[0][order], found.coords[1][order], found.data[order]
    kept = values != 0
    triples = zip(rows[kept].tolist(), columns[kept].tolist(), values[kept].tolist(), strict=True)
    return {"rows": X.shape[0], "columns": X.shape[1], "entries": list(triples)}


def word_facts(X: Any, names: Any) -> list[list[tuple[str, float]]]:
    """Of a matrix whose columns are words."""
    found = sparse.csr_array(X)
    listed = list(names)
    return [
        sorted(
            (listed[column], float(value))
            for column, value in zip(
                found.indices[start:stop].tolist(), found.data[start:stop].tolist(), strict=True
            )
            if value
        )
        for start, stop in zip(found.indptr[:-1], found.indptr[1:], strict=True)
    ]


def single(value: float) -> float:
    """As float32 has it."""
    with np.errstate(over="ignore"):
        return float(np.float32(value))


def differ(found: Facts, expected: Facts) -> str | None:
    """What is not the same, None if nothing; only what is expected counts."""
    for key, value in expected.items():
        if not same(found.get(key), value):
            return f"{key}: {found.get(key)!r:.300}, but an independent reading has {value!r:.300}"
    return None


def same(a: Any, b: Any) -> bool:
    """Equal, or floats that are close."""
    if isinstance(a, float) and isinstance(b, float | int):
        return a == b or math.isclose(a, b, rel_tol=CLOSE, abs_tol=1e-37)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


def finite(found: Facts) -> bool:
    """Whether all numbers are."""

    def check(value: Any) -> bool:
        if isinstance(value, float):
            return math.isfinite(value)
        return all(map(check, value)) if isinstance(value, list | tuple) else True

    return all(check(value) for value in found.values())
