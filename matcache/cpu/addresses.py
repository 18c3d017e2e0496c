"""Call compiled kernels by their addresses, with arguments as 64-bit words.

Numba passes an array as seven or more words: owner, sizes, address of the numbers, shape, strides.
A number is one word, and a record is the words of its parts. A trampoline, a few instructions that
LLVM compiles, loads the words of a call and passes them as the kernel expects.
"""

# Numba's and LLVM's objects have no types.
# mypy: allow-untyped-calls

from __future__ import annotations

import struct
from ctypes import addressof, c_char
from functools import cache as remembered
from typing import Any, NamedTuple

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import types

from .compiling.compiled import Kernel, type_of

Array = np.ndarray[Any, Any]

WHOLE = bool, np.bool_, int, np.integer


class Call(NamedTuple):
    """A call of a kernel.

    bounds: of its chunks, after their number; `kernel(chunk, thread, bounds[1:], *args)` is called
        for each of them. None: `kernel(*args)` is called once.
    alone: whether one thread runs all chunks, which are too little work for threads.
    blas: whether the kernel calls BLAS, which must then have no threads of its own.
    """

    kernel: Kernel
    bounds: Array | None
    args: tuple[Any, ...]
    alone: bool = False
    blas: bool = False

    @property
    def given(self) -> tuple[Any, ...]:
        """All arguments after chunk and thread."""
        return self.args if self.bounds is None else (self.bounds[1:], *self.args)

    @property
    def parts(self) -> list[Any]:
        """The same as arrays and numbers: a record is a tuple of them."""
        found: list[Any] = []
        for arg in self.given:
            if isinstance(arg, tuple):
                found += arg
            else:
                found.append(arg)
        return found


class Compiled(NamedTuple):
    """Machine code of a kernel for arguments of some types.

    address: of the code.
    trampoline: of a function `status(words, chunk, thread)` that calls it.
    """

    address: int
    trampoline: int


_compiled: dict[Any, Compiled] = {}  # by kernel, and by kinds of arguments


def address_of(kernel: Any, signature: tuple[Any, ...]) -> int:
    """Return the address of a kernel's code, which is compiled for arguments of these types."""
    overload = kernel.overloads[signature]
    address: int = overload.library.get_pointer_to_function(overload.fndesc.llvm_func_name)
    return address


def compiled_for(call: Call) -> Compiled | None:
    """Return the kernel's code for these arguments.

    None: it is not compiled for them, or they cannot be words.
    """
    kinds = tuple([_kind(part) for part in call.parts])
    if None in kinds:
        return None
    key = call.kernel, call.bounds is None, kinds
    found = _compiled.get(key)
    if found is None:
        chunked = () if call.bounds is None else (types.int64, types.int64)
        signature = (*chunked, *map(type_of, call.given))
        overload = getattr(call.kernel, "overloads", {}).get(signature)
        if overload is None:
            return None
        described = overload.fndesc
        convention = overload.target_context.call_conv
        shape = convention.get_function_type(described.restype, described.argtypes)
        passed = map(str, shape.args[2:])
        words = tuple("i64" if kind.endswith("*") else kind for kind in passed)
        found = _compiled[key] = Compiled(
            address_of(call.kernel, signature),
            _trampoline(words, call.bounds is not None),
        )
    return found


def _kind(arg: Any) -> Any:
    """Return what a kernel is compiled for: type, and layout of arrays; None: it is no word."""
    if isinstance(arg, np.ndarray):
        flags = arg.flags
        return arg.dtype, arg.ndim, flags.c_contiguous, flags.writeable, flags.aligned
    return type(arg) if isinstance(arg, (*WHOLE, float)) else None


def address(array: Array) -> int:
    """Return where the numbers of an array lie."""
    data: Any = array
    try:  # takes a quarter of the time
        return addressof(c_char.from_buffer(data))
    except (TypeError, ValueError, BufferError):  # constant, empty, or with gaps
        found: int = array.ctypes.data
        return found


def words_of(arg: Any) -> list[int]:
    """Return an argument as words: of an array no owner, sizes, address, shape, strides."""
    if isinstance(arg, np.ndarray):
        return [0, 0, arg.size, arg.itemsize, address(arg), *arg.shape, *arg.strides]
    if isinstance(arg, WHOLE):
        return [int(arg)]
    return list(struct.unpack("q", struct.pack("d", arg)))


_engines: list[Any] = []  # keep the trampolines


@remembered
def _trampoline(passed: tuple[str, ...], chunked: bool) -> int:
    """Compile `status(words, chunk, thread)`, which calls a kernel; return its address.

    The first word is the kernel's address, the others are its arguments.

    passed: how Numba passes them, as names of LLVM's types; a pointer is a word.
    chunked: whether chunk and thread come first.
    """
    word, status = ir.IntType(64), ir.IntType(32)
    module = ir.Module("trampoline")
    shape = ir.FunctionType(status, [word] * 3)
    function = ir.Function(module, shape, "trampoline")
    builder = ir.IRBuilder(function.append_basic_block())
    words = builder.inttoptr(function.args[0], word.as_pointer())
    given = list(function.args[1:]) if chunked else []
    for number, name in enumerate(passed[len(given) :], 1):
        value = builder.load(builder.gep(words, [word(number)]))
        if name == "double":
            value = builder.bitcast(value, ir.DoubleType())
        elif name.startswith("i") and name != "i64":
            value = builder.trunc(value, ir.IntType(int(name[1:])))
        given.append(value)
    results = [builder.alloca(word), builder.alloca(word)]  # of the kernel: none; its error
    kind = ir.FunctionType(status, [arg.type for arg in (*results, *given)])
    kernel = builder.inttoptr(builder.load(words), kind.as_pointer())
    builder.ret(builder.call(kernel, [*results, *given]))
    target = llvm.Target.from_default_triple().create_target_machine(opt=1)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(str(module)), target)
    engine.finalize_object()
    _engines.append(engine)
    address: int = engine.get_function_address("trampoline")
    return address
