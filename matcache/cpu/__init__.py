"""The CPU backend: threads, launches, and hand-written kernels.

Named here are kernels that other folders call for some of their data only.
"""

import os
from typing import TYPE_CHECKING

from blocklearn.exports import on_demand

if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
    raise ImportError("NUMBA_DISABLE_JIT: must be 0 or unset: kernels are nothing but compiled.")

if TYPE_CHECKING:
    from .fitting import add_columns as add_columns
    from .fitting import add_turned_rows as add_turned_rows
    from .fitting import column_moments as column_moments
    from .fitting import descend as descend
    from .fitting import multiply_columns as multiply_columns
    from .fitting import multiply_rows as multiply_rows
    from .fitting import number_nearest as number_nearest
    from .fitting import sum_columns as sum_columns
    from .inline.random import uniform_rows as uniform_rows
else:
    __getattr__, __dir__, __all__ = on_demand(__name__)
