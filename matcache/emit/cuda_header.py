"""What CUDA modules share: the text they start with, types and constants, lanes for a vector."""

from __future__ import annotations

import math
from pathlib import Path

C_TYPES = {
    "float32": "float",
    "float64": "double",
    "int32": "int",
    "int64": "i64",
    "bfloat16": "bfloat16",
}
"""Types of numbers in C, by `type_name`."""

WIDEST = 1024  # numbers of a vector that one warp holds; a longer one is spread over a block


def device_header() -> str:
    """The text that every module starts with."""
    return (Path(__file__).parent / "device.cuh").read_text()


def number(value: float) -> str:
    """A constant as source text."""
    if math.isfinite(value):
        return f"F({float(value)!r})"
    return "BL_NAN(F)" if math.isnan(value) else f"({'-' if value < 0 else ''}BL_INF(F))"


def pack_for(length: int, kind: str) -> int:
    """Numbers of a vector that are side by side in a lane: 16 bytes of this type if that fits."""
    widest = {"double": 2, "float": 4, "bfloat16": 8}[kind]
    return next(n for n in (8, 4, 2, 1) if n <= widest and length % n == 0)


def lanes_for(length: int, pack: int) -> int:
    """Lanes that hold a vector; those of a warp for single numbers, of a block for long vectors."""
    if length > WIDEST:
        return 256
    packs = -(-length // pack)
    return 32 if packs == 1 else min(32, max(8, 1 << (packs - 1).bit_length()))
