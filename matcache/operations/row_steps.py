"""Step rows one after another: each row reads what earlier rows have written.

Stochastic gradient methods that take one example at a time use this operation. Traced functions
define the residuals of a row's scores and the step of a table's entry. So every link, rule and
penalty that can be written for a block works here too. Rows are sequential: it runs on one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..containers.expressions import result_dtype
from ..containers.launching import launch
from ..containers.lazy import Lazy
from ..containers.matrices import Mat, SparseMat
from ..containers.slots import Slot
from ..errors import ShapeError, source_line
from ..notation.elementwise import ELEMENTWISE
from ..program.instructions import Apply, Argument, Program
from ..program.recorder import Recorder, recorder_in_use
from ..program.records import Structure, flatten
from ..program.row_steps_plan import SIGNALS, EntryProgram, RowStepsPlan
from ..program.trace import Traced
from ..program.traffic import flops
from .arguments import is_static, signature
from .rowwise import Rowwise


@dataclass(frozen=True)
class Moment:
    """The numbers of a row for a function that moves entries, as operands.

    gradient: x r, the row's value at the entry's feature times its residual at the entry's column.
    rate: shared by all rows.
    weight: of the row.
    clock: after this row; in `wake`, before it.
    elapsed: what the clock gained since the entry last moved, without this row.
    """

    gradient: Any
    rate: Any
    weight: Any
    clock: Any
    elapsed: Any


Move = Callable[[Moment, tuple[Any, ...], tuple[Any, ...]], None]
"""What a row step does to the entries of a row: a function of model code."""


@dataclass(frozen=True, eq=False)
class Entries:
    """The tables whose entries move, and the function that moves them.

    move: `move(moment, entries, numbers)` assigns to the entries.
    tables: Mats [n x k], the parameter first, or [n x 1], one number for all columns of a row.
    numbers: Mats [1 x k] or [1 x 1].
    wake: brings an entry up to date before it is read.

    A table or number may be None; the functions then receive None in its place.
    """

    tables: tuple[Mat | None, ...]
    numbers: tuple[Mat | None, ...]
    move: Move
    wake: Move | None = None

    @cached_property
    def mats(self) -> list[Mat]:
        """Return all Mats that are not None, the parameter first."""
        return [mat for mat in (*self.tables, *self.numbers) if mat is not None]

    @cached_property
    def key(self) -> tuple[Hashable, ...]:
        """Return what a compiled program depends on."""
        every = (*self.tables, *self.numbers)
        return (self.move, self.wake, *(None if mat is None else mat.guid for mat in every))


def row_steps(
    X: SparseMat,
    residual: Rowwise,
    arguments: Sequence[Any],
    entries: Entries,
    bias: Entries | None = None,
    *,
    weights: Mat,
    rate: Mat,
    pace: Mat,
    clock: Mat,
    seen: Mat | None = None,
) -> Mat:
    """Step all rows of X in order, in place; return their residuals [rows x k].

    Those of ignored rows are left from earlier blocks.

    X: sparse [rows x columns].
    residual: row-wise function; `residual(scores, *arguments)` gives a row's residuals [k].
    arguments: Mats with one row, or a row for each row of X; numbers; and records of these.
    entries: tables with a row for each column of X.
    bias: tables of one row, which act as a column of X whose values are all 1.
    weights: [rows x 1]. A row of weight 0 is ignored.
    rate: 1 x 1.
    pace: 1 x 1. A row adds weight * pace to the clock.
    clock: float64 1 x 1.
    seen: float64 [columns x 1], the clock at the last move of each column's entries.

    A row's scores [k] are its product with the first table of `entries`, and give its residuals.
    Then every entry at its non-zeros moves, and every entry of `bias`.
    """
    cache, where = X.cache, source_line()
    leaves, structure = flatten(tuple(arguments))
    given = [a.mat() if isinstance(a, Lazy) else a for a in leaves]
    fixed = [X.mat(), weights.mat(), rate.mat(), pace.mat(), clock.mat()]
    fixed += [] if seen is None else [seen.mat()]
    known = (row_steps, residual, structure, *entries.key, *(() if bias is None else bias.key))
    known += tuple(map(signature, (*fixed, *given)))
    found: StepsCompiled | None = cache.programs.get(known)
    if found is None:
        found = StepsCompiled.of(X, residual, given, structure, entries, bias, seen is not None)
        if cache.enabled:
            cache.programs[known] = found
    tables = entries.mats if bias is None else entries.mats + bias.mats
    for mat in (*(tables[place] for place in found.written), *fixed[4:]):
        mat.slot.written(where)
        mat.follow()
    launch(cache, "row_steps", found, X, fixed[1:], given, tables)
    found.residuals.written(where)
    per_entry, per_row = found.flops_each
    cache.count(per_row * X.shape[0], X.pattern, per_entry)
    return Mat(cache, found.residuals)


@dataclass(frozen=True, eq=False)
class StepsCompiled:
    """The compiled programs and containers for one signature of a call.

    written: numbers of the tables that change.
    scores, residuals: containers [rows x k].
    scratch: vectors of the residual.
    strips: container of `RowStepsPlan.strips`. A strip is as long as the longest row may be.
    """

    plan: RowStepsPlan
    written: tuple[int, ...]
    scores: Slot
    residuals: Slot
    scratch: Slot
    strips: Slot

    @classmethod
    def of(
        cls,
        X: SparseMat,
        residual: Rowwise,
        given: Sequence[Any],
        structure: Structure | None,
        entries: Entries,
        bias: Entries | None,
        seen: bool,
    ) -> StepsCompiled:
        """Trace all programs. Raises ShapeError if the arguments do not fit together."""
        cache, pattern, parameter = X.cache, X.pattern, entries.mats[0]
        rows, k = X.shape[0], parameter.shape[1]
        dtype = result_dtype([X, parameter])

        def container(name: str, *shape: Any) -> Slot:
            key = ("row steps", name, shape, X.guid, parameter.guid)
            return cache.result(key, shape, dtype, f"{name} (row steps)")

        _check(entries, X.shape[1], k)
        step, wake, constants = _traced(entries, entries.move, "t", dtype.name), None, None
        if entries.wake is not None:
            wake = _traced(entries, entries.wake, "t", dtype.name)
        written = _written(entries, 0, step, wake)
        if bias is not None:
            _check(bias, 1, k)
            constants = _traced(bias, bias.move, "b", dtype.name)
            written += _written(bias, len(entries.mats), constants)
        scores = container("scores", rows, k)
        whole = None if structure is None else (None, *structure)
        program = residual.compile_leaves((Mat(cache, scores), *given), whole, rows).plan
        if program.program.made:
            raise ShapeError(
                f"row_steps at {source_line()}: {residual.name} computes with whole tables. Pass "
                "the result as an argument."
            )
        plan = RowStepsPlan(k, program, step, wake, constants, seen, dtype.name)
        room = max(1, min(pattern.columns, pattern.capacity))
        strips = container("strips", plan.strips(room), room)
        if cache.enabled and pattern.capacity < pattern.columns:
            pattern.dependents.setdefault(strips.guid, strips)  # grows with the capacity of blocks
        vectors = max(1, len(program.vectors)), max(1, program.scratch_length)
        return cls(
            plan,
            written,
            scores,
            container("residuals", rows, k),
            container("scratch", *vectors),
            strips,
        )

    @cached_property
    def flops_each(self) -> tuple[int, int]:
        """Return the operations per non-zero, and per row."""
        plan = self.plan
        wake = 0 if plan.wake is None else _flops(plan.wake)
        bias = 0 if plan.bias is None else _flops(plan.bias)
        per_entry = (3 + wake + _flops(plan.step)) * plan.columns
        return per_entry, flops(plan.residual, {}, 0, 1) + bias * plan.columns


def _traced(entries: Entries, move: Move, prefix: str, dtype: str) -> EntryProgram:
    """Record what `move` does to one entry of each table."""
    arguments = [Argument("mat", name, 1, rows_one=True) for name in SIGNALS]
    for kind, mats in (("entry", entries.tables), ("number", entries.numbers)):
        for n, mat in enumerate(mats):
            form = "static" if mat is None else "mat"
            rowlike = kind == "entry"
            arguments.append(Argument(form, f"{kind} {n}", 1, not rowlike, rowlike))
    recorder = Recorder(tuple(arguments))
    operands = [
        None if argument.form == "static" else Traced(recorder, None, number)
        for number, argument in enumerate(arguments)
    ]
    first, after = len(SIGNALS), len(SIGNALS) + len(entries.tables)
    token = recorder_in_use.set(recorder)
    try:
        move(Moment(*operands[:first]), tuple(operands[first:after]), tuple(operands[after:]))
    finally:
        recorder_in_use.reset(token)
    tables, numbers = (
        tuple(0 if mat is None else mat.shape[1] for mat in mats)
        for mats in (entries.tables, entries.numbers)
    )
    program = Program("move", tuple(arguments), recorder.body, (), dtype)
    return EntryProgram(program, tables, numbers, prefix)


def _check(entries: Entries, n: int, k: int) -> None:
    shapes = [(m, n) for m in entries.tables] + [(m, 1) for m in entries.numbers]
    for mat, rows in shapes:
        if mat is not None and (mat.shape[0] != rows or mat.shape[1] not in (1, k)):
            raise ShapeError(
                f"row_steps at {source_line()}: {mat.label} is {mat.shape[0]} x {mat.shape[1]}; "
                f"expected {rows} x {k}, or one column."
            )


def _written(entries: Entries, first: int, *programs: EntryProgram | None) -> tuple[int, ...]:
    """Return numbers of the Mats that the programs assign to.

    first: number of the first Mat of `entries`.
    """
    places = {place for program in programs if program is not None for place in program.written}
    there = [place for place, mat in enumerate(entries.tables) if mat is not None]
    return tuple(first + n for n, place in enumerate(there) if place in places)


def _flops(entry: EntryProgram) -> int:
    return sum(ELEMENTWISE[i.op].flops for i in entry.program.body if isinstance(i, Apply))


def number_of(arg: Any) -> float:
    """Return the value of a number argument; 0 for a static one, such as a name."""
    return 0.0 if is_static(arg) else float(arg)
