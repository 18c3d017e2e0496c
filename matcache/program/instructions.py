"""Programs as data: recorded by `@rowwise` or made of an expression, then scheduled and printed.

A program computes one row at a time. Its values are of four kinds: one number per non-zero of the
row (NNZ), a row vector (VEC), one number per row (ROW), one number for all rows (UNI).

Longer than 300 lines: the language of programs is described in one place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal, NamedTuple

Ending = Literal["assign", "total", "colsum", "colmax"]  # what becomes of the rows of an expression

WIDTH = -1  # the length of a vector as wide as the result; known when the program runs


class Kind(Enum):
    """How many numbers a value has in one row."""

    UNI = 0
    ROW = 1
    VEC = 2
    NNZ = 3


class Access(Enum):
    """How an argument's array is read."""

    ROWS = "rows"  # a[i, k]: a vector per row, or a number per row where it has one column
    SHARED = "shared"  # a[0, k]: the same vector for every row
    COLUMN = "column"  # a[0, c]: one number per column of the sparse argument
    ENTRY = "entry"  # a[c, 0] or a[k, 0]: a table of one column, by non-zero or by vector index
    VALUES = "values"  # the values of a sparse argument
    NUMBER = "number"  # one number for all rows: a Python number or a 1 x 1 Mat
    PLACE = "place"  # no array: the number of an element in its vector, or a non-zero's column
    RANDOM = "random"  # no array of numbers: uniform ones by counter, with the key in a


@dataclass(eq=False)
class Value:
    """One intermediate result, or an argument read as a value.

    For an argument, `arg` and `access` are set. What is one number per non-zero belongs to the
    non-zeros of one pattern: those of its leftmost sparse operand.
    """

    id: int
    kind: Kind
    length: int = 1
    arg: int = -1
    access: Access | None = None
    mutable: bool = False  # some `<<=` writes to it
    pattern: int = 0  # number of the pattern whose columns its non-zeros have


@dataclass(eq=False)
class Apply:
    """out = op(args), element by element."""

    out: Value
    op: str
    args: tuple[Value | float, ...]


@dataclass(eq=False)
class Dot:
    """out[j] = vec . table[column[j]] for the non-zeros j of the row (sddmm)."""

    out: Value
    vec: Value
    table: int


@dataclass(eq=False)
class Gather:
    """out = sum over the row's non-zeros j of weight[j] * table[column[j]].

    This is a sparse row times a table. out is a vector, or a number if the table has one column.
    """

    out: Value
    weight: Value
    table: int


@dataclass(eq=False)
class Product:
    """out = vec @ matrix, with a dense matrix argument [vec.length x out.length]."""

    out: Value
    vec: Value
    matrix: int


@dataclass(eq=False)
class Reduce:
    """out = sum, max or min of a vector or of the non-zeros of the row."""

    out: Value
    op: str
    source: Value


@dataclass(eq=False)
class Count:
    """out = number of non-zeros of the row."""

    out: Value


@dataclass(eq=False)
class Store:
    """target <<= value."""

    target: Value
    value: Value | float


@dataclass(eq=False)
class Repeat:
    """Run the body `count` times, or until its `Until` ends it.

    count: a number, an argument that is one number, or a number of the row.
    """

    count: Value | int
    body: list[Instruction] = field(default_factory=list)


@dataclass(eq=False)
class Until:
    """Leave the innermost `Repeat` for this row when the condition is not zero."""

    condition: Value


Instruction = Apply | Dot | Gather | Product | Reduce | Count | Store | Repeat | Until


@dataclass(frozen=True)
class Argument:
    """What the compiler knows of an argument, as part of the key of the program.

    form: "sparse", "mat", "number" or "static".
    columns: of a mat; WIDTH if it has as many as the result.
    rows_one: whether a mat has one row.
    rowlike: whether a mat has as many rows as the program.
    local: whether it has rows for the columns that occur only, see `operations/local.py`.
    pattern: number of its pattern among the program's sparse arguments.
    transposed: bytes of a position if the argument was passed as X.T, else 0. The program then runs
    over the columns of X that occur, and finds their non-zeros through positions.
    stream: of the random numbers that a key stands for.
    """

    form: str
    name: str
    columns: int = 0
    rows_one: bool = False
    rowlike: bool = False
    local: bool = False
    pattern: int = -1
    transposed: int = 0
    stream: int = 0


class Made(NamedTuple):
    """An argument that is computed from others before the program runs.

    parts: numbers of arguments (int), and numbers (float).
    """

    op: str
    parts: tuple[int | float, ...]

    @property
    def numbers(self) -> list[int]:
        """The numbers of the arguments that it is made of."""
        return [part for part in self.parts if isinstance(part, int)]


