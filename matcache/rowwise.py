"""`@rowwise`: trace a row-local function once, compile it to one kernel, run it over the rows.

The function is called once with `Traced` arguments; what it does is recorded as a `Program`. A row
sees its own row of the row-shaped arguments, and tables as a whole: row i of every result depends on
row i of the row-shaped arguments only, so rows may run in any order on any thread.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np

from .cache import MatCache
from .cpu import ROW_CHUNKS, compiled
from .elementwise import ELEMENTWISE
from .emit_numba import rowwise_source
from .errors import ShapeError
from .lazy import Lazy, Mat, Scalar, SparseMat
from .operand import Operand, apply
from .program import (
    Access,
    Apply,
    Argument,
    Count,
    Dot,
    Gather,
    Instruction,
    Kind,
    Product,
    Program,
    Reduce,
    Repeat,
    Store,
    Until,
    Value,
    reads,
)
from .schedule import Schedule, flops, schedule
from .slots import PatternSlot, Slot, source_line

_REDUCE = {"rowsum": "sum", "rowmax": "max", "rowmin": "min"}


class Recorder:
    """What is being recorded: instructions, and the stack of open `repeat` bodies."""

    def __init__(self, arguments: tuple[Argument, ...], dtype: str) -> None:
        self.arguments = arguments
        self.dtype = dtype
        self.body: list[Instruction] = []
        self.open = [self.body]
        self.ids = itertools.count()
        self.argument_values: dict[tuple[int, Access, Kind], Value] = {}

    def add(self, instruction: Instruction) -> None:
        """Append to the innermost open body."""
        if self.open[-1] and isinstance(self.open[-1][-1], Until):
            raise ShapeError("@rowwise: until(...) must be the last statement of its repeat.")
        self.open[-1].append(instruction)

    def new(self, kind: Kind, length: int = 1) -> Value:
        """A fresh value."""
        return Value(next(self.ids), kind, length)

    def argument(self, number: int, access: Access, kind: Kind, length: int = 1) -> Value:
        """The one value that stands for an argument read in this way."""
        key = (number, access, kind)
        if key not in self.argument_values:
            value = Value(next(self.ids), kind, length, number, access)
            self.argument_values[key] = value
        return self.argument_values[key]


_recorder: ContextVar[Recorder | None] = ContextVar("recorder", default=None)


class Traced(Operand):
    """A value, or an argument whose use decides what it is, inside a function being traced."""

    def __init__(self, recorder: Recorder, value: Value | None, argument: int = -1) -> None:
        self.recorder = recorder
        self.value = value
        self.argument = argument

    # ------------------------------------------------------------- what an argument is

    def described(self) -> str:
        """Name for messages."""
        return f"'{self.recorder.arguments[self.argument].name}'" if self.argument >= 0 else "a value"

    def as_value(self, target: Kind | None = None) -> Value:
        """This operand as a value; `target` is the kind of the others in the same operation."""
        if self.value is not None:
            return self.value
        argument = self.recorder.arguments[self.argument]
        if argument.rows_one and argument.columns == 1:
            return self.recorder.argument(self.argument, Access.NUMBER, Kind.UNI)
        if argument.rowlike:
            kind = Kind.ROW if argument.columns == 1 else Kind.VEC
            return self.recorder.argument(self.argument, Access.ROWS, kind, argument.columns)
        if argument.rows_one and target is Kind.NNZ:
            return self.recorder.argument(self.argument, Access.COLUMN, Kind.NNZ)
        if argument.rows_one:
            return self.recorder.argument(
                self.argument, Access.SHARED, Kind.VEC, argument.columns
            )
        raise ShapeError(
            f"@rowwise: {self.described()} is used element by element, but has neither one row per "
            "row of the block nor a single row. A table can be used in sddmm(rows, table, pattern), "
            "in sparse @ table and in rows @ matrix."
        )

    def kind(self) -> Kind | None:
        """Kind, or None for an argument that adapts (1 x n)."""
        if self.value is not None:
            return self.value.kind
        argument = self.recorder.arguments[self.argument]
        if argument.rows_one and argument.columns == 1:
            return Kind.UNI
        return None if argument.rows_one and not argument.rowlike else self.as_value().kind

    def table(self, what: str) -> int:
        """The number of the argument that is used as a table."""
        if self.argument < 0 or self.recorder.arguments[self.argument].form != "mat":
            raise ShapeError(
                f"@rowwise: {what} needs a whole matrix, an argument of the function, as its table; "
                f"got {self.described()} computed inside it, of which each row has only its own."
            )
        return self.argument

    # ------------------------------------------------------------- operations

    def _apply(self, op: str, args: tuple[Any, ...]) -> Traced:
        recorder = self.recorder
        for arg in args:
            if isinstance(arg, Operand) and not isinstance(arg, Traced):
                raise ShapeError(
                    f"@rowwise: {op} mixes an argument with {arg!r} from outside the function; pass "
                    "it as an argument."
                )
        if op in ELEMENTWISE:
            return self._elementwise(op, args)
        out: Value
        if op == "sddmm":
            vec, table, pattern = args
            vector = vec.as_value(Kind.VEC)
            self._expect(
                vector.kind in (Kind.VEC, Kind.ROW), op, "its first argument must be row vectors"
            )
            self._expect(pattern.kind() is Kind.NNZ, op, "its third argument must be sparse")
            number = table.table(op)
            self._same_length(op, vector.length, recorder.arguments[number].columns)
            out = recorder.new(Kind.NNZ)
            if vector.kind is Kind.ROW:  # vectors of one number
                entries = recorder.argument(number, Access.ENTRY, Kind.NNZ)
                recorder.add(Apply(out, "mul", (vector, entries)))
            else:
                recorder.add(Dot(out, vector, number))
        elif op == "matmul":
            left, table = args
            number = table.table("@")
            columns = recorder.arguments[number].columns
            value = left.as_value(Kind.VEC)
            self._expect(value.kind is not Kind.UNI, "@", "its left side must be sparse or vectors")
            out = self._product(value, number, columns)
        elif op in _REDUCE:
            source = args[0].as_value(Kind.VEC)
            out = recorder.new(Kind.ROW)
            if source.kind in (Kind.VEC, Kind.NNZ):
                recorder.add(Reduce(out, _REDUCE[op], source))
            else:  # a vector of one number
                recorder.add(Apply(out, "copy", (source,)))
        elif op == "rownnz":
            out = recorder.new(Kind.ROW)
            recorder.add(Count(out))
        else:
            raise ShapeError(
                f"@rowwise: '{op}' is not row-local: its result for a row depends on other rows. "
                "Compute it outside the function."
            )
        return Traced(recorder, out)

    def _product(self, value: Value, matrix: int, columns: int) -> Value:
        """value @ matrix, where vectors of one number are numbers."""
        recorder = self.recorder
        out = recorder.new(Kind.VEC if columns > 1 else Kind.ROW, columns)
        if value.kind is Kind.ROW:
            row = recorder.argument(matrix, Access.SHARED, Kind.VEC, columns)
            if columns == 1:
                row = recorder.argument(matrix, Access.NUMBER, Kind.UNI)
            recorder.add(Apply(out, "mul", (value, row)))
        elif columns == 1:
            entries = recorder.argument(matrix, Access.ENTRY, value.kind, value.length)
            terms = recorder.new(value.kind, value.length)
            recorder.add(Apply(terms, "mul", (value, entries)))
            recorder.add(Reduce(out, "sum", terms))
        elif value.kind is Kind.NNZ:
            recorder.add(Gather(out, value, matrix))
        else:
            recorder.add(Product(out, value, matrix))
        return out

    def _elementwise(self, op: str, args: tuple[Any, ...]) -> Traced:
        kinds = [a.kind() for a in args if isinstance(a, Traced)]
        known = [k for k in kinds if k is not None]
        target = max(known, key=lambda k: k.value) if known else Kind.VEC
        if None in kinds and target in (Kind.ROW, Kind.UNI):
            target = Kind.VEC
        if Kind.NNZ in known and Kind.VEC in known:
            raise ShapeError(
                f"@rowwise: {op} mixes a value per non-zero with a row vector; use sddmm to bring "
                "vectors to the non-zeros, or sparse @ table for the other way."
            )
        values = tuple(a.as_value(target) if isinstance(a, Traced) else float(a) for a in args)
        lengths = {v.length for v in values if isinstance(v, Value) and v.kind is Kind.VEC}
        if len(lengths) > 1:
            raise ShapeError(f"@rowwise: {op} of row vectors of lengths {sorted(lengths)}.")
        kind = Kind.ROW if target is Kind.UNI else target
        out = self.recorder.new(kind, lengths.pop() if lengths else 1)
        self.recorder.add(Apply(out, op, values))
        return Traced(self.recorder, out)

    def _assign(self, value: Any) -> None:
        target = self.as_value()
        if target.access not in (None, Access.ROWS, Access.VALUES):
            raise ShapeError(
                f"@rowwise: <<= to {self.described()}, which all rows share; a row may write only to "
                "its own row."
            )
        if isinstance(value, Traced):
            source: Value | float = value.as_value(target.kind)
            assert isinstance(source, Value)
            if source.kind.value > target.kind.value or (
                source.kind is Kind.VEC and source.length != target.length
            ):
                raise ShapeError(
                    f"@rowwise: <<= of a {source.kind.name} value of length {source.length} into a "
                    f"{target.kind.name} of length {target.length}."
                )
        else:
            source = float(value)
        target.mutable = True
        self.recorder.add(Store(target, source))

    def _expect(self, condition: bool, op: str, rule: str) -> None:
        if not condition:
            raise ShapeError(f"@rowwise: {op}: {rule}.")

    def _same_length(self, op: str, vector: int, table: int) -> None:
        if vector != table:
            raise ShapeError(
                f"@rowwise: {op}: row vectors have {vector} numbers, the table's rows have {table}."
            )


class EagerLoop:
    """State of a `repeat` that runs for real (in the reference): whether `until` was reached."""

    def __init__(self) -> None:
        self.stop = False


eager_loop: ContextVar[EagerLoop | None] = ContextVar("eager_loop", default=None)


def repeat(count: Any) -> Iterator[None]:
    """A loop of `count` rounds inside a `@rowwise` function, compiled as a loop.

    count: an int, or an argument of the function (a number or a 1 x 1 Mat), the same for all rows.
    """
    recorder = _recorder.get()
    if recorder is None:
        loop = eager_loop.get()
        for _ in range(int(count)):
            yield None
            if loop is not None and loop.stop:
                loop.stop = False
                return
        return
    times = count.as_value() if isinstance(count, Traced) else int(count)
    if isinstance(times, Value) and times.access is not Access.NUMBER:
        raise ShapeError("@rowwise: repeat(n): n must be an int or an argument that is one number.")
    body: list[Instruction] = []
    recorder.open.append(body)
    yield None
    recorder.open.pop()
    recorder.add(Repeat(times, body))


def until(condition: Any) -> None:
    """End the innermost `repeat` for this row when the condition, one number per row, is not zero.

    It must be the last statement of the loop.
    """
    recorder = _recorder.get()
    if recorder is None:
        loop = eager_loop.get()
        if loop is None:
            raise ShapeError("until(...) belongs inside a @rowwise function.")
        loop.stop = bool(float(condition))
        return
    value = condition.as_value()
    if value.kind is not Kind.ROW or len(recorder.open) < 2:
        raise ShapeError("@rowwise: until(c) needs one number per row, inside a repeat.")
    recorder.add(Until(value))


@dataclass(eq=False)
class Compiled:
    """A traced and scheduled function for one signature."""

    plan: Schedule
    single: bool  # returned one value, not a tuple
    returned: tuple[int, ...]  # argument number for a returned argument, else -1
    writes: tuple[int, ...]  # arguments that the function assigns to

    @functools.cached_property
    def kernel(self) -> Callable[..., None]:
        """The compiled CPU kernel."""
        return compiled(rowwise_source(self.plan))


class Rowwise:
    """A function of rows. Call it with Mats; `reference` runs the same text with NumPy in float64."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.name = function.__name__
        self._compiled: dict[Any, Compiled] = {}
        functools.update_wrapper(self, function)

    # ------------------------------------------------------------- tracing

    def compile(self, *args: Any) -> Compiled:
        """The program for arguments of these shapes; traced at the first call only."""
        arguments, dtype = describe(self.function, args)
        statics = tuple(a for a in args if _static(a))
        key = (arguments, dtype, statics)
        found = self._compiled.get(key)
        if found is None:
            found = self._compiled[key] = self._trace(arguments, dtype, args)
        return found

    def _trace(self, arguments: tuple[Argument, ...], dtype: str, args: tuple[Any, ...]) -> Compiled:
        recorder = Recorder(arguments, dtype)
        inputs: list[Any] = []
        for number, (argument, arg) in enumerate(zip(arguments, args, strict=True)):
            if argument.form == "static":
                inputs.append(arg)
            elif argument.form == "sparse":
                value = recorder.argument(number, Access.VALUES, Kind.NNZ)
                inputs.append(Traced(recorder, value, number))
            elif argument.form == "number":
                value = recorder.argument(number, Access.NUMBER, Kind.UNI)
                inputs.append(Traced(recorder, value, number))
            else:
                inputs.append(Traced(recorder, None, number))
        token = _recorder.set(recorder)
        try:
            result = self.function(*inputs)
        finally:
            _recorder.reset(token)
        single = not isinstance(result, tuple)
        results = () if result is None else ((result,) if single else result)
        if not all(isinstance(r, Traced) for r in results):
            raise ShapeError(f"@rowwise {self.name}: returns {result!r}; return values it computed.")
        values = tuple(r.as_value() for r in results)
        program = Program(self.name, arguments, recorder.body, values, dtype)
        plan = schedule(program)
        written = {v.arg for v in recorder.argument_values.values() if v.mutable}
        returned = tuple(r.argument if r.as_value().arg >= 0 else -1 for r in results)
        return Compiled(plan, single, returned, tuple(sorted(written)))

    # ------------------------------------------------------------- running

    def __call__(self, *args: Any) -> Any:
        """Run over all rows. Returns Mats and SparseMats, found again by the operands' GUIDs."""
        return run(self, args)

    def reference(self, *args: Any) -> Any:
        """The same text, row by row, with NumPy and SciPy in float64: the definition.

        args: SciPy sparse arrays, NumPy arrays (written by <<= in place) and numbers.
        """
        from .reference import run_rows

        return run_rows(self.function, args)


