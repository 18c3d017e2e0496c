"""`@rowwise`: trace a row-local function once, compile it, run it over the rows.

Row i of every result depends only on row i of the row-shaped arguments and on whole tables. So rows
may run in any order on any thread.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import Any, overload

from ..containers.lazy import Lazy, Transposed
from ..errors import ShapeError, source_line
from ..notation.operand import Operand
from ..program.instructions import (
    Access,
    Apply,
    Argument,
    Kind,
    Program,
    Value,
    loops_that_must_run,
    tables_of,
    without_unused,
)
from ..program.recorder import Recorder, recorder_in_use
from ..program.records import Structure, flatten, rebuild
from ..program.schedule import schedule
from ..program.trace import Traced
from .arguments import describe, is_static, row_count
from .calls import run
from .compiled import Compiled


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
    """Compile a row-local function to one kernel. See `docs/design.md`, section 3.4.

    any_width: whether the CPU compiles it once for rows of all lengths from 24 on, and not for each
        length. That suits functions that take longer to compile than to run, such as scores.
    """
    if function is None:
        return functools.partial(Rowwise, any_width=any_width)
    return Rowwise(function, any_width=any_width)
