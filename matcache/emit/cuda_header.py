"""Shared text of CUDA modules: header, types and constants, lanes for a vector."""

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
"""C types of numbers, by `type_name`."""

TEAM = 8  # blocks of threads that share a row: what every sm_90 has as a cluster
TEAMS = f"""#ifndef BL_TEAM
#define BL_TEAM (__CUDA_ARCH__ >= 900 ? {TEAM} : 1)
#endif
"""
"""Text before the header, of a module for rows that a team shares; before sm_90 it is one block."""

WIDEST = 1024  # longest vector that one warp holds; a longer one is spread over a block


def device_header() -> str:
    """Return the text that every module starts with."""
    return (Path(__file__).parent / "device.cuh").read_text()


def number(value: float) -> str:
    """Return a constant as source text."""
    if math.isfinite(value):
        return f"F({float(value)!r})"
    return "BL_NAN(F)" if math.isnan(value) else f"({'-' if value < 0 else ''}BL_INF(F))"


def pack_for(length: int, kind: str) -> int:
    """Return how many consecutive numbers of a vector a lane holds: up to 16 bytes."""
    widest = {"double": 2, "float": 4, "bfloat16": 8}[kind]
    return next(n for n in (8, 4, 2, 1) if n <= widest and length % n == 0)


def lanes_for(length: int, pack: int) -> int:
    """Return the lanes that hold a vector: 8 to 32, or 256 for long vectors.

    For a single pack it is a whole warp of 32.
    """
    if length > WIDEST:
        return 256
    packs = -(-length // pack)
    return 32 if packs == 1 else min(32, max(8, 1 << (packs - 1).bit_length()))