def rowwise(function: Callable[..., Any]) -> Rowwise:
    """Compile a row-local function to one kernel. See `docs/design.md`, section 3.3."""
    return Rowwise(function)


def _static(arg: Any) -> bool:
    return arg is None or isinstance(arg, bool | str)


def describe(function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[tuple[Argument, ...], str]:
    """What the compiler must know of the arguments."""
    code = getattr(function, "__code__", None)
    names = code.co_varnames if code is not None else ()
    rows = next((a.shape[0] for a in args if isinstance(a, SparseMat)), None)
    if rows is None:
        rows = next((a.shape[0] for a in args if isinstance(a, Lazy)), 0)
    patterns: list[int] = []
    dtype = "float32"
    found: list[Argument] = []
    for number, arg in enumerate(args):
        name = names[number] if number < len(names) else f"argument {number}"
        if _static(arg):
            found.append(Argument("static", name))
            continue
        if not isinstance(arg, Lazy):
            float(arg)
            found.append(Argument("number", name))
            continue
        if arg.dtype == np.float64 and arg.shape != (1, 1):
            dtype = "float64"
        if arg.pattern is not None:
            if arg.pattern.guid not in patterns:
                patterns.append(arg.pattern.guid)
            found.append(Argument("sparse", name, pattern=patterns.index(arg.pattern.guid)))
        else:
            one = arg.shape[0] == 1
            found.append(Argument("mat", name, arg.shape[1], one, arg.shape[0] == rows))
    if len(patterns) > 1:
        raise ShapeError(
            f"@rowwise: {len(patterns)} sparse arguments with different patterns of non-zeros; they "
            "must share one (results of operations on one sparse matrix do)."
        )
    return tuple(found), dtype


def run(rowwise: Rowwise, args: tuple[Any, ...], key: Any = None) -> Any:
    """Call a row-wise function. key: its identity in the cache, by default the function itself."""
    args = tuple(a.mat() if isinstance(a, Lazy) else a for a in args)
    mats = [a for a in args if isinstance(a, Mat)]
    if not mats:
        raise ShapeError(f"@rowwise {rowwise.name}: no matrix among its arguments.")
    cache = mats[0].cache
    for mat in mats:
        if mat.cache is not cache:
            raise ShapeError(f"@rowwise {rowwise.name}: {mat.label} belongs to another cache.")
    found = rowwise.compile(*args)
    for argument in found.writes:
        if sum(m.guid == args[argument].guid for m in mats) > 1:
            raise ShapeError(
                f"@rowwise {rowwise.name}: '{args[argument].label}' is written to, and is passed as "
                "another argument too; pass copy(...) of it there."
            )
    sparse = next((a for a in args if isinstance(a, SparseMat)), None)
    rows = sparse.shape[0] if sparse is not None else mats[0].shape[0]
    name = ("rowwise", key if key is not None else id(rowwise))
    identity = (name, *(a.guid if isinstance(a, Mat) else a for a in args))
    _check_tables(rowwise, found, args)

    slots: list[Slot] = []
    results: list[Mat] = []
    for number, value in enumerate(found.plan.program.returns):
        if value.arg >= 0:
            continue
        label = f"{rowwise.name}()" if found.single else f"{rowwise.name}()[{number}]"
        slots.append(_container(cache, (*identity, number), value, rows, sparse, found, label))
    compute = not slots or bool(found.writes)
    for slot in slots:
        compute = cache.begin(slot) or compute
    if compute:
        _launch(cache, found, args, slots, rows, sparse, identity)
        for argument in found.writes:
            mat = args[argument]
            mat.slot.written()
            mat.version, mat.where = mat.slot.version, mat.slot.where
        inputs = tuple((m.slot, m.slot.version) for m in mats)
        if sparse is not None:
            inputs += ((sparse.pattern, sparse.pattern.version),)
        for slot in slots:
            slot.written()
            slot.inputs, slot.computed = inputs, slot.version
    fresh = iter(slots)
    for argument, value in zip(found.returned, found.plan.program.returns, strict=True):
        if argument >= 0:
            results.append(args[argument])
            continue
        slot = next(fresh)
        if value.kind is Kind.NNZ:
            assert sparse is not None
            results.append(SparseMat(cache, slot, sparse.pattern))
        else:
            results.append(Scalar(cache, slot) if slot.shape == (1, 1) else Mat(cache, slot))
    if not results:
        return None
    return results[0] if found.single else tuple(results)


def _container(
    cache: MatCache,
    key: Any,
    value: Value,
    rows: int,
    sparse: SparseMat | None,
    found: Compiled,
    label: str,
) -> Slot:
    dtype = found.plan.program.dtype
    if value.kind is not Kind.NNZ:
        return cache.result(key, (rows, value.length), dtype, label)
    assert sparse is not None
    return values_container(cache, key, sparse.pattern, dtype, label)


def values_container(
    cache: MatCache, key: Any, pattern: PatternSlot, dtype: Any, label: str
) -> Slot:
    """A container for values on a pattern, which grows with it."""
    slot = cache.result(key, (1, pattern.capacity), dtype, label)
    if not any(s is slot for s in pattern.dependents):
        pattern.dependents.append(slot)
    return slot


def _check_tables(rowwise: Rowwise, found: Compiled, args: tuple[Any, ...]) -> None:
    """Tables must have a row for each column of the sparse argument."""
    sparse = next((a for a in args if isinstance(a, SparseMat)), None)

    def visit(body: list[Instruction]) -> None:
        for instruction in body:
            match instruction:
                case Repeat():
                    visit(instruction.body)
                case Dot() | Gather():
                    assert sparse is not None
                    expect(instruction.table, sparse.shape[1], "columns of the sparse argument")
                case Product():
                    expect(instruction.matrix, instruction.vec.length, "numbers of the row vectors")
                case Apply():
                    for value in reads(instruction):
                        if value.access is Access.ENTRY and value.kind is Kind.VEC:
                            expect(value.arg, value.length, "numbers of the row vectors")
                        elif value.access in (Access.ENTRY, Access.COLUMN):
                            assert sparse is not None
                            side = 0 if value.access is Access.ENTRY else 1
                            expect(value.arg, sparse.shape[1], "columns of the sparse argument", side)

    def expect(argument: int, rows: int, what: str, side: int = 0) -> None:
        if args[argument].shape[side] != rows:
            raise ShapeError(
                f"@rowwise {rowwise.name}: the table '{found.plan.program.arguments[argument].name}'"
                f" is {args[argument].shape}, but there are {rows} {what}. A table has one row per "
                "column of the data."
            )

    visit(found.plan.program.body)
    for value in found.plan.program.returns:
        if value.kind is Kind.NNZ and sparse is None:
            raise ShapeError(f"@rowwise {rowwise.name}: returns non-zeros without a sparse argument.")


def _launch(
    cache: MatCache,
    found: Compiled,
    args: tuple[Any, ...],
    slots: list[Slot],
    rows: int,
    sparse: SparseMat | None,
    identity: Any,
) -> None:
    """Run the kernel over all rows (only shapes, while memory is being planned)."""
    plan, backend = found.plan, cache.backend
    dtype = plan.program.dtype
    hidden = [
        values_container(cache, (*identity, "hidden", n), sparse.pattern, dtype, "non-zeros")
        for n, _ in enumerate(plan.hidden)
        if sparse is not None
    ]
    vectors, length = max(1, len(plan.vectors)), max(1, plan.scratch_length)
    scratch = cache.result(
        ("scratch", vectors, length, dtype),
        (backend.threads * vectors, -(-length // 16) * 16),
        dtype,
        "scratch rows of threads",
    )
    bounds = row_bounds(cache, rows, None if sparse is None else sparse.pattern)
    kernel = found.kernel
    if cache.reserving:
        return
    call: list[Any] = [bounds]
    if sparse is not None:
        call += [sparse.pattern.indptr, sparse.pattern.indices]
    numbers: dict[int, float] = {}
    for number, arg in enumerate(args):
        if isinstance(arg, SparseMat):
            assert arg.slot.array is not None
            call.append(arg.slot.array[0])
        elif isinstance(arg, Mat):
            call.append(arg.slot.array)
            if arg.shape == (1, 1) and arg.slot.array is not None:
                numbers[number] = float(arg.slot.array[0, 0])
        else:
            call.append(0.0 if _static(arg) else float(arg))
            numbers[number] = call[-1]
    call += [_flat_values(slot, v) for slot, v in zip(slots, _new(plan.program), strict=True)]
    call += [slot.array[0] for slot in hidden if slot.array is not None]
    assert scratch.array is not None
    call.append(scratch.array.reshape(backend.threads, vectors, -1))
    backend.run(kernel, len(bounds) - 1, *call)
    cache.flops += flops(plan, numbers, 0 if sparse is None else sparse.nnz, rows)


def _new(program: Program) -> list[Value]:
    return [v for v in program.returns if v.arg < 0]


def _flat_values(slot: Slot, value: Value) -> Any:
    assert slot.array is not None
    return slot.array[0] if value.kind is Kind.NNZ else slot.array


def row_bounds(cache: MatCache, rows: int, pattern: PatternSlot | None) -> np.ndarray[Any, Any]:
    """Chunks of rows of about equal work."""
    chunks = max(1, min(ROW_CHUNKS, rows // 8))
    if pattern is None:
        from .fused import even_bounds

        return even_bounds(cache, rows, chunks)
    slot = cache.result(
        ("row bounds", pattern.guid), (1, chunks + 1), np.int64, "bounds of row chunks"
    )
    if slot.array is None:
        return np.empty(0, np.int64)
    if slot.computed != pattern.version:
        cache.backend.kernels["balance"](pattern.indptr, rows, slot.array[0])
        slot.computed = pattern.version
    return slot.array[0]


__all__ = ["Rowwise", "Traced", "apply", "repeat", "rowwise", "until"]
