"""Read HugeCTR's binary formats, Norm and Raw."""

from .kinds import HugeCTRNorm as HugeCTRNorm
from .kinds import HugeCTRRaw as HugeCTRRaw
from .source import HugeCTRSource as HugeCTRSource
