"""Orders that keep parts of the rows apart: a row stays with its replica."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse

from blocklearn.datasources import (
    BlockSource,
    DataError,
    DataSource,
    EntryFilter,
    HostBlock,
    IterableSource,
    MatrixSource,
    ParquetSource,
    RowFilter,
    write_blocks,
)
from blocklearn.datasources.memory.order import RowOrder
from blocklearn.datasources.sampling.negatives import NegativeSource
from blocklearn.datasources.source import dealt, first_rows

X = sparse.csr_array(np.random.default_rng(0).poisson(0.5, (47, 6)).astype(np.float32))


def blocks_of(source: DataSource, pass_: int) -> list[Any]:
    """The rows of each block of a pass."""
    block, found = HostBlock(source.shape), []
    for index in range(source.blocks):
        source.read(pass_, index, block)
        found.append(block.row_ids[: block.rows].copy())
    return found


def made(name: str, folder: Path) -> DataSource:
    """A source of 47 rows or fewer, whose blocks have at most 5."""
    matrix = {"row_filter", "negatives", "entries", "rows"}
    source: Any = MatrixSource(X, block_rows=5, shuffle=name in matrix, seed=3)
    if name in ("blocks", "filtered blocks"):
        write_blocks(MatrixSource(X, block_rows=5), [folder])
        source = BlockSource([folder], shuffle="blocks", seed=3)
    if name == "dealt":
        return MatrixSource(X, block_rows=5, shuffle="blocks", seed=3)
    if name == "parquet":
        pq.write_table(pa.table({"a": np.arange(400.0)}), folder / "a.parquet", row_group_size=50)
        return ParquetSource(folder / "a.parquet", ["a"], block_rows=5, shuffle="blocks", seed=3)
    if name == "iterable":
        return IterableSource(lambda pass_: iter([X]), block_rows=5)
    if name in ("row_filter", "filtered blocks"):
        return RowFilter(source, 0.4, seed=1, held=False)
    if name == "entries":
        return EntryFilter(source, 0.4, seed=1, held=False)
    return NegativeSource(source, 2, 0.0, seed=0) if name == "negatives" else source


@pytest.mark.parametrize(
    "name",
    [
        "ordered", "rows", "dealt", "blocks", "filtered blocks", "row_filter", "entries",
        "negatives", "iterable", "parquet",
    ],
)  # fmt: skip
@pytest.mark.parametrize("parts", [1, 2, 3, 7, 40])
def test_each_block_has_rows_of_its_part_only(name: str, parts: int, tmp_path: Path) -> None:
    source = made(name, tmp_path)
    found, first = dealt(source, parts), first_rows(source)
    np.testing.assert_array_equal(first_rows(found), first)
    assert (first.size, first[-1]) == (source.blocks + 1, source.shape.total_rows)
    assert found.fingerprint == source.fingerprint
    orders = []
    for pass_ in range(3):
        rows = blocks_of(found, pass_)
        for index, ids in enumerate(rows):
            owners = (np.searchsorted(first, ids, "right") - 1) % parts
            assert set(owners.tolist()) <= {index % parts}
        orders.append(np.concatenate(rows).tolist())
        assert sorted(orders[-1]) == list(range(source.shape.total_rows))
        if parts == 1:
            for a, b in zip(rows, blocks_of(source, pass_), strict=True):
                np.testing.assert_array_equal(a, b)
    if name not in ("ordered", "iterable") and parts < 4:
        assert orders[0] != orders[1]


def test_parts_are_shuffled_by_themselves() -> None:
    """Rows of a part come in the order that they have in the permutation of all."""
    whole, apart = RowOrder(23, 4, True, 5), RowOrder(23, 4, True, 5, 3)
    ids = np.empty(4, np.int64)

    def rows(order: RowOrder) -> list[int]:
        return [row for i in range(order.blocks) for row in ids[: order.rows_of(1, i, ids)].copy()]

    for part in range(3):
        own = [[row for row in rows(order) if row // 4 % 3 == part] for order in (whole, apart)]
        assert own[0] == own[1]


def test_what_is_made_has_room_for_blocks_of_other_sizes_or_is_refused() -> None:
    """A matrix deals its rows to other blocks, which may have more entries."""
    rows = np.zeros((12, 6))
    rows[[0, 5]] = 1.0
    for seed in range(20):
        source = MatrixSource(sparse.csr_array(rows), block_rows=2, shuffle="blocks", seed=seed)
        if dealt(source, 2).shape != source.shape:
            break
    whole = dealt(source, 2)
    assert whole.shape != source.shape
    part = dealt(EntryFilter(source, 0.4, seed=1, held=False), 2)
    assert part.shape.nnz == whole.shape.nnz
    with pytest.raises(DataError, match="must have blocks of the same size for 2 replicas"):
        dealt(NegativeSource(source, draws=1, power=0.0, seed=1), 2)
