"""Read rows of any source of blocks: a block dataset, Parquet files."""

from collections.abc import Iterator, Sequence

from ..parsing.layout import FIRST, Layout, Place, Rows, Sparse
from ..source import DataSource, each_block, row_names, target_names


class SourceRows:
    """Reads the rows of an unshuffled source, in the order of its pass 0.

    A place is the number of a block.
    """

    def __init__(self, source: DataSource, notes: Sequence[str] = ()) -> None:
        """Wrap `source`, which no other code may read from now on.

        notes: added to its own.
        """
        shape, self.source = source.shape, source
        self._ids = row_names(source)
        self.layout = Layout(
            shape.columns,
            dense=shape.dense,
            names=source.names,
            targets=shape.targets,
            target_names=target_names(source),
            weighted=shape.weighted,
            named=self._ids is not None,
            notes=[*getattr(source, "notes", ()), *notes],
        )

    def chunks(self, start: Place = FIRST) -> Iterator[Rows]:
        """Yield all rows from `start` on; arrays are valid until the next chunk."""
        layout = self.layout
        for block in each_block(self.source, start.offset):
            rows = block.rows
            X = Sparse(
                block.indptr[: rows + 1], block.indices[: block.nnz], block.values[: block.nnz]
            )
            ids = None
            if self._ids is not None:
                ids = [self._ids[row] for row in block.row_ids[:rows].tolist()]
            yield Rows(
                block.dense[:rows] if layout.dense else X,
                Place(0, block.index + 1, 0),
                block.targets[:rows] if layout.targets else None,
                block.weights[:rows] if layout.weighted else None,
                ids,
            )
