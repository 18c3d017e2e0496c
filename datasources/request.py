"""What a source is asked for: a block that there is, into room that is of its size."""

from .block import HostBlock
from .errors import DataError
from .source import DataSource


def check_request(source: DataSource, pass_: int, index: int, into: HostBlock) -> None:
    """Raises `DataError` unless `source` has block `index` of pass `pass_`, and `into` room for it.

    >>> import numpy as np
    >>> from blocklearn.datasources import MatrixSource
    >>> source = MatrixSource(np.eye(2), block_rows=1)
    >>> check_request(source, 0, 2, HostBlock(source.shape))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    blocklearn.datasources.errors.DataError: MatrixSource: block 2 of pass 0, but blocks are 0...
    """
    name, shape = type(source).__name__, source.shape
    if into.shape != shape:
        raise DataError(f"{name}: a block of {into.shape} cannot hold {shape}.")
    if pass_ < 0 or not 0 <= index < source.blocks:
        raise DataError(
            f"{name}: block {index} of pass {pass_}, but blocks are 0 to {source.blocks - 1} and "
            "passes start at 0."
        )
