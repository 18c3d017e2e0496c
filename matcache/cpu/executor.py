"""Run recorded calls of kernels without Python, and without the interpreter's lock.

A recorded update is a list of calls of compiled kernels. `Program` lays them out as words, once
(`addresses.py`). Containers stay where they are, so nearly all words stay, too. What differs from
block to block is written before each run: addresses and sizes of arrays that blocks bring
(`Input`). Numbers of chunks lie before the bounds of chunks, where kernels put them.

`_work` runs the calls, one after the other. A call is cut into chunks, which threads take one by
one; the next call begins when all chunks are done. A thread that comes late finds calls that are
done already, so the caller never waits for threads to come. Chunks have the same bits on any
thread.
"""

# Numba infers the types of compiled functions.
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from struct import Struct
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import extending, njit, types

from ..errors import ShapeError
from .addresses import Call, address_of, has_address, trampoline_of, words_of
from .blas import UNLIMITED, limited
from .pool import Pool

Array = np.ndarray[Any, Any]

SPINS = 2000  # looks at a running chunk before a thread sleeps
SLEEP = 20  # microseconds
NOTHING = id(None)
SIZES = 3  # words at the beginning of a program
HEAD = object.__basicsize__  # an array's C struct: this, data, number of dimensions, dimensions


class Input(NamedTuple):
    """An array that blocks bring: `getattr(owner, name)`."""

    owner: Any
    name: str

    def array(self) -> Any:
        """Return the array of the present block."""
        return getattr(self.owner, self.name)


def joined(pool: Pool, steps: Sequence[Any], owners: Sequence[Any]) -> list[Callable[[], None]]:
    """Return functions that run steps of a `Tape` again, in order.

    Calls of kernels in a row become one program. Other steps run as they did.

    owners: containers whose arrays blocks bring; they are bound as they were at the calls.
    """
    inputs = [Input(owner, name) for owner in owners for name in owner.arrays()]
    found: list[Callable[[], None]] = []
    row: list[tuple[Call, Callable[[], None]]] = []

    def close() -> None:
        if row:
            calls, again = zip(*row, strict=True)
            found.append(Program(pool, calls, again, inputs).run)
            row.clear()

    for step in steps:
        if step.calls is not None and all(_repeatable(call, inputs) for call in step.calls):
            row += [(call, step.again) for call in step.calls]
        else:
            close()
            found.append(step.again)
    close()
    return found


def _repeatable(call: Call, inputs: Sequence[Input]) -> bool:
    """Return whether a program can run a call for the arrays of any block.

    Its arrays are containers, or whole arrays of the block; a part of one cannot be found again.
    """
    if not has_address(call):
        return False
    found = [given.array() for given in inputs]
    for arg in call.given:
        if isinstance(arg, np.ndarray) and arg.size:
            shares = [array for array in found if np.may_share_memory(arg, array)]
            if shares and (len(shares) > 1 or _place(arg) != _place(shares[0])):
                return False
    return all(array.size for array in found)


def _place(array: Array) -> tuple[int, int]:
    return array.ctypes.data, array.size


class Program:
    """Calls of kernels, to be run again and again for the arrays of other blocks."""

    def __init__(
        self,
        pool: Pool,
        calls: Sequence[Call],
        again: Sequence[Callable[[], None]],
        inputs: Sequence[Input],
    ) -> None:
        """Lay out calls.

        again: for each call, a function that runs it from Python; called where a kernel fails.
        inputs: arrays of blocks.
        """
        self._pool, self._again, self._calls = pool, again, calls  # the calls keep arrays alive
        bound = {_place(found.array()): found for found in inputs}
        used: dict[Input, int] = {}
        words: list[int] = []
        starts, patches = [], []
        for call in calls:
            starts.append(len(words))
            words.append(address_of(call))
            for arg in call.given:
                found = bound.get(_place(arg)) if isinstance(arg, np.ndarray) else None
                if found is not None:
                    number, at = used.setdefault(found, len(used)), len(words)
                    sized = (at + 2, at + 5) if arg.ndim == 1 else (0, 0)
                    patches.append((number, at + 4, *sized))
                words += words_of(arg)
        self._owners = [found.owner for found in used]
        self._names = [found.name for found in used]
        sizes = len(used), len(patches), len(calls)
        empty = [0] * (len(used) + 4 * len(patches) + 4 * len(calls) + 2 + 2 * len(calls))
        self._code = np.array([*sizes, *empty, *words], np.int64)
        _, its_patches, its_table, state, its_words = _parts(self._code)
        its_patches[:] = np.array(patches, np.int64).reshape(-1, 4)
        first = its_words.ctypes.data
        for row, call, start in zip(its_table, calls, starts, strict=True):
            bounds = 0 if call.bounds is None else call.bounds.ctypes.data
            alone = call.alone or call.bounds is None
            row[:] = trampoline_of(call), first + 8 * start, bounds, alone
        self._put = partial(Struct(f"{len(used)}q").pack_into, self._code[SIZES:].data, 0)
        self._seen = state.data
        self._most = pool.threads  # chunks of the call with most, in the last run
        self._within = limited if any(call.blas for call in calls) else UNLIMITED

    def run(self) -> None:
        """Run all calls, for the arrays that blocks have brought."""
        places = [*map(id, map(getattr, self._owners, self._names))]
        if NOTHING in places:
            missing = places.index(NOTHING)
            raise ShapeError(
                f"{self._owners[missing].label}: this block has no {self._names[missing]}."
            )
        self._put(*places)
        with self._within:
            if self._pool.threads == 1 or self._most == 1:
                self._pool.check_open()
                _run(self._code)
            else:
                _begin(self._code)
                self._pool.run(self._task, min(self._pool.threads, self._most))
        self._most = self._seen[1]
        if failed := self._seen[0]:
            self._again[failed - 1]()
            raise RuntimeError("a kernel failed, and did not when it was called again.")

    def _task(self, chunk: int, thread: int) -> None:
        _work(self._code, thread)


# ---------------------------------------------------------------- compiled

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
def _parts(code):
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
def _begin(code):
    """Write addresses and sizes of the arrays of a block into the words, and begin anew."""
    arrays, patches, _, state, words = _parts(code)
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
def _work(code, thread):
    """Take part in all calls, until they are done or one has failed."""
    _, _, table, state, _ = _parts(code)
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
def _run(code):
    """Run all calls on the calling thread."""
    _begin(code)
    _work(code, 0)


_WORDS = types.int64[::1]
RUNNERS = (_run, (_WORDS,)), (_begin, (_WORDS,)), (_work, (_WORDS, types.int64))
"""What runs programs, with the types of its arguments: loaded before training begins."""
