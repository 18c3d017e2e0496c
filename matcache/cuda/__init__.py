"""The CUDA backend: memory, streams and launches behind a small driver interface.

`devices.py` opens a device. Importing this package needs neither a GPU nor CuPy.
"""

from blocklearn.exports import exported as _exported

from .backend import Cuda as Cuda
from .driver import Driver as Driver
from .driver import Limits as Limits

__all__ = _exported(globals())
