"""Arrow arrays of texts and numbers, made of their buffers.

`pyarrow.array` imports pandas where that is installed, to see whether it got something of pandas,
and so does `to_numpy`. That takes half a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt


def text_array(names: Sequence[str]) -> Any:
    """Return an Arrow array of texts, `large_string`. Raises `pa.ArrowTypeError` for others."""
    import pyarrow as pa

    if not all(isinstance(name, str) for name in names):
        return pa.array(list(names), pa.large_string())
    parts = [name.encode() for name in names]
    offsets = np.zeros(len(parts) + 1, np.int64)
    np.cumsum([len(part) for part in parts], out=offsets[1:])
    whole = pa.py_buffer(b"".join(parts))
    return pa.LargeStringArray.from_buffers(len(parts), pa.py_buffer(offsets), whole)


def number_array(values: npt.NDArray[Any]) -> Any:
    """Return an Arrow array of the same type as a NumPy array [n]; without a copy, if it can be."""
    import pyarrow as pa

    if values.dtype.kind not in "iuf":
        return pa.array(values)
    values = np.ascontiguousarray(values)
    kind = pa.from_numpy_dtype(values.dtype)
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])
