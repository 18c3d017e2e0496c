"""What an array in the .npy format says of itself before its numbers."""

import tokenize
import warnings
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.lib import format as npy

BAD_HEADER = (SyntaxError, tokenize.TokenError, TypeError, RecursionError, MemoryError)


class Header(NamedTuple):
    """Shape and dtype, and whether the first index runs fastest."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool


def read_header(stream: BinaryIO, kinds: str = "biuf") -> Header:
    """The header; the stream is then at the first number. Raises `ValueError` if there is none, or
    its dtype is of no kind (a letter of `dtype.kind`) in `kinds`.
    """
    version = npy.read_magic(stream)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that Python 2 wrote it
        try:
            shape, fortran, dtype = read(stream)
        except BAD_HEADER as error:
            raise ValueError(f"its header is damaged: {error}") from error
    if dtype.kind not in kinds or any(size < 0 for size in shape):
        raise ValueError(
            f"an array of dtype {dtype} and shape {shape}, but not what is needed here"
        )
    return Header(shape, dtype, fortran)
