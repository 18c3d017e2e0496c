"""Read and write HugeCTR's binary formats, Norm and Raw."""

from .kinds import HugeCTRNorm as HugeCTRNorm
from .kinds import HugeCTRRaw as HugeCTRRaw
from .source import HugeCTRSource as HugeCTRSource
from .writer import write_norm as write_norm
from .writer import write_raw as write_raw
