"""Read tables from Parquet files, on local disks and remote filesystems.

`footer.py` reads sizes, `cursor.py` decodes rows with pyarrow, `source.py` makes blocks of them.
"""

from typing import TYPE_CHECKING

from blocklearn.exports import on_demand

if TYPE_CHECKING:
    from .columns import Dense as Dense
    from .columns import Feature as Feature
    from .columns import Sparse as Sparse
    from .rows import Nulls as Nulls
    from .source import ParquetSource as ParquetSource
    from .where import Where as Where
else:
    __getattr__, __dir__, __all__ = on_demand(__name__)
