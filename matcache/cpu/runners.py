"""Walk through the words of a recorded program, compiled.

`executor.py` lays the words out, and says what they mean.
"""

# Numba infers the types of compiled functions.
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import extending, njit, types

SPINS = 2000  # looks at a running chunk before a thread sleeps
SLEEP = 20  # microseconds
SIZES = 3  # words at the beginning of a program
HEAD = object.__basicsize__  # an array's C struct: this, data, number of dimensions, dimensions

_instructions: Any = extending.intrinsic
_compiled = njit(nogil=True, cache=True, error_model="numpy")
_sleep: Any = types.ExternalFunction("usleep", types.int32(types.uint32))


@_instructions
def _load(typingctx, address):
    """Return the word at an address; writes of a thread that ended a chunk are visible."""

    def codegen(context, builder, signature, args):
        place = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
        return builder.load_atomic(place, "acquire", 8)

    return types.int64(types.int64), codegen


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


@_compiled
def parts(code):
    """Return the parts of a program's words.

    They follow the numbers of arrays, patches and calls:

    - addresses of the arrays of a block, as Python objects
    - patches: number of an array, and three words that its address and its size belong in
    - calls: addresses of trampoline, words and bounds; whether one thread runs all chunks
    - state: number of the failed call from 1, most chunks of a call; then for each call, chunks
      that were taken and chunks that are done
    - words of the calls
    """
    arrays, patches, calls = code[0], code[1], code[2]
    patch = SIZES + arrays
    call = patch + 4 * patches
    state = call + 4 * calls
    words = state + 2 + 2 * calls
    return (
        code[SIZES:patch],
        code[patch:call].reshape(patches, 4),
        code[call:state].reshape(calls, 4),
        code[state:words],
        code[words:],
    )


@_compiled
def begin(code):
    """Write addresses and sizes of the arrays of a block into the words, and begin anew."""
    arrays, patches, _, state, words = parts(code)
    for patch in range(patches.shape[0]):
        array = arrays[patches[patch, 0]] + HEAD
        words[patches[patch, 1]] = _load(array)
        if patches[patch, 2] > 0:
            dimensions, size = _load(array + 16), 1
            for n in range(_load(array + 8) & 0xFFFFFFFF):
                size *= _load(dimensions + 8 * n)
            words[patches[patch, 2]] = size
            words[patches[patch, 3]] = size
    state[:] = 0


@_compiled
def work(code, thread):
    """Take part in all calls, until they are done or one has failed."""
    _, _, table, state, _ = parts(code)
    first = np.int64(state.ctypes.data)
    for call in range(table.shape[0]):
        bounds, alone = table[call, 2], table[call, 3]
        chunks = np.int64(1) if bounds == 0 else _load(bounds)
        pieces = np.int64(1) if alone else chunks
        taken = first + 8 * (2 + 2 * call)
        done = taken + 8
        piece = _add_one(taken)
        if piece == 0:
            state[1] = max(state[1], pieces)
        while piece < pieces:
            for chunk in range(0 if alone else piece, chunks if alone else piece + 1):
                if _load(first) == 0 and _jump(table[call, 0], table[call, 1], chunk, thread) != 0:
                    state[0] = call + 1
            _add_one(done)
            piece = _add_one(taken)
        looks = 0
        while _load(done) < pieces:
            looks += 1
            if looks > SPINS:
                _sleep(SLEEP)


@_compiled
def run(code):
    """Run all calls on the calling thread; return the number of the one that failed, or 0."""
    begin(code)
    work(code, 0)
    return parts(code)[3][0]


@njit(cache=True, error_model="numpy")
def run_tiny(code):
    """Do the same with the lock: to wait for it again would take longer than the calls."""
    return run(code)


_WORDS = types.int64[::1]
RUNNERS = (run, (_WORDS,)), (run_tiny, (_WORDS,)), (begin, (_WORDS,)), (work, (_WORDS, types.int64))
"""What runs programs, with the types of its arguments: loaded before training begins."""
