"""Print the parts of a schedule that both languages share: rows and loop bodies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import ClassVar

from ..program.instructions import (
    Access,
    Apply,
    Count,
    Dot,
    Gather,
    Instruction,
    Kind,
    Product,
    Reduce,
    Store,
    Value,
    reads,
)
from ..program.schedule import Group, Leave, Loop, Node, Schedule
from .source import Writer


class RowwisePrinter(ABC):
    """Prints one schedule.

    Locals: i row, p..q its non-zeros, j non-zero, c column, k vector index.
    Arrays: v values and a matrices of arguments, n numbers, o outputs, h hidden non-zeros.
    Per-row numbers: x of arguments with one number for all rows, s of the program's results.
    """

    end: ClassVar[str] = ""  # ends a statement
    declare: ClassVar[str] = ""  # precedes a new name
    count: ClassVar[str]  # number of the row's non-zeros
    start: ClassVar[Mapping[str, str]]  # initial value of sums, by operation
    fold: ClassVar[Mapping[str, str]]  # how sums add a number, by operation

    def __init__(self, plan: Schedule) -> None:
        self.plan = plan
        self.program = plan.program
        self.out = Writer()
        self.outputs = {v.id: n for n, v in enumerate(self.program.returns) if v.arg < 0}
        self.hidden = {v.id: n for n, v in enumerate(plan.hidden)}
        values = zip(self.program.returns, self.program.endings, strict=False)
        self.endings = {value.id: ending for value, ending in values}
        self.patterns = len({a.pattern for a in self.program.arguments if a.form == "sparse"})

    def set(self, name: str, text: str) -> None:
        """Print an assignment."""
        self.out.line(f"{name} = {text}{self.end}")

    # -------------------------------------------------------------- names

    def scalar(self, value: Value | float) -> str:
        """Return a per-row or global number."""
        if not isinstance(value, Value):
            return self.number(value)
        return f"x{value.arg}" if value.access is Access.NUMBER else self.place(value)

    @abstractmethod
    def number(self, value: float) -> str:
        """Return a constant."""

    def place(self, value: Value) -> str:
        """Return where a per-row number is stored."""
        return self.cell(value.arg) if value.access is Access.ROWS else f"s{value.id}"

    @abstractmethod
    def cell(self, argument: int) -> str:
        """Return the row's number in an argument of one column."""

    def row_of(self, argument: int) -> str:
        """Return the number of the present row in an argument, or in a result (-1)."""
        return "row" if argument >= 0 and self.program.arguments[argument].local else "i"

    def array(self, value: Value) -> str:
        """Return the array of a stored value; w are vectors in scratch."""
        if value.arg >= 0:
            return f"{'v' if value.access is Access.VALUES else 'a'}{value.arg}"
        if value.id in self.outputs:
            return f"o{self.outputs[value.id]}"
        if value.kind is Kind.NNZ:
            return f"h{self.hidden[value.id]}"
        return f"w{self.plan.vectors[value.id]}"

    def index(self, lane: int) -> str:
        """Return the index of the value of non-zero j + lane."""
        return f"positions[{plus('j', lane)}]" if self.program.transposed else plus("j", lane)

    @abstractmethod
    def apply(self, instruction: Apply, texts: list[str]) -> str:
        """Return an elementwise operation on these texts."""

    # -------------------------------------------------------------- loops and groups

    def nodes(self, nodes: list[Node]) -> None:
        """Print loops and groups, in order."""
        for node in nodes:
            if isinstance(node, Loop):
                with self.repeat(node.count):
                    self.nodes(node.body)
            elif isinstance(node, Leave):
                self.leave(self.scalar(node.condition))
            else:
                self.group(node)

    @abstractmethod
    def repeat(self, count: Value | int) -> AbstractContextManager[None]:
        """Print a loop of `count` rounds."""

    @abstractmethod
    def leave(self, condition: str) -> None:
        """Print the exit of a loop when the condition is not zero."""

    def group(self, group: Group) -> None:
        """Print the loop, or the straight code, of a group."""
        if group.product:
            (product,) = group.instructions
            assert isinstance(product, Product)
            self.product(product)
        elif group.kind is Kind.NNZ:
            self.starts(group)
            self.nonzeros(group)
        elif group.kind is Kind.VEC:
            self.starts(group)
            self.vector(group)
        else:
            for instruction in group.instructions:
                self.row_scalar(instruction)

    def row_scalar(self, instruction: Instruction) -> None:
        """Print the computation of one number for the row."""
        match instruction:
            case Apply():
                texts = [self.scalar(a) for a in instruction.args]
                self.set(self.place(instruction.out), self.apply(instruction, texts))
            case Store():
                self.set(self.place(instruction.target), self.scalar(instruction.value))
            case Count():
                self.set(self.place(instruction.out), self.count)

    def starts(self, group: Group) -> None:
        """Print the initial values of sums."""
        for instruction in group.instructions:
            if isinstance(instruction, Reduce):
                self.set(f"s{instruction.out.id}", self.start[instruction.op])
            elif isinstance(instruction, Gather) and instruction.out.kind is Kind.ROW:
                self.set(f"s{instruction.out.id}", "F(0)")
            elif isinstance(instruction, Gather):
                self.start_gather(instruction.out)

    @abstractmethod
    def start_gather(self, out: Value) -> None:
        """Print a vector of zeros, to which rows of a table will be added."""

    @abstractmethod
    def product(self, product: Product) -> None:
        """Print a vector times a small matrix."""

    @abstractmethod
    def nonzeros(self, group: Group) -> None:
        """Print a loop over the non-zeros of the row."""

    @abstractmethod
    def vector(self, group: Group) -> None:
        """Print a loop over a vector."""


