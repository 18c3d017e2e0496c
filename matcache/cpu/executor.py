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

from collections.abc import Callable, Sequence
from functools import partial
from struct import Struct
from typing import Any, NamedTuple

import numpy as np

from ..errors import ShapeError
from .addresses import Call, address_of, has_address, trampoline_of, words_of
from .blas import limited
from .pool import Pool
from .runners import SIZES, begin, parts, run, run_tiny, work

Array = np.ndarray[Any, Any]

TINY = 2**16  # bytes of all arrays of a program that keeps the interpreter's lock, at most
NOTHING = id(None)


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
        _, its_patches, its_table, state, its_words = parts(self._code)
        its_patches[:] = np.array(patches, np.int64).reshape(-1, 4)
        first = its_words.ctypes.data
        for row, call, start in zip(its_table, calls, starts, strict=True):
            bounds = 0 if call.bounds is None else call.bounds.ctypes.data
            alone = call.alone or call.bounds is None
            row[:] = trampoline_of(call), first + 8 * start, bounds, alone
        self._put = partial(Struct(f"{len(used)}q").pack_into, self._code[SIZES:].data, 0)
        self._seen = state.data
        self._most = pool.threads  # chunks of the call with most, in the last run
        self._blas = any(call.blas for call in calls)
        arrays = [arg for call in calls for arg in call.given if isinstance(arg, np.ndarray)]
        tiny = sum({_place(array): array.nbytes for array in arrays}.values()) <= TINY
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
            with limited:
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
            return self._run_alone(self._code)  # type: ignore[no-any-return]
        if self._most == 1:
            pool.check_open()
            run(self._code)
        else:
            begin(self._code)
            pool.run(self._task, min(pool.threads, self._most))
        failed, self._most = self._seen[:2].tolist()
        return failed  # type: ignore[no-any-return]

    def _task(self, chunk: int, thread: int) -> None:
        work(self._code, thread)
