"""Run generated CUDA text on the host: g++, one lane, one thread per block.

Kernels are written as stride loops over lanes, threads and warps, so that the same text with one
lane computes the same thing. Tests the arithmetic; not the parallel part.
"""

from __future__ import annotations

import ctypes
import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

SHIM = """
#include <cmath>
using std::exp; using std::log; using std::log1p; using std::sqrt; using std::fabs; using std::pow;
using std::lgamma;
#define __global__
#define __device__
#define __shared__ static thread_local
#define __forceinline__ inline
#define __syncthreads()
#define __syncwarp()
struct Dim { unsigned x; };
static thread_local Dim threadIdx{0}, blockIdx{0}, blockDim{1}, gridDim{1};
#define BL_LANES 1
#define BL_PLUS(a, b) ((a) + (b))
#define BL_MINUS(a, b) ((a) - (b))
template <class F> inline F BL_SUM_ACROSS(F x) { return x; }
template <class F> inline F BL_MAX_ACROSS(F x) { return x; }
template <class F> inline F BL_MIN_ACROSS(F x) { return x; }
template <class F> inline F BL_FROM_LANE(F x, int) { return x; }
extern "C" void set_block(unsigned block, unsigned blocks) {
  blockIdx.x = block;
  gridDim.x = blocks;
}
"""


def available() -> bool:
    """Whether there is a C++ compiler."""
    return shutil.which("g++") is not None


class HostModule:
    """A compiled module; `call(name, *args, blocks=n)` runs a kernel block after block."""

    def __init__(self, source: str) -> None:
        folder = Path(tempfile.gettempdir()) / "blocklearn-cuda-host"
        folder.mkdir(exist_ok=True)
        name = hashlib.sha256((SHIM + source).encode()).hexdigest()[:24]
        library = folder / f"{name}.so"
        if not library.exists():
            text = folder / f"{name}.cpp"
            text.write_text(SHIM + source)
            part = folder / f"{name}.{id(self)}.tmp"
            command = [
                "g++",
                "-std=c++17",
                "-O1",
                "-w",
                "-shared",
                "-fPIC",
                str(text),
                "-o",
                str(part),
            ]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise AssertionError(f"{done.stderr[:3000]}\n{source[-3000:]}")
            part.replace(library)
        self.library = ctypes.CDLL(str(library))

    def call(self, name: str, *args: Any, blocks: int = 1) -> None:
        """args: arrays (as pointers), Python ints (as int64), NumPy scalars (as they are)."""
        converted = [_convert(a) for a in args]
        function = self.library[name]
        function.restype = None
        for block in range(blocks):
            self.library.set_block(block, blocks)
            function(*converted)


def _convert(arg: Any) -> Any:
    if isinstance(arg, np.ndarray):
        assert arg.flags.c_contiguous
        return ctypes.c_void_p(arg.ctypes.data)
    kinds = {"float32": ctypes.c_float, "float64": ctypes.c_double, "int32": ctypes.c_int}
    if isinstance(arg, np.generic):
        return kinds.get(arg.dtype.name, ctypes.c_longlong)(arg.item())
    return ctypes.c_longlong(arg)
