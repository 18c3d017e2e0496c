"""Block datasets: Arrow IPC files striped over disks, written once."""

from typing import TYPE_CHECKING

from blocklearn.exports import on_demand

if TYPE_CHECKING:
    from .kind import BlocksData as BlocksData
    from .source import BlockSource as BlockSource
    from .write import write_blocks as write_blocks
    from .writer import BlockWriter as BlockWriter
else:
    __getattr__, __dir__, __all__ = on_demand(__name__)
