"""Compile kernels with Numba, without what they do not need.

Most of a compilation is Python code: Numba's passes, type inference, and the text for LLVM. Kernels
have no closures, no allocations, and are not called from C. So they are compiled without the passes
for closures, literals and array expressions, without reference counts, and without a wrapper for C.
The wrapper for Python is ours (`entry.py`), and signatures of calls are remembered. The collector
of garbage stays off meanwhile: it would look at millions of objects that all live on.
"""

# Numba's compiler has no types.
# mypy: allow-untyped-defs, allow-untyped-calls

import gc
import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
from numba import njit, types
from numba.core import ir
from numba.core.compiler import CompilerBase
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.lowering import Lower
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

from .entry import entry_text, has_entry

FOLDER = Path(__file__).parent
RAISE = ir.Raise | ir.StaticRaise | ir.DynamicRaise


class KernelLower(Lower):
    """Numba's translation to LLVM, with our function for calls from Python."""

    def create_cpython_wrapper(self, release_gil=False):
        """Add the function by which Python calls the kernel.

        A kernel that raises errors keeps Numba's, which knows their messages.
        """
        found = self.fndesc
        raises = any(any(block.find_insts(RAISE)) for block in self.func_ir.blocks.values())
        if raises or not release_gil or not has_entry(found.argtypes, found.restype):
            super().create_cpython_wrapper(release_gil)
            return
        shape = self.call_conv.get_function_type(found.restype, found.argtypes)
        names = found.llvm_func_name, found.llvm_cpython_wrapper_name
        text = entry_text(*names, found.argtypes, [str(one) for one in shape.args])
        self.library.add_llvm_module(llvm.parse_assembly(text))


@register_pass(mutates_CFG=True, analysis_only=False)
class KernelLowering(NativeLowering):
    """The pass that runs `KernelLower`."""

    _name = "kernel_lowering"

    @property
    def lowering_class(self):
        """The translation."""
        return KernelLower


class KnownCalls:
    """Numba's context of types, which remembers the signatures of calls.

    Numba looks up each operation of a program among some dozen definitions. Few are different.
    """

    def __init__(self, context, known):
        self._context, self._known = context, known

    def __getattr__(self, name):
        return getattr(self._context, name)

    def resolve_function_type(self, func, args, kws):
        """Return the signature of a call."""
        if kws or not isinstance(func, types.Function):
            return self._context.resolve_function_type(func, args, kws)
        key = func, tuple(args)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._context.resolve_function_type(func, args, kws)
        return found


@cache
def _known(flags: str) -> dict[Any, Any]:
    """Return the signatures that calls had under some flags, which `KnownCalls` fills."""
    return {}


PASSES = (
    TranslateByteCode,
    FixupArgs,
    IRProcessing,
    GenericRewrites,
    ReconstructSSA,
    NopythonTypeInference,
    PreLowerStripPhis,
    IRLegalization,
    KernelLowering,
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
        known = _known(repr(self.state.flags))
        self.state.typingctx = KnownCalls(self.state.typingctx, known)
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

    A kernel neither makes arrays nor assigns slices. It is compiled anew when its file changes. One
    of this folder calls helpers of other files: it is also compiled anew when any of them changes.
    """
    compile_later: Callable[[Any], Any] = _njit(
        nogil=True, cache=True, fastmath=set(fastmath), **_OPTIONS
    )

    def decorate(function: Any) -> Any:
        found = compile_later(function)
        if Path(function.__code__.co_filename).parent == FOLDER:
            on_disk = found._cache._cache_file
            on_disk._source_stamp = on_disk._source_stamp, sources()
        return found

    return decorate


@cache
def sources() -> str:
    """Return a digest of all files of this folder."""
    whole = b"".join(path.read_bytes() for path in sorted(FOLDER.glob("*.py")))
    return hashlib.blake2b(whole, digest_size=8).hexdigest()
