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
    """Return an Arrow array of texts, `large_string`; pyarrow takes or refuses other names."""
    import pyarrow as pa

    try:
        whole = "".join(names)
    except TypeError:
        return pa.array(list(names), pa.large_string())
    lengths = map(len, names if whole.isascii() else map(str.encode, names))
    offsets = np.zeros(len(names) + 1, np.int64)
    np.cumsum(np.fromiter(lengths, np.int64, len(names)), out=offsets[1:])
    buffers = pa.py_buffer(offsets), pa.py_buffer(whole.encode())
    return pa.LargeStringArray.from_buffers(len(names), *buffers)


def number_array(values: npt.NDArray[Any]) -> Any:
    """Return an Arrow array of the same type as a NumPy array [n]; without a copy, if it can be."""
    import pyarrow as pa

    if values.dtype.kind not in "iuf":
        return pa.array(values)
    values = np.ascontiguousarray(values)
    kind = pa.from_numpy_dtype(values.dtype)
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])
