"""The CUDA backend: memory, streams and launches behind a small driver interface.

`devices.py` opens a device, `incoming.py` copies blocks to it. Importing this package needs neither
a GPU nor CuPy.
"""

from typing import TYPE_CHECKING

from blocklearn.exports import on_demand

if TYPE_CHECKING:
    from .backend import Cuda as Cuda
    from .driver import Driver as Driver
    from .driver import Limits as Limits
else:
    __getattr__, __dir__, __all__ = on_demand(__name__)
