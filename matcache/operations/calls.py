"""Call a row-wise function: find its program and the containers of its results, and run it."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple, Protocol

from ..containers.cache import MatCache
from ..containers.chunks import turned
from ..containers.launching import launch
from ..containers.lazy import Lazy, Transposed
from ..containers.matrices import Mat, SparseMat, handle, slots_of
from ..containers.patterns import values_container
from ..containers.slots import PatternSlot, Slot
from ..errors import ShapeError, StaleValueError, source_line
from ..notation.operand import apply
from ..program import padding
from ..program.instructions import Access, Kind, Made, Program, Value
from ..program.records import Structure
from .arguments import check_shapes, key_part, patterns_of, row_count, signature
from .compiled import Compiled
from .rounding import as_table


class RowFunction(Protocol):
    """A function of rows that can be compiled. It is hashed by its identity."""

    name: str

    def compile_leaves(
        self, args: tuple[Any, ...], structure: Structure | None, rows: int | None = None
    ) -> Compiled:
        """Return the program for these arguments: see `Rowwise`."""


MATRICES = Lazy, Transposed


class Call(NamedTuple):
    """A compiled function and what it is called with.

    sparse: the first sparse argument; its pattern is the first of `patterns`.
    """

    cache: MatCache
    found: Compiled
    args: tuple[Any, ...]
    rows: int
    sparse: SparseMat | None
    patterns: list[PatternSlot]

    @property
    def program(self) -> Program:
        """The program."""
        return self.found.plan.program


def run(
    rowwise: RowFunction,
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
    cache = _cache_of(rowwise, args)
    if cache.recording is not None:
        cache.recording.note(rowwise.name, args)
    call = _prepared(rowwise, cache, args, structure, row_count(args) if rows is None else rows)
    name = ("rowwise", rowwise if key is None else key, structure, call.program.transposed)
    slots = _containers(call, (name, *map(key_part, call.args)), label)
    due = [cache.begin(slot) for slot in slots]
    if call.found.writes or any(due):
        _compute(call, slots)
    _note_padding(call, slots)
    results = _results(call, slots)
    if not results:
        return None
    return results[0] if call.found.single else tuple(results)


def current(arg: Any) -> Any:
    """Return an argument as a Mat, or as X.T of a sparse Mat, unless it is stale."""
    if isinstance(arg, Transposed) and arg.of.pattern is not None:
        return Transposed(arg.of.mat())
    return arg.mat() if isinstance(arg, MATRICES) else arg


def _cache_of(rowwise: RowFunction, args: tuple[Any, ...]) -> MatCache:
    """Return the cache of the matrices among the arguments. Raises ShapeError if it is not one."""
    mats = [a for a in map(_untransposed, args) if isinstance(a, Mat)]
    if not mats:
        raise ShapeError(f"@rowwise {rowwise.name}: no matrix among its arguments.")
    cache = mats[0].cache
    for mat in mats:
        if mat.cache is not cache:
            raise ShapeError(
                f"@rowwise {rowwise.name} at {source_line()}: {mat.label} belongs to another cache."
            )
    return cache


def _untransposed(arg: Any) -> Any:
    return arg.of if isinstance(arg, Transposed) else arg


def _prepared(
    rowwise: RowFunction,
    cache: MatCache,
    given: tuple[Any, ...],
    structure: Structure | None,
    rows: int,
) -> Call:
    """Return the call of the program for these arguments, which is checked when it is new."""
    known = (rowwise, structure, rows, *map(signature, given))
    found = cache.programs.get(known)
    new = found is None
    if found is None:
        found = rowwise.compile_leaves(given, structure, rows)
    program = found.plan.program
    args = with_made(program.made, tuple(map(_untransposed, given)))
    if new:
        _check_written(rowwise, found, args)
        check_shapes(program, args)
        if cache.enabled:
            cache.programs[known] = found
    patterns = patterns_of(args)
    if len(patterns) > 1 and not cache.reserving:
        _check_beside(rowwise.name, patterns)
    sparse = next((a for a in args if isinstance(a, SparseMat)), None)
    if sparse is not None and program.dtype == "float32":
        args = tuple(as_table(a, sparse) if n in found.gathered else a for n, a in enumerate(args))
    return Call(cache, found, args, rows, sparse, patterns)


def with_made(made: tuple[Made, ...], args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments, and those that are computed from them."""
    for op, parts in made:
        args = (*args, apply(op, *(args[p] if isinstance(p, int) else p for p in parts)).mat())
    return args


