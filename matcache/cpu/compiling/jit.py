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
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from numba import njit, types
from numba.core.compiler import CompilerBase, Flags
from numba.core.compiler_machinery import PassManager
from numba.core.typed_passes import NoPythonBackend

from .code_files import kept
from .passes import KernelLowering, PlaceLowering, TypedProgram
from .sized import Sizes, compile_sized
from .sources import FOLDER, sources


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


class KnownFlags(Flags):
    """Numba's flags of a compilation, which compare what they were when they were first compared.

    Numba looks up each call by them, and they have thirty values.
    """

    __slots__ = ["_known"]

    @property
    def _seen(self):
        if not hasattr(self, "_known"):
            whole = self.values()
            self._known = hash(tuple(sorted(whole))), whole
        return self._known

    def __hash__(self):
        return self._seen[0]

    def __eq__(self, other):
        if isinstance(other, KnownFlags):
            return self is other or self._seen == other._seen
        return super().__eq__(other)


@cache
def _known(flags: str) -> dict[Any, Any]:
    """Return the signatures that calls had under some flags, which `KnownCalls` fills."""
    return {}


class KernelCompiler(CompilerBase):
    """Numba's compiler for functions of arrays, numbers and records of them; loops are explicit."""

    lowering = KernelLowering

    def define_pipelines(self):
        """Return the passes of a compilation."""
        passes = PassManager("kernel")
        for one in TypedProgram, self.lowering, NoPythonBackend:
            passes.add_pass(one, one.__name__)
        passes.finalize()
        return [passes]

    def compile_extra(self, func):
        """Compile a function, without collecting garbage."""
        known = _known(repr(self.state.flags))
        self.state.flags = KnownFlags(self.state.flags)
        self.state.typingctx = KnownCalls(self.state.typingctx, known)
        collects = gc.isenabled()
        gc.disable()
        try:
            if hasattr(func, "sizes"):
                return compile_sized(self.state, func, super().compile_extra)
            return super().compile_extra(func)
        finally:
            if collects:
                gc.enable()


class PlaceCompiler(KernelCompiler):
    """The compiler of functions whose indexes are places, see `PlaceLower`."""

    lowering = PlaceLowering


_njit: Any = njit  # some options are not in its stubs
_OPTIONS: dict[str, Any] = {
    "error_model": "numpy",
    "no_cfunc_wrapper": True,
    "_nrt": False,
}


def _compiler(places: bool) -> type[KernelCompiler]:
    return PlaceCompiler if places else KernelCompiler


def helper(*fastmath: str, inline: bool = False, places: bool = False) -> Callable[[Any], Any]:
    """Return a decorator of functions that only kernels call; see `kernel`.

    inline: whether LLVM must insert them where they are called.
    """
    decorated: Callable[[Any], Any] = _njit(
        fastmath=set(fastmath),
        forceinline=inline,
        no_cpython_wrapper=True,
        pipeline_class=_compiler(places),
        **_OPTIONS,
    )
    return decorated


def kernel(
    *fastmath: str,
    keeps_lock: bool = False,
    sizes: tuple[int, ...] = (),
    unroll: bool = True,
    places: bool = False,
) -> Callable[[Any], Any]:
    """Return a decorator that makes a function a kernel, kept on disk once compiled.

    fastmath: what LLVM may do with sums and products: see its manual, "Fast-Math Flags".
    keeps_lock: whether it runs under the interpreter's lock.
    sizes: numbers that its text calls by `make_size`. Texts that differ in them alone share what
        Numba does.
    unroll: with sizes, whether LLVM may repeat the body of a loop in place of jumping back.
    places: whether each index is a place; one that counts from the end is a constant, and alone.

    A kernel neither makes arrays nor assigns slices. It is compiled anew when its file changes. One
    of this package calls helpers of other files: it is also compiled anew when any file of its own
    folder or of the CPU backend changes.
    """
    compile_later: Callable[[Any], Any] = _njit(
        nogil=not keeps_lock,
        fastmath=set(fastmath),
        pipeline_class=_compiler(places),
        **_OPTIONS,
    )

    def decorate(function: Any) -> Any:
        folder = Path(function.__code__.co_filename).parent
        ours = FOLDER.parents[1] in folder.parents
        made = kept(compile_later(function), sources(folder) if ours else "")
        if sizes:
            function.sizes = Sizes(sizes, unroll, made._cache, sources(FOLDER))
        return made

    return decorate