def indices(pattern: int) -> str:
    """Return the array of the columns of a pattern's non-zeros."""
    return f"indices{pattern or ''}"


def column(pattern: int, lane: int) -> str:
    """Return the column of non-zero j + lane in a pattern."""
    return f"c{lane}_{pattern}" if pattern else f"c{lane}"


def plus(index: str, lane: int) -> str:
    """Return the index increased by `lane`."""
    return f"{index} + {lane}" if lane else index


class LoopBody(ABC):
    """The body of a group's loop, for `lanes` elements or non-zeros at once.

    Once a value of the loop has been read or made, it is in one local for each lane: e of a vector,
    z of a non-zero. Backends say where numbers come from, and print sums over table rows.
    """

    def __init__(self, printer: RowwisePrinter, group: Group, lanes: int = 1) -> None:
        """Start without text."""
        self.rows = printer
        self.out = printer.out
        self.group = group
        self.every = range(lanes)
        self.known: set[int] = set()  # ids of the values that are in locals

    def run(self) -> None:
        """Print the body."""
        if self.rows.program.whole:  # in order, since compilers sort the terms of sums by loads
            for value in self.rows.plan.inputs:
                self.bring(value)
        for instruction in self.group.instructions:
            match instruction:
                case Apply():
                    columns = [self.read_all(instruction, lane) for lane in self.every]
                    self.keep(instruction.out, [self.rows.apply(instruction, c) for c in columns])
                case Store():
                    texts = [self.read(instruction.value, lane) for lane in self.every]
                    self.keep(instruction.target, texts)
                case Reduce():
                    name, fold = f"s{instruction.out.id}", self.rows.fold[instruction.op]
                    for lane in self.every:
                        self.rows.set(name, fold.format(name, self.read(instruction.source, lane)))
                case Dot():
                    self.keep(instruction.out, self.dot(instruction))
                case Gather():
                    self.gather(instruction)

    def bring(self, value: Value) -> None:
        """Load a value into locals."""
        for lane in self.every:
            name = f"{self.rows.declare}{self.name(value, lane)}"
            self.rows.set(name, self.load(value, lane))
        self.known.add(value.id)

    def read_all(self, instruction: Apply, lane: int) -> list[str]:
        """Return the arguments of an elementwise operation."""
        return [self.read(argument, lane) for argument in instruction.args]

    def name(self, value: Value, lane: int) -> str:
        """Return the local of a value of the loop."""
        return f"e{value.id}" if self.group.kind is Kind.VEC else f"z{value.id}_{lane}"

    def read(self, value: Value | float, lane: int) -> str:
        """Return a number: of the row, or in a local that is loaded if necessary."""
        if isinstance(value, Value):
            if value.id not in self.known and value.kind is self.group.kind:
                self.bring(value)
            if value.id in self.known:
                return self.name(value, lane)
        return self.rows.scalar(value)

    def keep(self, value: Value, texts: list[str]) -> None:
        """Print computed values, by lane, into locals and into the array if one exists."""
        again = value.id in self.known
        for lane, text in enumerate(texts):
            name = self.name(value, lane)
            self.rows.set(name if again else f"{self.rows.declare}{name}", text)
        self.known.add(value.id)
        if value.id in self.rows.plan.stored:
            self.store(value, again=again)

    def columns(self) -> Iterator[tuple[str, str, str]]:
        """Yield the columns of non-zeros that it reads: name, array and place."""
        by_column = (Access.COLUMN, Access.ENTRY, Access.PLACE)
        read: set[int] = set()
        for step in self.group.instructions if self.group.kind is Kind.NNZ else ():
            read |= {v.pattern for v in reads(step) if v.access in by_column}
            if isinstance(step, Dot | Gather):
                read.add((step.out if isinstance(step, Dot) else step.weight).pattern)
        for pattern in sorted(read):
            for lane in self.every:
                yield column(pattern, lane), indices(pattern), plus("j", lane)

    @abstractmethod
    def load(self, value: Value, lane: int) -> str:
        """Return a value of the loop from its array."""

    @abstractmethod
    def store(self, value: Value, *, again: bool) -> None:
        """Print how locals go to their array.

        again: whether the locals held another value before.
        """

    @abstractmethod
    def dot(self, dot: Dot) -> list[str]:
        """Print dot products with table rows; return them by lane."""

    @abstractmethod
    def gather(self, gather: Gather) -> None:
        """Print how table rows are added."""
