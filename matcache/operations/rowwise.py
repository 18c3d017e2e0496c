"""`@rowwise`: trace a row-local function once, compile it, run it over the rows.

Row i of every result depends only on row i of the row-shaped arguments and on whole tables. So rows
may run in any order on any thread.

Longer than 300 lines: tracing and running share what a call is.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import Any, overload

from ..containers.cache import MatCache
from ..containers.chunks import turned
from ..containers.dispatch import launch
from ..containers.lazy import Lazy, Transposed
from ..containers.matrices import Mat, SparseMat, handle, slots_of
from ..containers.slots import PatternSlot, Slot
from ..errors import ShapeError, StaleValueError, source_line
from ..notation.operand import Operand, apply
from ..program import padding
from ..program.instructions import (
    Access,
    Apply,
    Argument,
    Kind,
    Made,
    Program,
    Value,
    loops_that_must_run,
    tables_of,
    without_unused,
)
from ..program.records import Structure, flatten, rebuild
from ..program.schedule import schedule
from ..program.trace import Recorder, Traced, recorder_in_use
from .arguments import (
    check_shapes,
    describe,
    is_static,
    key_part,
    patterns_of,
    row_count,
    signature,
)
from .compiled import Compiled
from .rounding import as_table


class Rowwise:
    """A function of rows, to be called with Mats.

    Arguments are Mats, numbers, strings, booleans, functions, None, and tuples and frozen
    dataclasses of these: see `records.py`. The function is traced once for each signature: shapes
    of vectors, dtype, which arguments are sparse, classes of records. Values from outside its
    arguments are fixed at that time. Computations without use are left out. `reference` runs the
    same code in NumPy float64.
    """

    def __init__(self, function: Callable[..., Any], *, any_width: bool = False) -> None:
        """Wrap `function`; nothing is traced yet. any_width: see `rowwise`."""
        if not callable(function):
            raise ShapeError(f"rowwise: {function!r}: must be a function.")
        self.function, self.any_width = function, any_width
        self.name = function.__name__
        self._compiled: dict[Hashable, Compiled] = {}
        functools.update_wrapper(self, function)

    # ------------------------------------------------------------- tracing

    def compile(self, *args: Any, rows: int | None = None) -> Compiled:
        """Return the program for arguments of these shapes, traced at the first call.

        rows: of the program; None: those of the first sparse argument, or else of the first matrix.
        """
        return self.compile_leaves(*flatten(args), rows)

    def compile_leaves(
        self, args: tuple[Any, ...], structure: Structure | None, rows: int | None = None
    ) -> Compiled:
        """Return the program for arguments that are flattened already: see `compile`."""
        rows = row_count(args) if rows is None else rows
        arguments, dtype = describe(self.function, args, rows, structure)
        statics = tuple(a for a in args if is_static(a))
        key = (arguments, dtype, statics, structure)
        found = self._compiled.get(key)
        if found is None:
            found = self._compiled[key] = self._trace(arguments, dtype, args, structure)
        return found

    def _trace(
        self,
        arguments: tuple[Argument, ...],
        dtype: str,
        args: tuple[Any, ...],
        structure: Structure | None,
    ) -> Compiled:
        recorder = Recorder(arguments)
        inputs: list[Any] = []
        for number, (argument, arg) in enumerate(zip(arguments, args, strict=True)):
            if argument.form == "static":
                inputs.append(arg)
            elif argument.form == "sparse":
                value = recorder.argument(number, Access.VALUES, Kind.NNZ, pattern=argument.pattern)
                inputs.append(Traced(recorder, value, number))
            elif argument.form == "number":
                value = recorder.argument(number, Access.NUMBER, Kind.UNI)
                inputs.append(Traced(recorder, value, number))
            else:
                inputs.append(Traced(recorder, None, number))
        token = recorder_in_use.set(recorder)
        try:
            result = self.function(*rebuild(structure, tuple(inputs)))
        finally:
            recorder_in_use.reset(token)
        if len(recorder.open) > 1:
            raise ShapeError(
                f"@rowwise {self.name}: break or return inside a repeat; the rows would leave it "
                "one by one. Use until(condition) as its last statement."
            )
        single = not isinstance(result, tuple)
        results = () if result is None else ((result,) if single else result)
        if not all(isinstance(r, Traced) for r in results):
            raise ShapeError(
                f"@rowwise {self.name}: returns {result!r}; return values it computed."
            )
        values: list[Value] = []
        for value in (r.as_value() for r in results):
            if value.arg < 0 and value in values:  # each result needs its own container
                twin = recorder.new(value.kind, value.length, value.pattern)
                recorder.add(Apply(twin, "copy", (value,)))
                value = twin
            values.append(value)
        body = without_unused(recorder.body, tuple(values))
        arguments, made = recorder.arguments, tuple(recorder.made)
        program = Program(
            self.name, arguments, body, tuple(values), dtype, made=made, any_width=self.any_width
        )
        writes = tuple(sorted({v.arg for v in recorder.argument_values.values() if v.mutable}))
        if not values and not writes:
            raise ShapeError(
                f"@rowwise {self.name} at {source_line()}: returns None and assigns to no "
                "argument, so it has no effect. Return what it computes, or assign to an argument "
                "with <<=."
            )
        self._check_writes(program, recorder, writes)
        return Compiled(
            schedule(program),
            single,
            returned=tuple(v.arg for v in values),
            writes=writes,
            must_run=tuple(loops_that_must_run(program)),
            recipe=recorder.recipe,
        )

    def _check_writes(self, program: Program, recorder: Recorder, writes: tuple[int, ...]) -> None:
        """Check that only the writing row itself reads an argument that rows write to.

        Raises ShapeError if the argument is also read in another way.
        """
        tables = tables_of(program) | {n for made in program.made for n in made.numbers}
        for number in writes:
            accesses = {access for n, access, *_ in recorder.argument_values if n == number}
            if number in tables or len(accesses) > 1:
                raise ShapeError(
                    f"@rowwise {self.name}: '{program.arguments[number].name}' is assigned to, and "
                    "also read across rows (as a table, or by column), while other rows write to "
                    "it. Pass copy(...) of it as another argument for that."
                )

    # ------------------------------------------------------------- running

    def __call__(self, *args: Any) -> Any:
        """Run over all rows. Returns Mats and SparseMats, found again by operands' GUIDs.

        Inside another `@rowwise` function it becomes part of that one.
        """
        leaves, structure = flatten(args)
        if any(isinstance(a, Operand) and not isinstance(a, Lazy | Transposed) for a in leaves):
            return self.function(*args)
        return run(self, leaves, structure)

    def reference(self, *args: Any) -> Any:
        """Run the same code row by row with NumPy and SciPy in float64: the definition.

        args: SciPy sparse arrays, NumPy arrays (written by <<= in place) and numbers, also within
        tuples and frozen dataclasses.
        """
        from ..program.reference import run_rows

        return run_rows(self.function, args)


@overload
def rowwise(function: Callable[..., Any]) -> Rowwise: ...


@overload
def rowwise(*, any_width: bool) -> Callable[[Callable[..., Any]], Rowwise]: ...


def rowwise(function: Callable[..., Any] | None = None, *, any_width: bool = False) -> Any:
    """Compile a row-local function to one kernel. See `docs/design.md`, section 3.3.

    any_width: whether the CPU compiles it once for rows of all lengths from 24 on, and not for each
        length. That suits functions that take longer to compile than to run, such as scores.
    """
    if function is None:
        return functools.partial(Rowwise, any_width=any_width)
    return Rowwise(function, any_width=any_width)


def run(
    rowwise: Rowwise,
    args: tuple[Any, ...],
    structure: Structure | None = None,
    *,
    key: Hashable = None,
    rows: int | None = None,
    label: str | None = None,
) -> Any:
    """Call a row-wise function with flattened arguments.

    args, structure: see `records.flatten`.
    key: identity of the function in the cache; None: the function itself. The cache keeps that
    alive, so that no other object can take its identity.
    rows: as in `Rowwise.compile`.
    label: of its result.
    """
    args = tuple(current(a) for a in args)
    rows = row_count(args) if rows is None else rows
    given, args = args, tuple(a.of if isinstance(a, Transposed) else a for a in args)
    mats = [a for a in args if isinstance(a, Mat)]
    if not mats:
        raise ShapeError(f"@rowwise {rowwise.name}: no matrix among its arguments.")
    cache = mats[0].cache
    if cache.recording is not None:
        cache.recording.note(rowwise.name, given)
    for mat in mats:
        if mat.cache is not cache:
            raise ShapeError(
                f"@rowwise {rowwise.name} at {source_line()}: {mat.label} belongs to another cache."
            )
    known = (rowwise, structure, rows, *map(signature, given))
    found = cache.programs.get(known)
    new = found is None
    if found is None:
        found = rowwise.compile_leaves(given, structure, rows)
    args = with_made(found.plan.program.made, args)
    mats = [a for a in args if isinstance(a, Mat)]
    if new:
        for argument in found.writes:
            if sum(m.guid == args[argument].guid for m in mats) > 1:
                raise ShapeError(
                    f"@rowwise {rowwise.name} at {source_line()}: '{args[argument].label}' is "
                    "written to, and is passed as another argument too; pass copy(...) of it there."
                )
        check_shapes(found.plan.program, args)
        if cache.enabled:
            cache.programs[known] = found
    sparse = next((a for a in args if isinstance(a, SparseMat)), None)
    patterns = patterns_of(args)
    if len(patterns) > 1 and not cache.reserving:
        _check_beside(rowwise.name, patterns)
    if sparse is not None and found.plan.program.dtype == "float32":
        args = tuple(as_table(a, sparse) if n in found.gathered else a for n, a in enumerate(args))
        mats = [a for a in args if isinstance(a, Mat)]
    transposed = found.plan.program.transposed
    name = ("rowwise", rowwise if key is None else key, structure, transposed)
    identity = (name, *map(key_part, args))

    slots: list[Slot] = []
    for number, value in enumerate(found.plan.program.returns):
        if value.arg < 0:
            title = label or rowwise.name + "()" + ("" if found.single else f"[{number}]")
            place = (*identity, ("result", number))
            dtype = found.plan.program.dtype
            if value.kind is Kind.NNZ:
                pattern = patterns[value.pattern]
                slots.append(values_container(cache, place, pattern, dtype, title))
            elif transposed:
                raise ShapeError(
                    f"@rowwise {rowwise.name} at {source_line()}: a program over X.T visits only "
                    "the columns that occur in the block, so it cannot return a row per column; "
                    "assign to an argument with <<=."
                )
            else:
                slots.append(cache.result(place, (rows, value.length), dtype, title))
    due = [cache.begin(slot) for slot in slots]
    if found.writes or any(due):
        changed = [args[argument] for argument in found.writes]
        for slot in [*slots, *(mat.slot for mat in changed)]:
            slot.written()  # first: should this fail, handles on the old contents are stale
        for mat in changed:
            mat.follow()
        _work(rowwise, cache, found, args, slots, rows, sparse)
        for slot in slots:
            slot.computed_from(*slots_of(mats))
    _note_padding(found, args, slots)
    fresh = iter(slots)
    results: list[Any] = []
    for argument, value in zip(found.returned, found.plan.program.returns, strict=True):
        if argument >= 0:
            results.append(args[argument])
        elif value.kind is Kind.NNZ:
            assert sparse is not None
            results.append(SparseMat(cache, next(fresh), patterns[value.pattern], sparse.tables))
        else:
            results.append(handle(cache, next(fresh)))
    if not results:
        return None
    return results[0] if found.single else tuple(results)


def _check_beside(name: str, patterns: list[PatternSlot]) -> None:
    """Check that patterns drawn beside another one have the offsets of its present entries."""
    for pattern in patterns:
        like = pattern.beside
        if like is not None and like.version != pattern.beside_version:
            raise StaleValueError(
                f"@rowwise {name} at {source_line()}: {pattern.label} was drawn at {pattern.where} "
                f"beside entries of {like.label}, which were replaced at {like.where}. Draw anew."
            )


def with_made(made: tuple[Made, ...], args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments, and those that are computed from them."""
    for op, parts in made:
        args = (*args, apply(op, *(args[p] if isinstance(p, int) else p for p in parts)).mat())
    return args


