"""Read tables from Parquet files, on local disks and remote filesystems."""

from blocklearn.exports import exported as _exported

from .columns import Dense as Dense
from .columns import Feature as Feature
from .columns import Sparse as Sparse
from .rows import Nulls as Nulls
from .source import ParquetSource as ParquetSource
from .where import Where as Where

__all__ = _exported(globals())
