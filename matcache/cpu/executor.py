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
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from struct import Struct
from typing import Any, NamedTuple

import numpy as np
from numba.core.types import int64
from numpy.lib.array_utils import byte_bounds

from ..errors import ShapeError
from .addresses import Call, Compiled, address, compiled_for, words_of
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


class Laid(NamedTuple):
    """A call that a program can run for the arrays of any block.

    words: of its arguments.
    patches: number of an input, and the places of its address and of its size among the words.
    arrays: where its arrays begin, and their bytes.
    """

    call: Call
    code: Compiled
    words: list[int]
    patches: list[tuple[int, ...]]
    arrays: list[tuple[int, int]]


def joined(pool: Pool, steps: Sequence[Any], owners: Sequence[Any]) -> list[Callable[[], None]]:
    """Return functions that run steps of a `Tape` again, in order.

    Calls of kernels in a row become one program. Other steps run as they did.

    owners: containers whose arrays blocks bring; they are bound as they were at the calls.
    """
    inputs = [Input(owner, name) for owner in owners for name in owner.arrays()]
    places = [place_of(found.array()) for found in inputs]
    found: list[Callable[[], None]] = []
    row: list[tuple[Laid, Callable[[], None]]] = []

    def close() -> None:
        if row:
            calls, again = zip(*row, strict=True)
            found.append(Program(pool, calls, again, inputs).run)
            row.clear()

    for step in steps:
        laid = [one for call in step.calls or () if (one := lay_out(call, places))]
        if step.calls is None or len(laid) < len(step.calls):
            close()
            found.append(step.again)
        else:
            row += [(one, step.again) for one in laid]
    close()
    return found


Place = tuple[int, int, int]
"""The addresses where an array begins and ends, and its size."""


def place_of(array: Array) -> Place:
    """Return the place of an array."""
    begin = address(array)
    return begin, begin + array.nbytes, array.size


def lay_out(call: Call, places: Sequence[Place]) -> Laid | None:
    """Return a call as words; None if a program cannot run it for the arrays of any block.

    Its arrays are containers, or whole arrays of the block; a part of one cannot be found again.

    places: of arrays of the present block.
    """
    code = compiled_for(call)
    if code is None or not all(size for _, _, size in places):
        return None
    words: list[int] = []
    patches: list[tuple[int, ...]] = []
    arrays: list[tuple[int, int]] = []
    for arg in call.parts:
        at = len(words)
        words += words_of(arg)
        if not isinstance(arg, np.ndarray) or not arg.size:
            continue
        begin = words[at + 4]
        end = begin + arg.nbytes if arg.flags.c_contiguous else byte_bounds(arg)[1]
        arrays.append((begin, arg.nbytes))
        shared = [n for n, place in enumerate(places) if begin < place[1] and place[0] < end]
        if not shared:
            continue
        if len(shared) > 1 or places[shared[0]] != (begin, end, arg.size):
            return None
        patches.append((shared[0], at + 4, *((at + 2, at + 5) if arg.ndim == 1 else ())))
    return Laid(call, code, words, patches, arrays)


def _laid_out(calls: Sequence[Laid], numbers: Mapping[int, int]) -> tuple[Array, int]:
    """Return the words of a program, and the place of its state.

    numbers: of the arrays that blocks bring among those that the program reads, by input.

    In order:

    - numbers of patches and calls; addresses of patches, calls and state
    - addresses of the arrays of a block, as Python objects
    - patches: address of one of these, and of the words that its address and its size belong in
    - calls: addresses of trampoline, words and bounds; whether one thread runs all chunks
    - state: number of the failed call from 1, most chunks of a call; then for each call, chunks
      that were taken and chunks that are done
    - words of the calls: address of the kernel, and its arguments
    """
    count = sum(len(one.patches) for one in calls)
    length = sum(1 + len(one.words) for one in calls)
    sizes = SIZES, len(numbers), PATCH * count, CALL * len(calls), 2 + 2 * len(calls), length
    *places, end = itertools.accumulate(sizes)
    code = np.zeros(end, np.int64)
    array, patch, call, state, word = (address(code) + 8 * place for place in places)
    patches: list[int] = []
    rows: list[int] = []
    words: list[int] = []
    for one in calls:
        bounds = 0 if one.call.bounds is None else address(one.call.bounds)
        rows += one.code.trampoline, word, bounds, one.call.alone or not bounds
        words += one.code.address, *one.words
        for number, *of in one.patches:
            row = [array + 8 * numbers[number], *(word + 8 + 8 * place for place in of)]
            patches += row + [0] * (PATCH - len(row))
        word += 8 + 8 * len(one.words)
    code[: places[0]] = count, len(calls), patch, call, state
    code[places[1] : places[3]] = patches + rows
    code[places[4] :] = words
    return code, places[3]


class Program:
    """Calls of kernels, to be run again and again for the arrays of other blocks."""

    def __init__(
        self,
        pool: Pool,
        calls: Sequence[Laid],
        again: Sequence[Callable[[], None]],
        inputs: Sequence[Input],
    ) -> None:
        """Put calls together.

        again: for each call, a function that runs it from Python; called where a kernel fails.
        inputs: arrays of blocks, for whose places the calls were laid out.
        """
        self._pool, self._again, self._calls = pool, again, calls  # the calls keep arrays alive
        used = sorted({number for call in calls for number, *_ in call.patches})
        self._owners = [inputs[number].owner for number in used]
        self._names = [inputs[number].name for number in used]
        self._code, state = _laid_out(calls, {number: n for n, number in enumerate(used)})
        self._at = address(self._code)
        self._put = partial(Struct(f"{len(used)}q").pack_into, self._code[SIZES:].data, 0)
        self._seen = self._code[state:].data
        self._most = pool.threads  # chunks of the call with most, in the last run
        self._blas = any(one.call.blas for one in calls)
        arrays = {array for one in calls for array in one.arrays}
        self._run_alone = run_tiny if sum(size for _, size in arrays) <= TINY else run

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
