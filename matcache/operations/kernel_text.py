"""Show the kernel that a function or an expression became."""

from __future__ import annotations

from typing import Any, Literal

from ..containers.lazy import Lazy
from ..emit import cuda_elements, cuda_rows, numba_rows
from ..errors import ShapeError
from .dense import compiled
from .rowwise import Rowwise


def kernel_text(function: Any, *args: Any, device: Literal["cpu", "cuda"] = "cpu") -> str:
    """Return the source of a kernel: Numba for the CPU, CUDA C++ for a GPU.

    function: a `@rowwise` function, or a dense expression such as `exp(A) + B`.
    args: arguments of the function; only their shapes and dtypes matter.

    Nothing is computed or compiled. All numbers are of the dtype of the work.
    """
    if device not in ("cpu", "cuda"):
        raise ValueError(f"kernel_text: device={device!r}: must be 'cpu' or 'cuda'.")
    if isinstance(function, Rowwise):
        plan = function.compile(*args).plan
        if device == "cpu":
            return numba_rows.rowwise_source(plan)
        return cuda_rows.rowwise_source(plan)
    if not isinstance(function, Lazy) or function.pattern is not None or args:
        raise ShapeError(
            f"kernel_text: function={function!r}: must be a @rowwise function and its arguments, "
            "or a dense expression alone."
        )
    dtype = "float64" if function.dtype != "float32" else "float32"
    plan = compiled(function.cache, (function,), function.shape, ("assign",), dtype)[0].plan
    if device == "cpu":
        return numba_rows.rowwise_source(plan)
    return cuda_elements.elements_source(plan)
