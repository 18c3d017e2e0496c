"""Run recorded calls of kernels without Python, and without the interpreter's lock.

A recorded update is a list of calls of compiled kernels. `Program` lays them out as words, once
(`addresses.py`). Containers stay where they are, so nearly all words stay, too. What differs from
block to block is written before each run: addresses and sizes of arrays that blocks bring
(`Input`). Numbers of chunks lie before the bounds of chunks, where kernels put them.

`runners.work` runs the calls, one after the other. A call is cut into chunks, which threads take
one by one; the next call begins when all chunks are done. A thread that comes late finds calls that
are done already, so the caller never waits for threads to come. Chunks have the same bits on any
thread.

A program of one thread and tiny arrays keeps the lock. Of several replicas that give it up for
10 us, each waits longer than that to get it back.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from struct import Struct
from typing import Any, NamedTuple

import numpy as np
from numba.core.types import int64

from ..errors import ShapeError
from .addresses import Call, Compiled, compiled_for, words_of
from .algebra.blas import one_thread
from .pool import Pool
from .runners import CALL, PATCH, SIZES, begin, run, run_tiny, work

Array = np.ndarray[Any, Any]

TINY = 2**16  # bytes of all arrays of a program that keeps the interpreter's lock, at most
NOTHING = id(None)
ONE_WORD = (int64,)
RUNNERS = [(begin, ONE_WORD), (work, (int64, int64)), (run, ONE_WORD)]  # of several threads
RUNNERS_ALONE = [(run, ONE_WORD), (run_tiny, ONE_WORD)]


def compile_runners(threads: int) -> None:
    """Compile what runs programs with so many threads, or load it from disk, unless it is there."""
    for kernel, types in RUNNERS if threads > 1 else RUNNERS_ALONE:
        if types not in kernel.overloads:
            kernel.compile(types)


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
    bound = [given.array() for given in inputs]
    row: list[tuple[Call, Callable[[], None]]] = []

    def close() -> None:
        if row:
            calls, again = zip(*row, strict=True)
            found.append(Program(pool, calls, again, inputs).run)
            row.clear()

    for step in steps:
        if step.calls is not None and all(_repeatable(call, bound) for call in step.calls):
            row += [(call, step.again) for call in step.calls]
        else:
            close()
            found.append(step.again)
    close()
    return found


def _repeatable(call: Call, bound: Sequence[Array]) -> bool:
    """Return whether a program can run a call for the arrays of any block.

    Its arrays are containers, or whole arrays of the block; a part of one cannot be found again.

    bound: arrays of the present block.
    """
    if compiled_for(call) is None:
        return False
    for arg in call.parts:
        if isinstance(arg, np.ndarray) and arg.size:
            shares = [array for array in bound if np.may_share_memory(arg, array)]
            if shares and (len(shares) > 1 or _place(arg) != _place(shares[0])):
                return False
    return all(array.size for array in bound)


def _place(array: Array) -> tuple[int, int]:
    return array.ctypes.data, array.size


def _laid_out(
    calls: Sequence[Call],
    codes: Sequence[Compiled],
    starts: Sequence[int],
    patches: Sequence[tuple[int, ...]],
    arrays: int,
    words: Sequence[int],
) -> tuple[Array, int]:
    """Return the words of a program, and the place of its state.

    starts: for each call, the place of its first word among `words`.
    patches: number of an array, and the places of its address and of its size among `words`.

    In order:

    - numbers of patches and calls; addresses of patches, calls and state
    - addresses of the arrays of a block, as Python objects
    - patches: address of one of these, and of the words that its address and its size belong in
    - calls: addresses of trampoline, words and bounds; whether one thread runs all chunks
    - state: number of the failed call from 1, most chunks of a call; then for each call, chunks
      that were taken and chunks that are done
    - words of the calls: address of the kernel, and its arguments
    """
    sizes = SIZES, arrays, PATCH * len(patches), CALL * len(calls), 2 + 2 * len(calls), len(words)
    *places, end = itertools.accumulate(sizes)
    code = np.zeros(end, np.int64)
    array, patch, call, state, first = (code.ctypes.data + 8 * place for place in places)
    code[:SIZES] = len(patches), len(calls), patch, call, state
    row = places[1]
    for number, *of in patches:
        code[row : row + 1 + len(of)] = array + 8 * number, *(first + 8 * word for word in of)
        row += PATCH
    for one, compiled, start in zip(calls, codes, starts, strict=True):
        bounds = 0 if one.bounds is None else one.bounds.ctypes.data
        alone = one.alone or one.bounds is None
        code[row : row + CALL] = compiled.trampoline, first + 8 * start, bounds, alone
        row += CALL
    code[places[4] :] = words
    return code, places[3]


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
        starts: list[int] = []
        patches: list[tuple[int, ...]] = []
        codes = [code for call in calls if (code := compiled_for(call)) is not None]
        for call, code in zip(calls, codes, strict=True):
            starts.append(len(words))
            words.append(code.address)
            for arg in call.parts:
                found = bound.get(_place(arg)) if isinstance(arg, np.ndarray) else None
                if found is not None:
                    number, at = used.setdefault(found, len(used)), len(words)
                    sized = (at + 2, at + 5) if arg.ndim == 1 else ()
                    patches.append((number, at + 4, *sized))
                words += words_of(arg)
        self._owners = [found.owner for found in used]
        self._names = [found.name for found in used]
        self._code, state = _laid_out(calls, codes, starts, patches, len(used), words)
        self._at = self._code.ctypes.data
        self._put = partial(Struct(f"{len(used)}q").pack_into, self._code[SIZES:].data, 0)
        self._seen = self._code[state:].data
        self._most = pool.threads  # chunks of the call with most, in the last run
        self._blas = any(call.blas for call in calls)
        given = [arg for call in calls for arg in call.parts if isinstance(arg, np.ndarray)]
        tiny = sum({_place(array): array.nbytes for array in given}.values()) <= TINY
        self._run_alone = run_tiny if tiny else run

    def run(self) -> None:
        """Run all calls, for the arrays that blocks have brought."""
        places = [*map(id, map(getattr, self._owners, self._names))]
        if NOTHING in places:
            missing = places.index(NOTHING)
            raise ShapeError(
                f"{self._owners[missing].label}: this block has no {self._names[missing]}."
            )
        self._put(*places)
        if self._blas:
            with one_thread:
                failed = self._call()
        else:
            failed = self._call()
        if failed:
            self._again[failed - 1]()
            raise RuntimeError("a kernel failed, and did not when it was called again.")

    def _call(self) -> int:
        """Run all calls; return the number of the one that failed, from 1, or 0."""
        pool = self._pool
        if pool.threads == 1:
            pool.check_open()
            number: int = self._run_alone(self._at)
            return number
        if self._most == 1:
            pool.check_open()
            run(self._at)
        else:
            begin(self._at)
            pool.run(self._task, min(pool.threads, self._most))
        failed, self._most = self._seen[:2].tolist()
        return failed

    def _task(self, chunk: int, thread: int) -> None:
        work(self._at, thread)
