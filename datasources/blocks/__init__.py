"""Block datasets: Arrow IPC files striped over disks, written once."""

from blocklearn.exports import exported as _exported

from .kind import BlocksData as BlocksData
from .source import BlockSource as BlockSource
from .write import write_blocks as write_blocks
from .writer import BlockWriter as BlockWriter

__all__ = _exported(globals())