def _check_written(rowwise: RowFunction, found: Compiled, args: tuple[Any, ...]) -> None:
    """Raise ShapeError if an argument that is written to is passed twice."""
    guids = [a.guid for a in args if isinstance(a, Mat)]
    for argument in found.writes:
        if guids.count(args[argument].guid) > 1:
            raise ShapeError(
                f"@rowwise {rowwise.name} at {source_line()}: '{args[argument].label}' is "
                "written to, and is passed as another argument too; pass copy(...) of it there."
            )


def _check_beside(name: str, patterns: list[PatternSlot]) -> None:
    """Check that patterns drawn beside another one have the offsets of its present entries."""
    for pattern in patterns:
        like = pattern.beside
        if like is not None and like.version != pattern.beside_version:
            raise StaleValueError(
                f"@rowwise {name} at {source_line()}: {pattern.label} was drawn at {pattern.where} "
                f"beside entries of {like.label}, which were replaced at {like.where}. Draw anew."
            )


def _containers(call: Call, identity: tuple[Hashable, ...], label: str | None) -> list[Slot]:
    """Return the containers of the results that are not arguments.

    identity: of the call in the cache.
    """
    program, cache, name = call.program, call.cache, call.program.name
    slots: list[Slot] = []
    for number, value in enumerate(program.returns):
        if value.arg >= 0:
            continue
        title = label or f"{name}()" + ("" if call.found.single else f"[{number}]")
        place = (*identity, ("result", number))
        if value.kind is Kind.NNZ:
            pattern = call.patterns[value.pattern]
            slots.append(values_container(cache, place, pattern, program.dtype, title))
        elif program.transposed:
            raise ShapeError(
                f"@rowwise {name} at {source_line()}: a program over X.T visits only the columns "
                "that occur in the block, so it cannot return a row per column; assign to an "
                "argument with <<=."
            )
        else:
            slots.append(cache.result(place, (call.rows, value.length), program.dtype, title))
    return slots


def _compute(call: Call, slots: list[Slot]) -> None:
    """Run the kernel; what it writes is new from then on."""
    changed = [call.args[argument] for argument in call.found.writes]
    for slot in [*slots, *(mat.slot for mat in changed)]:
        slot.written(call.cache.line)  # first: should this fail, older handles are stale
    for mat in changed:
        mat.follow()
    _launch(call, slots)
    for slot in slots:
        slot.computed_from(*slots_of([a for a in call.args if isinstance(a, Mat)]))


def _launch(call: Call, slots: list[Slot]) -> None:
    """Run the kernel over all rows; while memory is being planned, reserve memory."""
    cache, found = call.cache, call.found
    pattern = None if call.sparse is None else call.sparse.pattern
    transposed = pattern is not None and bool(call.program.transposed)
    if pattern is not None and transposed:
        turned(cache, pattern)
    counts = {} if cache.reserving else _rounds(call)
    launch(cache, "rowwise", found, call.args, slots, call.rows, pattern)
    if not cache.reserving:
        per_entry, per_row = found.flops_each(counts)
        if transposed:
            cache.count(0, pattern, per_entry, per_row)
        else:
            cache.count(per_row * call.rows, pattern, per_entry)


def _rounds(call: Call) -> dict[int, float]:
    """Return the values of arguments that are loop counts, by argument number.

    Raises ShapeError if a loop that must run at least once has a smaller count.
    """
    name, counts = call.program.name, {n: float(call.args[n]) for n in call.found.counts}
    for loop in call.found.must_run:
        if isinstance(loop.count, Value) and loop.count.access is not Access.NUMBER:
            raise ShapeError(
                f"@rowwise {name} at {source_line()}: repeat(n): n differs from row to row "
                "and may be 0, but a value made in the loop is used after it. Make it before the "
                "loop and assign to it with <<=."
            )
        rounds = loop.count if isinstance(loop.count, int) else counts[loop.count.arg]
        if not rounds >= 1:
            raise ShapeError(
                f"@rowwise {name} at {source_line()}: repeat({rounds:g}): must be at "
                "least 1, because a value made in the loop is used after it."
            )
    return counts


def _note_padding(call: Call, slots: list[Slot]) -> None:
    """Note the padding of results and assigned arguments."""
    found, args, program = call.found, call.args, call.program
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


def _results(call: Call, slots: list[Slot]) -> list[Any]:
    """Return what the function returns: handles on the containers, and arguments."""
    fresh = iter(slots)
    results: list[Any] = []
    for argument, value in zip(call.found.returned, call.program.returns, strict=True):
        if argument >= 0:
            results.append(call.args[argument])
        elif value.kind is Kind.NNZ:
            assert call.sparse is not None
            pattern, tables = call.patterns[value.pattern], call.sparse.tables
            results.append(SparseMat(call.cache, next(fresh), pattern, tables))
        else:
            results.append(handle(call.cache, next(fresh)))
    return results
