"""Compile kernels with Numba, without what they do not need.

Two thirds of a compilation are Python code: Numba's passes, type inference, and the text for LLVM.
Kernels have no closures, no allocations, and are not called from C. So they are compiled without
the passes for closures, literals and array expressions, without reference counts, and without a
wrapper for C. The collector of garbage stays off meanwhile: it would look at millions of objects
that all live on.
"""

# Numba's compiler has no types.
# mypy: allow-untyped-defs, allow-untyped-calls

import gc
from collections.abc import Callable
from typing import Any

from numba import njit
from numba.core.compiler import CompilerBase
from numba.core.compiler_machinery import PassManager
from numba.core.typed_passes import (
    IRLegalization,
    NativeLowering,
    NoPythonBackend,
    NopythonTypeInference,
    PreLowerStripPhis,
)
from numba.core.untyped_passes import (
    FixupArgs,
    GenericRewrites,
    IRProcessing,
    ReconstructSSA,
    TranslateByteCode,
)

PASSES = (
    TranslateByteCode,
    FixupArgs,
    IRProcessing,
    GenericRewrites,
    ReconstructSSA,
    NopythonTypeInference,
    PreLowerStripPhis,
    IRLegalization,
    NativeLowering,
    NoPythonBackend,
)


class KernelCompiler(CompilerBase):
    """Numba's compiler for functions of arrays and numbers, whose loops are explicit."""

    def define_pipelines(self):
        """Return the passes of a compilation."""
        passes = PassManager("kernel")
        for one in PASSES:
            passes.add_pass(one, one.__name__)
        passes.finalize()
        return [passes]

    def compile_extra(self, func):
        """Compile a function, without collecting garbage."""
        collects = gc.isenabled()
        gc.disable()
        try:
            return super().compile_extra(func)
        finally:
            if collects:
                gc.enable()


_njit: Any = njit  # some options are not in its stubs
_OPTIONS: dict[str, Any] = {
    "error_model": "numpy",
    "pipeline_class": KernelCompiler,
    "no_cfunc_wrapper": True,
    "_nrt": False,
}


def helper(*fastmath: str, inline: bool = False) -> Callable[[Any], Any]:
    """Return a decorator of functions that only kernels call; see `kernel`.

    inline: whether LLVM must insert them where they are called.
    """
    decorated: Callable[[Any], Any] = _njit(
        fastmath=set(fastmath), forceinline=inline, no_cpython_wrapper=True, **_OPTIONS
    )
    return decorated


def kernel(*fastmath: str) -> Callable[[Any], Any]:
    """Return a decorator that makes a function a kernel, kept on disk once compiled.

    fastmath: what LLVM may do with sums and products: see its manual, "Fast-Math Flags".

    A kernel neither makes arrays nor assigns slices.
    """
    decorated: Callable[[Any], Any] = _njit(
        nogil=True, cache=True, fastmath=set(fastmath), **_OPTIONS
    )
    return decorated