def _note_padding(found: Compiled, args: tuple[Any, ...], slots: list[Slot]) -> None:
    """Note the padding of results and assigned arguments."""
    program = found.plan.program
    held = tuple(a.padding if isinstance(a, Mat) else padding.Padding() for a in args)
    own = zip(held, program.arguments, strict=True)
    block = next((p.block for p, a in own if p.block and (a.rowlike or a.form == "sparse")), None)
    if block is None or program.transposed:
        return
    numbers = tuple(p.number if p.block is block else None for p in held)
    known = found.paddings.get(numbers)
    if known is None:
        known = found.paddings[numbers] = padding.of_program(program, numbers)
    for slot, value in zip(slots, (v for v in program.returns if v.arg < 0), strict=True):
        slot.padding = padding.Padding(block, known.get(value.id))
    for value_id, argument in found.rows_written.items():
        args[argument].slot.padding = padding.Padding(block, known.get(value_id))


def current(arg: Any) -> Any:
    """Return an argument as a Mat, or as X.T of a sparse Mat, unless it is stale."""
    if isinstance(arg, Transposed) and arg.of.pattern is not None:
        return Transposed(arg.of.mat())
    return arg.mat() if isinstance(arg, Lazy | Transposed) else arg


def values_container(
    cache: MatCache, key: tuple[Hashable, ...], pattern: PatternSlot, dtype: Any, label: str
) -> Slot:
    """Return a container for values on a pattern, which grows with it."""
    slot = cache.result(key, (1, pattern.capacity), dtype, label)
    if cache.enabled:
        pattern.dependents.setdefault(slot.guid, slot)
    return slot


