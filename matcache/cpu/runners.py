"""Walk through the words of a recorded program, compiled.

`executor.py` lays the words out, and says what they mean. A program is known by the address of its
words, and all words are read and written by their addresses: Numba compiles that in a tenth of the
time of arrays.
"""

# Numba infers the types of compiled functions.
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import extending, types

from .compiling.jit import kernel

SPINS = 2000  # looks at a running chunk before a thread sleeps
SLEEP = 20  # microseconds
SIZES = 5  # words at the beginning of a program
PATCH, CALL = 4, 4  # words of each
HEAD = object.__basicsize__  # an array's C struct: this, data, number of dimensions, dimensions

_instructions: Any = extending.intrinsic
_sleep: Any = types.ExternalFunction("usleep", types.int32(types.uint32))


@_instructions
def _load(typingctx, address):
    """Return the word at an address; writes of a thread that ended a chunk are visible."""

    def codegen(context, builder, signature, args):
        place = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
        return builder.load_atomic(place, "acquire", 8)

    return types.int64(types.int64), codegen


@_instructions
def _store(typingctx, address, word):
    """Write the word at an address."""

    def codegen(context, builder, signature, args):
        place = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
        builder.store_atomic(args[1], place, "release", 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), codegen


@_instructions
def _add_one(typingctx, address):
    """Add 1 to the word at an address, and return what it was; no other thread gets the same."""

    def codegen(context, builder, signature, args):
        place = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
        return builder.atomic_rmw("add", place, ir.IntType(64)(1), "seq_cst")

    return types.int64(types.int64), codegen


@_instructions
def _jump(typingctx, trampoline, words, chunk, thread):
    """Call a trampoline by its address; returns 0, or the kernel's status where it failed."""

    def codegen(context, builder, signature, args):
        word = ir.IntType(64)
        shape = ir.FunctionType(ir.IntType(32), [word] * 3)
        return builder.call(builder.inttoptr(args[0], shape.as_pointer()), args[1:])

    return types.int32(*[types.int64] * 4), codegen


@kernel()
def begin(code):
    """Write addresses and sizes of the arrays of a block into the words, and begin anew."""
    patches, calls = _load(code), _load(code + 8)
    patch, state = _load(code + 16), _load(code + 32)
    for _ in range(patches):
        array = _load(_load(patch)) + HEAD
        _store(_load(patch + 8), _load(array))
        if _load(patch + 16) != 0:
            dimensions, size = _load(array + 16), 1
            for n in range(_load(array + 8) & 0xFFFFFFFF):
                size *= _load(dimensions + 8 * n)
            _store(_load(patch + 16), size)
            _store(_load(patch + 24), size)
        patch += 8 * PATCH
    for word in range(2 + 2 * calls):
        _store(state + 8 * word, 0)


@kernel()
def work(code, thread):
    """Take part in all calls, until they are done or one has failed."""
    calls, call, state = _load(code + 8), _load(code + 24), _load(code + 32)
    taken = state + 16
    for number in range(calls):
        bounds, alone = _load(call + 16), _load(call + 24)
        chunks = 1 if bounds == 0 else _load(bounds)
        pieces = 1 if alone != 0 else chunks
        piece = _add_one(taken)
        if piece == 0 and _load(state + 8) < pieces:
            _store(state + 8, pieces)
        while piece < pieces:
            first, last = piece, piece + 1
            if alone != 0:
                first, last = 0, chunks
            for chunk in range(first, last):
                if _load(state) == 0 and _jump(_load(call), _load(call + 8), chunk, thread) != 0:
                    _store(state, number + 1)
            _add_one(taken + 8)
            piece = _add_one(taken)
        looks = 0
        while _load(taken + 8) < pieces:
            looks += 1
            if looks > SPINS:
                _sleep(SLEEP)
        call += 8 * CALL
        taken += 16


@kernel()
def run(code):
    """Run all calls on the calling thread; return the number of the one that failed, or 0."""
    begin(code)
    work(code, types.int64(0))  # 0 alone is a type of its own: `work` would be compiled twice
    return _load(_load(code + 32))


@kernel(keeps_lock=True)
def run_tiny(code):
    """Do the same with the lock: to wait for it again would take longer than the calls."""
    return run(code)
