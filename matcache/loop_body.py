"""Print the body of a loop over the elements of a vector, or over the non-zeros of a row."""

from __future__ import annotations

from abc import ABC, abstractmethod

from .printer import RowwisePrinter
from .program import Access, Apply, Dot, Gather, Kind, Reduce, Store, Value, reads
from .schedule import Group


class LoopBody(ABC):
    """The body of a group's loop, for `lanes` elements or non-zeros at once.

    A value of the loop is in a local, one for each lane, once it has been read or made: e of a
    vector, z of a non-zero. Backends say where numbers come from, and print sums over table rows.
    """

    def __init__(self, printer: RowwisePrinter, group: Group, lanes: int = 1) -> None:
        """Nothing is printed yet."""
        self.rows = printer
        self.out = printer.out
        self.group = group
        self.every = range(lanes)
        self.known: set[int] = set()  # ids of the values that are in locals

    def run(self) -> None:
        """Print it."""
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

    def read_all(self, instruction: Apply, lane: int) -> list[str]:
        """The arguments of an elementwise operation."""
        return [self.read(argument, lane) for argument in instruction.args]

    def name(self, value: Value, lane: int) -> str:
        """The local of a value of the loop."""
        return f"e{value.id}" if self.group.kind is Kind.VEC else f"z{value.id}_{lane}"

    def read(self, value: Value | float, lane: int) -> str:
        """A number: of the row, or in a local, to which it is read now if it is not there."""
        if not isinstance(value, Value) or value.kind is not self.group.kind:
            return self.rows.scalar(value)
        if value.id not in self.known:
            for each in self.every:
                name = f"{self.rows.declare}{self.name(value, each)}"
                self.rows.set(name, self.load(value, each))
            self.known.add(value.id)
        return self.name(value, lane)

    def keep(self, value: Value, texts: list[str]) -> None:
        """What was computed, by lane: into locals, and into the array if it has one."""
        again = value.id in self.known
        for lane, text in enumerate(texts):
            name = self.name(value, lane)
            self.rows.set(name if again else f"{self.rows.declare}{name}", text)
        self.known.add(value.id)
        if value.id in self.rows.plan.stored:
            self.store(value, again=again)

    @property
    def needs_columns(self) -> bool:
        """Whether it reads the columns of the non-zeros: c0, c1, ... by lane."""
        by_column = (Access.COLUMN, Access.ENTRY)
        return any(
            isinstance(i, Dot | Gather) or any(v.access in by_column for v in reads(i))
            for i in self.group.instructions
        )

    @abstractmethod
    def load(self, value: Value, lane: int) -> str:
        """A value of the loop in its array."""

    @abstractmethod
    def store(self, value: Value, *, again: bool) -> None:
        """Print how locals go to their array. again: the locals held another value before."""

    @abstractmethod
    def dot(self, dot: Dot) -> list[str]:
        """Print dot products with table rows; returns them by lane."""

    @abstractmethod
    def gather(self, gather: Gather) -> None:
        """Print how table rows are added up."""
