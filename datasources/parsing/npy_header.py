"""Read the headers of NumPy's .npy files."""

import tokenize
import warnings
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.lib import format as npy

BAD_HEADER = (SyntaxError, tokenize.TokenError, TypeError, RecursionError, MemoryError)


class Header(NamedTuple):
    """The shape and dtype of an array, and whether the first index varies fastest."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool


def read_header(stream: IO[bytes], kinds: str = "biuf") -> Header:
    """Read the header, up to the first number.

    kinds: allowed letters of `dtype.kind`. Raises `ValueError` for a missing header or another
    kind.
    """
    version = npy.read_magic(stream)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy warns about headers written by Python 2
        try:
            shape, fortran, dtype = read(stream)
        except BAD_HEADER as error:
            raise ValueError(f"its header is damaged: {error}") from error
    if any(size < 0 for size in shape):
        raise ValueError(f"its header is damaged: shape {shape}")
    if dtype.kind not in kinds:
        wanted = "text" if set(kinds) <= set("SU") else "numbers"
        raise ValueError(f"an array of {dtype}: must be {wanted}")
    return Header(shape, dtype, fortran)
