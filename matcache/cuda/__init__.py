"""The CUDA backend: memory, streams and launches behind a small driver that tests can stand in for.

`devices.py` opens a device; importing this package needs no GPU and no CuPy.
"""

from .backend import Cuda as Cuda
from .driver import Driver as Driver
from .driver import Limits as Limits
