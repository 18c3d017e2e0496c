"""Read HugeCTR's binary formats, Norm and Raw."""

from typing import TYPE_CHECKING

from blocklearn.exports import on_demand

if TYPE_CHECKING:
    from .kinds import HugeCTRNorm as HugeCTRNorm
    from .kinds import HugeCTRRaw as HugeCTRRaw
    from .source import HugeCTRSource as HugeCTRSource
else:
    __getattr__, __dir__, __all__ = on_demand(__name__)
