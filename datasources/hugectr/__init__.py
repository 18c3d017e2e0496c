"""Read HugeCTR's binary formats, Norm and Raw."""

from blocklearn.exports import exported as _exported

from .kinds import HugeCTRNorm as HugeCTRNorm
from .kinds import HugeCTRRaw as HugeCTRRaw
from .source import HugeCTRSource as HugeCTRSource

__all__ = _exported(globals())