def _work(
    rowwise: Rowwise,
    cache: MatCache,
    found: Compiled,
    args: tuple[Any, ...],
    slots: list[Slot],
    rows: int,
    sparse: SparseMat | None,
) -> None:
    """Run the kernel over all rows; while memory is being planned, reserve memory."""
    pattern = None if sparse is None else sparse.pattern
    transposed = pattern is not None and bool(found.plan.program.transposed)
    if pattern is not None and transposed:
        turned(cache, pattern)
    counts: dict[int, float] = {}
    if not cache.reserving:
        counts = _rounds(rowwise, found, args)
    launch(cache, "rowwise", found, args, slots, rows, pattern)
    if not cache.reserving:
        per_entry, per_row = found.flops_each(counts)
        if transposed:
            cache.count(0, pattern, per_entry, per_row)
        else:
            cache.count(per_row * rows, pattern, per_entry)


def _rounds(rowwise: Rowwise, found: Compiled, args: tuple[Any, ...]) -> dict[int, float]:
    """Return the values of arguments that are loop counts, by argument number.

    Raises ShapeError if a loop that must run at least once has a smaller count.
    """
    counts = {n: float(args[n]) for n in found.counts}
    for loop in found.must_run:
        if isinstance(loop.count, Value) and loop.count.access is not Access.NUMBER:
            raise ShapeError(
                f"@rowwise {rowwise.name} at {source_line()}: repeat(n): n differs from row to row "
                "and may be 0, but a value made in the loop is used after it. Make it before the "
                "loop and assign to it with <<=."
            )
        rounds = loop.count if isinstance(loop.count, int) else counts[loop.count.arg]
        if not rounds >= 1:
            raise ShapeError(
                f"@rowwise {rowwise.name} at {source_line()}: repeat({rounds:g}): must be at "
                "least 1, because a value made in the loop is used after it."
            )
    return counts