@dataclass(eq=False)
class Program:
    """A function of a row: arguments, instructions in order, and returned values.

    dtype: "float32" or "float64".
    endings: what becomes of the rows of each value that an expression returns: they are assigned,
    added up, all their numbers are added up, or the largest of each column is kept. Programs of
    rows have none: they assign.
    made: the last arguments, which are computed from others.
    in_place: pairs (argument, result) of an expression that are one array.
    any_width: whether one kernel of the CPU may serve rows of all lengths from some on.
    """

    name: str
    arguments: tuple[Argument, ...]
    body: list[Instruction]
    returns: tuple[Value, ...]
    dtype: str
    endings: tuple[Ending, ...] = ()
    made: tuple[Made, ...] = ()
    in_place: tuple[tuple[int, int], ...] = ()
    any_width: bool = False

    @property
    def whole(self) -> bool:
        """Whether it is an expression, whose row is as wide as the result."""
        return any(value.length == WIDTH for value in self.returns)

    @property
    def by_column(self) -> bool:
        """Whether an ending makes one number of each column."""
        return "colsum" in self.endings or "colmax" in self.endings

    @property
    def transposed(self) -> int:
        """The bytes of a position if the program runs over columns of X, or 0."""
        return max((a.transposed for a in self.arguments), default=0)


def reads(instruction: Instruction) -> list[Value]:
    """Return the values that an instruction reads itself, not those of a loop's body."""
    match instruction:
        case Apply():
            return [a for a in instruction.args if isinstance(a, Value)]
        case Dot() | Product():
            return [instruction.vec]
        case Gather():
            return [instruction.weight]
        case Reduce():
            return [instruction.source]
        case Store():
            return [instruction.value] if isinstance(instruction.value, Value) else []
        case Until():
            return [instruction.condition]
        case Repeat():
            return [instruction.count] if isinstance(instruction.count, Value) else []
        case _:
            return []


def writes(instruction: Instruction) -> Value | None:
    """Return the value that an instruction produces or stores to."""
    match instruction:
        case Apply() | Dot() | Gather() | Product() | Reduce() | Count():
            return instruction.out
        case Store():
            return instruction.target
        case _:
            return None


def rounds_of(count: Value | int, numbers: Mapping[int, float]) -> float:
    """Return the rounds of a loop; 1 where they differ from row to row.

    numbers: argument number -> value, for loop counts that are arguments; unknown ones are 1.
    """
    if not isinstance(count, Value):
        return count
    return numbers.get(count.arg, 1.0) if count.access is Access.NUMBER else 1.0


def walk(body: list[Instruction]) -> Iterator[Instruction]:
    """Yield all instructions in order, those inside loops after their `Repeat`."""
    for instruction in body:
        yield instruction
        if isinstance(instruction, Repeat):
            yield from walk(instruction.body)


def made_in(body: list[Instruction]) -> set[int]:
    """Return ids of the values that `body` makes, not those it merely stores to."""
    found = (None if isinstance(i, Store) else writes(i) for i in walk(body))
    return {value.id for value in found if value is not None}


def without_unused(body: list[Instruction], returned: tuple[Value, ...]) -> list[Instruction]:
    """Return the instructions whose values are returned, stored or read, in order.

    The body itself is not changed.
    """
    while True:
        needed = {value.id for value in returned}
        for instruction in walk(body):
            needed |= {value.id for value in reads(instruction)}
            if isinstance(instruction, Store):
                needed.add(instruction.target.id)
        found = _making(body, needed)
        if sum(1 for _ in walk(found)) == sum(1 for _ in walk(body)):
            return found
        body = found


def _making(body: list[Instruction], needed: set[int]) -> list[Instruction]:
    """Return the instructions that make a value of `needed`, or no value at all."""
    found: list[Instruction] = []
    for instruction in body:
        if isinstance(instruction, Repeat):
            if body := _making(instruction.body, needed):
                found.append(Repeat(instruction.count, body))
        elif (made := writes(instruction)) is None or made.id in needed:
            found.append(instruction)
    return found


def loops_that_must_run(program: Program) -> list[Repeat]:
    """Return the loops that need a round, since they make values read after them."""
    found: list[Repeat] = []
    returned = {v.id for v in program.returns}

    def visit(body: list[Instruction]) -> None:
        for instruction in body:
            if not isinstance(instruction, Repeat):
                continue
            inside = set(map(id, walk(instruction.body)))
            outside = (i for i in walk(program.body) if id(i) not in inside)
            read = {v.id for i in outside for v in reads(i)} | returned
            if read & made_in(instruction.body):
                found.append(instruction)
            visit(instruction.body)

    visit(program.body)
    return found


def tables_of(program: Program) -> set[int]:
    """Return numbers of the arguments that are read across rows."""
    found: set[int] = set()
    for instruction in walk(program.body):
        match instruction:
            case Dot() | Gather():
                found.add(instruction.table)
            case Product():
                found.add(instruction.matrix)
            case _:
                pass
    return found
