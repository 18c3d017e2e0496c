"""The source of blocks of batches from any Python iterator."""

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from blocklearn.answers import answered

from ..arrays.accept import CSR
from ..arrays.block_shape import BlockShape
from ..arrays.copy_rows import count_up, gather_csr, gather_dense
from ..block import HostBlock
from ..errors import DataError
from ..source import Described, check_request
from .batches import Stream, count_batches

Batches = Callable[[int], Iterable[Any]]


class IterableSource(Described):
    """The batches that a function yields, as blocks.

    - batches: a function that takes the number of the pass (0, 1, ...) and returns an iterable of
      batches. A batch is X, (X, Y) or (X, Y, weights) as for `MatrixSource`; Y may be None, and X
      may be an Arrow record batch or table whose columns are numbers.
    - shape: the sizes, if known; `shape.nnz` must be enough for any block of any pass. None: pass 0
      is read once to count them.
    - block_rows: rows of a block, if `shape` is None.
    - names, target_names: names of the columns and of the targets.
    - fingerprint: tells these data from others, for checkpoints. By default it is the XXH3 of
      pass 0 if that was counted, else "".

    Batches may have any number of rows. All have the same columns and are all dense or all sparse.
    Every pass has the same number of rows. The function runs in the reader's thread.

    Rows come in the order of the iterator, and `row_ids` count them, so any shuffling is up to the
    function. A run resumes by skipping the rows that it has seen. Raises `DataError` with batch and
    row.

    >>> def batches(pass_):
    ...     for start in range(0, 10, 4):
    ...         yield np.arange(start, min(start + 4, 10)).reshape(-1, 1) * 1.0
    >>> source = IterableSource(batches, block_rows=3)
    >>> block = HostBlock(source.shape)
    >>> source.read(0, 1, block)
    >>> source.shape.total_rows, block.row_ids.tolist(), block.dense[:, 0].tolist()
    (10, [3, 4, 5], [3.0, 4.0, 5.0])
    """

    @answered
    def __init__(
        self,
        batches: Batches,
        shape: BlockShape | None = None,
        *,
        block_rows: int = 1024,
        names: Sequence[str] | None = None,
        target_names: Sequence[str] | None = None,
        fingerprint: str = "",
    ) -> None:
        """Count the rows and non-zeros of pass 0 if `shape` is None."""
        if not callable(batches):
            raise DataError(
                f"IterableSource: batches is a {type(batches).__name__}; must be a function of the "
                "pass that returns an iterable, since each pass reads all rows: lambda pass_: ..."
            )
        self._batches, self._stream = batches, Stream((), -1)
        self.rows_last = False  # a pass may have other rows than the one before
        self.names, self.target_names = names, target_names
        if shape is None:
            shape, digest = count_batches(batches(0), block_rows)
            fingerprint = fingerprint or digest
        self.shape, self.fingerprint = shape, fingerprint
        self.blocks = -(-shape.total_rows // shape.rows)
        for what, given, count in [
            ("names", names, shape.columns),
            ("target_names", target_names, shape.targets),
        ]:
            if given is not None and len(given) != count:
                raise DataError(
                    f"IterableSource: {what} has {len(given)} names, but must have {count}."
                )
        self._ids = np.empty(shape.rows, np.int64)
        self._reading = threading.Lock()  # for readers in several threads

    def read(self, pass_: int, index: int, into: HostBlock) -> None:
        """Fill `into` with block `index` of pass `pass_`; skip the rows before it."""
        check_request(self, pass_, index, into.shape)
        with self._reading:
            self._fill(pass_, index, into)

    def _fill(self, pass_: int, index: int, into: HostBlock) -> None:
        shape, stream = self.shape, self._stream
        self._stream = Stream((), -1)  # after an error, begin anew
        if stream.pass_ != pass_ or index * shape.rows < stream.row:
            stream = Stream(self._batches(pass_), pass_)
        rows = min(shape.rows, shape.total_rows - index * shape.rows)
        stream.skip(index * shape.rows - stream.row, shape)
        filled = nnz = 0
        for batch, start, stop in stream.take(rows, shape):
            ids = self._ids[: stop - start]
            count_up(start, ids)
            batch.labels.write(ids, into, filled)
            if isinstance(batch.X, CSR):
                indptr = into.indptr[filled : filled + ids.size + 1]
                misfit = gather_csr(
                    ids, batch.X.indptr, batch.X.indices, batch.X.values,
                    indptr, into.indices[nnz:], into.values[nnz:],
                )  # fmt: skip
                if misfit >= 0:
                    raise DataError(
                        f"IterableSource: block {index} of pass {pass_} has more than {shape.nnz} "
                        "non-zeros; pass shape=BlockShape(...) with an nnz that is enough for all."
                    )
                indptr += nnz
                nnz = int(indptr[-1])
            else:
                gather_dense(ids, batch.X, into.dense[filled:])
            filled += ids.size
        count_up(index * shape.rows, into.row_ids[:rows])
        into.finish(pass_=pass_, index=index, rows=rows)
        if index + 1 == self.blocks:
            stream.check_end(shape)
        else:
            self._stream = stream

    def __repr__(self) -> str:
        """Show the sizes."""
        return f"IterableSource({self.shape})"
