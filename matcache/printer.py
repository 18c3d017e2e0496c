"""What the printers of both backends share: names of a program's arrays, and kinds of loops."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import ClassVar

from .program import Access, Apply, Count, Gather, Instruction, Kind, Product, Reduce, Store, Value
from .schedule import Group, Leave, Loop, Node, Schedule
from .writer import Writer


class RowwisePrinter(ABC):
    """Prints one schedule. Locals: i row, p..q its non-zeros, j non-zero, c column, k vector index.

    Arrays: v values and a matrices of arguments, n numbers, o outputs, h hidden non-zeros. Per-row
    numbers: x of arguments with one number for all rows, s of what the program makes.
    """

    end: ClassVar[str] = ""  # of a statement
    declare: ClassVar[str] = ""  # what is before a name that is new
    count: ClassVar[str]  # of the non-zeros of the row
    start: ClassVar[Mapping[str, str]]  # what sums begin with, by their operation
    fold: ClassVar[Mapping[str, str]]  # how they take one more number

    def __init__(self, plan: Schedule) -> None:
        self.plan = plan
        self.program = plan.program
        self.out = Writer()
        self.outputs = {v.id: n for n, v in enumerate(self.program.returns) if v.arg < 0}
        self.hidden = {v.id: n for n, v in enumerate(plan.hidden)}
        self.sparse = any(a.form == "sparse" for a in self.program.arguments)

    def set(self, name: str, text: str) -> None:
        """An assignment."""
        self.out.line(f"{name} = {text}{self.end}")

    # -------------------------------------------------------------- names

    def scalar(self, value: Value | float) -> str:
        """A per-row or global number."""
        if not isinstance(value, Value):
            return self.number(value)
        return f"x{value.arg}" if value.access is Access.NUMBER else self.place(value)

    @abstractmethod
    def number(self, value: float) -> str:
        """A constant."""

    def place(self, value: Value) -> str:
        """Where a per-row number is stored."""
        return self.cell(value.arg) if value.access is Access.ROWS else f"s{value.id}"

    @abstractmethod
    def cell(self, argument: int) -> str:
        """The row's number in an argument of one column."""

    def array(self, value: Value) -> str:
        """The array that a stored value is in, or goes to; w are vectors in scratch."""
        if value.arg >= 0:
            return f"{'v' if value.access is Access.VALUES else 'a'}{value.arg}"
        if value.id in self.outputs:
            return f"o{self.outputs[value.id]}"
        if value.kind is Kind.NNZ:
            return f"h{self.hidden[value.id]}"
        return f"w{self.plan.vectors[value.id]}"

    def index(self, lane: int) -> str:
        """Index of the value of non-zero j + lane."""
        return f"positions[{plus('j', lane)}]" if self.program.transposed else plus("j", lane)

    @abstractmethod
    def apply(self, instruction: Apply, texts: list[str]) -> str:
        """An elementwise operation on these texts."""

    # -------------------------------------------------------------- loops and groups

    def nodes(self, nodes: list[Node]) -> None:
        """Loops and groups, in order."""
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
        """A loop of so many rounds."""

    @abstractmethod
    def leave(self, condition: str) -> None:
        """Leave the loop when the condition is not zero."""

    def group(self, group: Group) -> None:
        """The loop, or the straight code, of a group."""
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
        """One number for the row."""
        match instruction:
            case Apply():
                texts = [self.scalar(a) for a in instruction.args]
                self.set(self.place(instruction.out), self.apply(instruction, texts))
            case Store():
                self.set(self.place(instruction.target), self.scalar(instruction.value))
            case Count():
                self.set(self.place(instruction.out), self.count)

    def starts(self, group: Group) -> None:
        """What sums begin with."""
        for instruction in group.instructions:
            if isinstance(instruction, Reduce):
                self.set(f"s{instruction.out.id}", self.start[instruction.op])
            elif isinstance(instruction, Gather) and instruction.out.kind is Kind.ROW:
                self.set(f"s{instruction.out.id}", "F(0)")
            elif isinstance(instruction, Gather):
                self.start_gather(instruction.out)

    @abstractmethod
    def start_gather(self, out: Value) -> None:
        """A vector of zeros, to which rows of a table will be added."""

    @abstractmethod
    def product(self, product: Product) -> None:
        """A vector times a small matrix."""

    @abstractmethod
    def nonzeros(self, group: Group) -> None:
        """A loop over the non-zeros of the row."""

    @abstractmethod
    def vector(self, group: Group) -> None:
        """A loop over a vector."""


def plus(index: str, lane: int) -> str:
    """The index `lane` places further on."""
    return f"{index} + {lane}" if lane else index
