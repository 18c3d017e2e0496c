"""Shared text of generated Numba modules: header and constants."""

from __future__ import annotations

import math
from collections.abc import Collection

_HEADER = """\
import numpy as np
from blocklearn.matcache.cpu.inline import math{bits} as m
from blocklearn.matcache.cpu.compiling.access import larger, make_reads, place1, plus, put1, put2
from blocklearn.matcache.cpu.compiling.jit import kernel
from blocklearn.matcache.cpu.inline.random import random_bits

F = np.float{bits}
get1, get2 = make_reads({bits})
{made}

@kernel({flags})
"""

# Only sums along a row gain from another order of terms. Other modules do not reassociate, so that
# the arithmetic of a column does not depend on the number of columns.
_SUMS = '"contract", "reassoc", "nsz", "arcp"'
_NO_SUMS = '"contract", "nsz"'


def numba_header(dtype: str, made: str, sizes: Collection[int], *, sums: bool, sparse: bool) -> str:
    """Return the text before the function of a module; `F` is its float type.

    made: statements before the function.
    sizes: numbers that the function calls, see `sized`.
    sums: whether the module sums along rows.
    sparse: whether it reads sparse rows.
    """
    imports, argument = sized(sizes, sparse=sparse)
    flags = (_SUMS if sums else _NO_SUMS) + argument
    return _HEADER.format(bits=dtype.removeprefix("float"), made=imports + made, flags=flags)


def sized(sizes: Collection[int], *, sparse: bool) -> tuple[str, str]:
    """Return text for the numbers that `size0()`, `size1()` and so on return.

    LLVM takes twice as long where it unrolls the loops over stored entries, and these wait for
    memory, not for jumps. Dense loops gain from it.

    Returns statements before the function, and arguments of its decorator.
    """
    if not sizes:
        return "", ""
    names = "".join(f"size{n} = make_size({n})\n" for n, _ in enumerate(sizes))
    imports = "from blocklearn.matcache.cpu.compiling.sized import make_size\n\n"
    return imports + names, f", sizes={tuple(sizes)}" + (", unroll=False" if sparse else "")


def number(value: float) -> str:
    """Return a constant as source text."""
    if math.isfinite(value):
        return f"F({float(value)!r})"
    return "F(np.nan)" if math.isnan(value) else f"F({'-' if value < 0 else ''}np.inf)"
