"""Record what a program asks a cache to run, and run it again without the program.

A tape holds the launches of one run of a program, with their containers. Contents of containers may
change between two runs, and arrays of blocks may be others: a launch finds them through its
containers. Everything else must be the same. The caller ensures that; `differs_from` helps, and so
do the guards of a tape:

- `reads`: numbers of the block that the program read, and not as formulas: see `BlockNumber`.
- `followed`: formulas that containers are set to, each with the type of its values.
- `hits`: results that were current before the program ran, so that it did not compute them.

Longer than 300 lines: what is noted while a program is recorded is what a run leaves behind.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import source_line
from ..program.padding import Padding
from .block_number import BlockNumber, function_of, has_value
from .dispatch import only_calls
from .recording import Same, comparable, first_unequal
from .slots import PatternSlot, Slot
from .steps import Step, host_first

if TYPE_CHECKING:
    from .cache import MatCache
    from .matrices import Mat

FIXED, ROWS = (bool, str), (tuple, list)  # a union would be made at each call

Numbers = Mapping[str, Any]
"""Numbers of a block that a program may read, by name."""


class Tape:
    """The steps of one run of a program.

    refused: why the run cannot be repeated; None if it can.
    result: what the program returned; see `returns`.
    """

    def __init__(self, cache: MatCache, now: Numbers, planned: set[Hashable] | None = None) -> None:
        """Start an empty tape; `record` fills it.

        now: numbers of the present block.
        planned: launches that need not be planned again; others are added. None: memory is not
            being planned.
        """
        self.cache = cache
        self.now, self._planned = dict(now), planned
        self.steps: list[Step] = []
        self.reads: dict[str, Any] = {}
        self.followed: list[tuple[Callable[[Numbers], Any], type]] = []
        self.hits: list[Slot] = []
        self.refused: str | None = None
        self.result: Any = None
        self._host_sets: set[Slot] | None = None  # what the present host function has set
        self._repeats = False  # whether it runs again
        self._before = {slot: slot.version for slot in cache.containers()}
        self._own: dict[Slot, int] = {}  # writes that a host function repeats itself
        self._filled: set[Slot] = set()
        self._touched: list[Mat] = []
        self._flops = 0
        self._flops_by_size: dict[PatternSlot, tuple[int, int]] = {}

    # ------------------------------------------------------------- while recording

    def launch(self, what: str, found: Callable[..., None], args: tuple[Any, ...]) -> None:
        """Run a launch and add it.

        found: called as `found(cache, *args)`.
        """
        parts = tuple(map(self._part, args))
        again: Callable[[], None] = partial(found, self.cache, *args)
        calls: list[Any] | None = None
        if self._planned is None:
            made = self._calls(again)
            calls = made if only_calls(found) else None
        elif (what, parts) not in self._planned:
            again()
            self._planned.add((what, parts))
        line = self.cache.line or source_line()
        self.steps.append(Step(what, parts, line, again, calls))

    def _calls(self, function: Callable[[], None]) -> list[Any]:
        """Call a function, and return the calls of kernels that it made."""
        backend = self.cache.backend
        calls: list[Any] = []
        backend.calls = calls
        try:
            function()
        finally:
            backend.calls = None
        return calls

    def filled(self, slot: Slot) -> bool:
        """Return whether the program has filled `slot`; see `MatCache.fills`."""
        return slot in self._filled

    def fill(self, slot: Slot) -> None:
        """Note that the program fills `slot`."""
        self._filled.add(slot)

    def set(self, mat: Mat, array: np.ndarray[Any, Any]) -> None:
        """Add numbers that the host wrote into a container."""
        self.touched(mat)
        if self._host_sets is not None:
            self._host_sets.add(mat.slot)
            self._own[mat.slot] = self._own.get(mat.slot, 0) + 1
            return
        if mat.pattern is not None:
            self.refuse(f"sets the values of {mat.label}")
        numbers = (array.shape, array.dtype.str, array.tobytes())
        name, parts, target = f"{mat.label}.set", (mat.guid, numbers), mat.slot.array
        copy, calls = _nothing, None
        if target is not None:  # else memory is being planned
            kept = np.full(mat.slot.shape, array, mat.slot.dtype)
            copy = self.cache.backend.writing(target, kept)
            calls = self._calls(copy) or None
        self.steps.append(Step(name, parts, source_line(), copy, calls, numbers=True))

    def follow(self, mat: Mat, number: BlockNumber) -> None:
        """Set a container to a number of each block."""
        function = function_of(number.formula)
        self.followed.append((function, number.__class__))
        now = self.now  # the tape itself would be held by its own step
        self.host(lambda: mat.set(function(now)), (mat.guid, number.formula))

    def host(self, function: Callable[[], None], parts: Any = None) -> None:
        """Add a function that sets numbers, after calling it.

        parts: what makes the function the same in two runs; None: its name.
        """
        found = self._host_sets = set()
        try:
            function()
        finally:
            self._host_sets = None
        parts = function.__qualname__ if parts is None else parts
        sets = frozenset(found)
        self.steps.append(Step("host", parts, source_line(), function, sets=sets, numbers=True))

    @property
    def records(self) -> bool:
        """Whether the program is being recorded, outside of functions of the host."""
        return self.cache.tape is self and self._host_sets is None

    @property
    def calls_host(self) -> bool:
        """Whether a function of the host runs for the present block."""
        return self._host_sets is not None or self._repeats

    def read(self, name: str) -> Any:
        """Return a number of the block, which stays a formula while the program is recorded."""
        return BlockNumber(self, (name,)) if self.records else self.now[name]

    def hit(self, slot: Slot) -> None:
        """Note a result that was not computed because it is current."""
        if slot.version == self._before.get(slot) and slot not in self.hits:
            self.hits.append(slot)

    def touched(self, mat: Mat) -> None:
        """Note a handle that was made current by writing through it."""
        self._touched.append(mat)

    def returns(self, result: Any, parts: Any) -> None:
        """Note what the program returns: later runs make its matrices current.

        parts: of the result, in tuples and lists. Two runs do the same if these are the same.
        """
        self.result = result
        self.steps.append(Step("return", self._part(parts), source_line(), _nothing, []))
        self._hold(parts)

    def _hold(self, part: Any) -> None:
        """Note the matrices in a part of the result."""
        if isinstance(part, tuple | list):
            for each in part:
                self._hold(each)
        elif hasattr(part, "guid"):
            self.touched(part)
            if part.pattern is not None:
                self.refuse(f"returns the sparse {part.label}")

    def worked(self, fixed: int, pattern: PatternSlot | None, entries: int, columns: int) -> None:
        """Count operations: see `MatCache.count`."""
        self._flops += fixed
        if pattern is not None:
            before = self._flops_by_size.get(pattern, (0, 0))
            self._flops_by_size[pattern] = before[0] + entries, before[1] + columns

    def refuse(self, why: str) -> None:
        """Note why the program must run for every block."""
        if self.refused is None and self._host_sets is None:
            self.refused = f"it {why} at {source_line()}"

    def _part(self, arg: Any) -> Any:
        """Return what makes an argument the same in two runs."""
        if arg is None or isinstance(arg, FIXED):
            return arg
        return comparable(arg, self._other)

    def _other(self, arg: Any) -> Any:
        if isinstance(arg, ROWS):
            return tuple(map(self._part, arg))
        if isinstance(arg, np.ndarray):
            self.refuse("passes an array of NumPy")
            return None
        if is_dataclass(arg) and type(arg).__eq__ is not object.__eq__:
            return (type(arg), *(self._part(getattr(arg, field.name)) for field in fields(arg)))
        return Same(arg)

    def end(self) -> None:
        """Note what the run has left behind."""
        written = {slot for slot, before in self._before.items() if slot.version != before}
        self._written: list[tuple[Slot, int, Padding]] = [
            (slot, slot.version - self._before[slot] - self._own.get(slot, 0), slot.padding)
            for slot in written
            if isinstance(slot, Slot)
        ]
        self._handles = [
            mat
            for mat in {id(mat): mat for mat in self._touched}.values()
            if mat.version == mat.slot.version and mat.slot not in self._own
        ]
        self._lasting: list[tuple[Slot, list[Slot | PatternSlot]]] = []  # results and operands
        for slot in sorted((slot for slot, *_ in self._written), key=lambda slot: slot.guid):
            changed = (operand in written for operand, _ in slot.inputs)
            if slot.is_current() and not any(changed):
                self._lasting.append((slot, [operand for operand, _ in slot.inputs]))
                written.remove(slot)  # it is as lasting as its operands
        self._before, self._touched, self._filled = {}, [], set()

    def lay_out(self) -> None:
        """Make ready to `run`, while the block that was recorded is bound."""
        self._again = self.cache.backend.joined(host_first(self.steps), self.cache.inputs)

    # ------------------------------------------------------------- afterwards

    def fits(self, now: Numbers) -> bool:
        """Return whether a block with the numbers `now` could do the same.

        The results that the run found current are current now, and formulas have values of the
        same types.
        """
        for function, kind in self.followed:
            if not has_value(function, kind, now):
                return False
        for slot in self.hits:  # noqa: SIM110 (a generator takes twice as long)
            if not slot.is_current():
                return False
        return True

    def run(self, now: Numbers) -> None:
        """Run all steps again, and leave containers and handles as the program would.

        now: numbers of the present block; those in `reads` must be the same.
        """
        self.now.update(now)
        for slot, count, padding in self._written:
            slot.version += count  # first: should this fail, handles on the old contents are stale
            slot.padding = padding
        self.cache.repeats = self._repeats = True
        try:
            for again in self._again:
                again()
        finally:
            self.cache.repeats = self._repeats = False
        for mat in self._handles:
            mat.version = mat.slot.version
        for slot, operands in self._lasting:  # a later block may find them current
            slot.computed_from(*operands)
        self.cache.flops += self._flops
        for pattern, (entries, columns) in self._flops_by_size.items():
            self.cache.flops += entries * pattern.nnz + columns * pattern.active_count

    def differs_from(self, other: Tape) -> str | None:
        """Describe the first difference between two runs; None if they did the same."""
        found = first_unequal(self.steps, other.steps, fields=2)
        if found is not None:
            one, two = found
            if two is None:
                return f"{one.what} at {one.where} ran in one of two blocks only"
            return f"{one.what} at {one.where} differs from {two.what} at {two.where}"
        if self.hits != other.hits:
            return "results of earlier blocks were used in one of two blocks only"
        return None


def _nothing() -> None:
    """Do nothing."""


@contextmanager
def record(tape: Tape, *, runs: bool = True) -> Iterator[None]:
    """Record what the cache of `tape` is asked for, within this `with` block.

    runs: whether it will be run; False: `lay_out` is called once that is known.
    """
    cache = tape.cache
    cache.tape = tape
    try:
        yield
    finally:
        cache.tape = None
    tape.end()
    if runs:
        tape.lay_out()
