"""Parquet files with known contents, for tests."""

import io
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy import sparse

from blocklearn.datasources import HostBlock, ParquetSource


def random_csr(rows: int, columns: int, seed: int = 0, most: int = 12) -> Any:
    """A sparse matrix with empty rows and long ones."""
    rng = np.random.default_rng(seed)
    lengths = np.minimum(rng.integers(0, most + 1, rows), columns)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    chosen = [np.sort(rng.choice(columns, n, replace=False)) for n in lengths]
    indices = np.concatenate([*chosen, np.empty(0, np.int64)]).astype(np.int32)
    values = rng.integers(-8, 9, indices.size).astype(np.float32) / 4
    return sparse.csr_array((values, indices, indptr), shape=(rows, columns))


def lists(indptr: Any, values: Any, kind: Any = pa.ListArray) -> Any:
    """An Arrow array of lists."""
    dtype = pa.int64() if kind is pa.LargeListArray else pa.int32()
    return kind.from_arrays(pa.array(indptr, dtype), pa.array(values))


def csr_columns(matrix: Any, kind: Any = pa.ListArray) -> dict[str, Any]:
    """Columns `i` and `v` with the indices and values of a CSR matrix."""
    return {
        "i": lists(matrix.indptr, matrix.indices, kind),
        "v": lists(matrix.indptr, matrix.data, kind),
    }


def write(
    folder: Path, columns: dict[str, Any], files: int = 1, group: int = 100, **how: Any
) -> Path:
    """The rows, cut into `files` files with row groups of `group` rows; the folder."""
    table = pa.table(columns)
    folder.mkdir(parents=True, exist_ok=True)
    limits = np.linspace(0, table.num_rows, files + 1).astype(int)
    for number, (start, stop) in enumerate(itertools.pairwise(limits)):
        part = table.slice(start, stop - start)
        pq.write_table(part, folder / f"part-{number:02}.parquet", row_group_size=group, **how)
    return folder


def as_bytes(columns: dict[str, Any], group: int = 100, **how: Any) -> bytes:
    """A file of these rows."""
    made = io.BytesIO()
    pq.write_table(pa.table(columns), made, row_group_size=group, **how)
    return made.getvalue()


def read_block(source: ParquetSource, index: int, pass_: int = 0) -> HostBlock:
    """One block, in memory of its own."""
    block = HostBlock(source.shape)
    source.read(pass_, index, block)
    return block


def dense_rows(block: HostBlock) -> Any:
    """The true rows of a block as a table."""
    if block.shape.dense:
        return block.dense[: block.rows].copy()
    shape = (block.shape.rows, block.shape.columns)
    matrix = sparse.csr_array(
        (block.values[: block.nnz], block.indices[: block.nnz], block.indptr), shape=shape
    )
    return matrix.toarray()[: block.rows]


def whole_pass(source: ParquetSource, pass_: int = 0) -> tuple[Any, Any, Any, Any]:
    """Row numbers, rows, targets and weights of a pass, read into one block again and again."""
    block, found = HostBlock(source.shape), []
    for index in range(source.blocks):
        source.read(pass_, index, block)
        block.transpose()
        n = block.rows
        found.append(
            (block.row_ids[:n].copy(), dense_rows(block), block.targets[:n].copy(),
             block.weights[:n].copy())
        )  # fmt: skip
    ids, rows, targets, weights = map(np.concatenate, zip(*found, strict=True))
    return ids, rows, targets, weights
