"""Tables in columns: Parquet, on local disks and remote filesystems."""

from .columns import Dense as Dense
from .columns import Feature as Feature
from .columns import Sparse as Sparse
from .nulls import Nulls as Nulls
from .parquet import ParquetSource as ParquetSource
