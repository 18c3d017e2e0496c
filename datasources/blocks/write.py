"""Writes any source of blocks as a block dataset."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..source import DataSource, each_block, row_names, target_names
from .arrow_file import Codec
from .writer import BlockWriter


def write_blocks(
    source: DataSource,
    paths: Sequence[str | Path],
    *,
    block_rows: int | None = None,
    codec: Codec = "lz4",
    both_orientations: bool = False,
    overwrite: bool = False,
) -> None:
    """Write all rows of `source`, in the order of its pass 0, to the folders `paths`.

    block_rows: rows of a block; None: as many as the source has. See `BlockWriter` for the rest.
    Names of columns, rows and targets are written too. If anything fails, nothing is left behind.
    Raises `DataError`.
    """
    shape, ids = source.shape, row_names(source)
    with BlockWriter(
        paths,
        block_rows=block_rows or shape.rows,
        codec=codec,
        columns=shape.columns,
        both_orientations=both_orientations,
        origin=f"fingerprint {source.fingerprint}",
        overwrite=overwrite,
    ) as writer:
        for block in each_block(source):
            rows = block.rows
            given: dict[str, Any] = (
                {"dense": block.dense[:rows]}
                if shape.dense
                else {
                    "indptr": block.indptr[: rows + 1],
                    "indices": block.indices,
                    "values": block.values,
                }
            )
            if ids is not None:
                given["ids"] = [ids[row] for row in block.row_ids[:rows].tolist()]
            writer.append(
                targets=block.targets[:rows] if shape.targets else None,
                weights=block.weights[:rows] if shape.weighted else None,
                **given,
            )
        writer.finish(names=source.names, target_names=target_names(source))
