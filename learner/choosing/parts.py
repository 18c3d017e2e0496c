"""Hold entries out, which settings are judged by: a tenth, or of few entries each one once.

A tenth of few entries is so small that the noise in them chooses. Then they are held out in turn,
in five parts (cross-validation). The five trainings are one, of a matrix with five copies of the
users and items: no user has an entry for an item of another copy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from blocklearn.datasources import DataSource, blocks_of_entries, entry_filter

SHARE = 0.1  # of the entries, held out
STREAM = 2**63  # added to the seed: a tenth that the run holds out itself is another one
FEW = 10_000  # entries, up to which they are held out in turn
PARTS = 5  # in which they are


def one_part(train: DataSource, seed: int) -> list[DataSource]:
    """Return the entries to train on, and the tenth that is held out."""
    return [entry_filter(train, SHARE, seed + STREAM, held=held) for held in (False, True)]


def in_turn(train: DataSource, seed: int) -> list[Any]:
    """Return two CSR matrices of PARTS copies of all entries: to train on, and held out.

    In copy p, part p is held out. The parts depend on the entries and the seed alone. Users and
    items without entries are left out.
    """
    users, items, values = entries(train)
    (known_users, users), (known_items, items) = (
        np.unique(ids, return_inverse=True) for ids in (users, items)
    )
    shape = known_users.size, known_items.size
    rng = np.random.Generator(np.random.Philox(key=np.array([seed, STREAM], np.uint64)))
    part = rng.permutation(values.size) % PARTS

    def copies(*, held: bool) -> Any:
        some = [np.flatnonzero((part == copy) == held) for copy in range(PARTS)]
        return sparse.block_diag(
            [sparse.csr_array((values[s], (users[s], items[s])), shape) for s in some], "csr"
        )

    return [copies(held=held) for held in (False, True)]


def entries(source: DataSource) -> tuple[Any, Any, Any]:
    """Return the rows, columns and values of all entries, in ascending order."""
    found = [
        (np.repeat(ids, np.diff(matrix.indptr)), matrix.indices, matrix.data)
        for ids, matrix in blocks_of_entries(source)
    ]
    rows, columns, values = (np.concatenate(each) for each in zip(*found, strict=True))
    order = np.lexsort((columns, rows))
    return rows[order], columns[order], values[order]


def held_out(parts: int) -> str:
    """Say which entries judge, if they are held out in so many parts."""
    if parts == 1:
        return f"{SHARE:.0%} of the entries"
    return f"all entries, held out in {parts} parts"
