"""What the printers of both backends share: names of a program's arrays, and kinds of loops."""

from __future__ import annotations

from abc import ABC, abstractmethod

from .program import Access, Dot, Gather, Instruction, Kind, Product, reads
from .schedule import Group, Schedule
from .writer import Writer


class RowwisePrinter(ABC):
    """Prints one schedule. Locals: i row, p..q its non-zeros, j non-zero, c column, k vector index.

    Arrays: v values and a matrices of arguments, n numbers, o outputs, h hidden non-zeros.
    """

    def __init__(self, plan: Schedule) -> None:
        self.plan = plan
        self.program = plan.program
        self.out = Writer()
        self.outputs = {v.id: n for n, v in enumerate(self.program.returns) if v.arg < 0}
        self.hidden = {v.id: n for n, v in enumerate(plan.hidden)}
        self.sparse = any(a.form == "sparse" for a in self.program.arguments)

    def group(self, group: Group) -> None:
        """The loop, or the straight code, of a group."""
        if group.product:
            (product,) = group.instructions
            assert isinstance(product, Product)
            self.product(product)
        elif group.kind is Kind.NNZ:
            self.nonzeros(group)
        elif group.kind is Kind.VEC:
            self.vector(group)
        else:
            for instruction in group.instructions:
                self.row_scalar(instruction)

    @abstractmethod
    def product(self, product: Product) -> None:
        """A vector times a small matrix."""

    @abstractmethod
    def nonzeros(self, group: Group) -> None:
        """A loop over the non-zeros of the row."""

    @abstractmethod
    def vector(self, group: Group) -> None:
        """A loop over a vector."""

    @abstractmethod
    def row_scalar(self, instruction: Instruction) -> None:
        """One number for the row."""

    def needs_column(self, group: Group) -> bool:
        """Whether a loop over non-zeros reads their columns."""
        if any(isinstance(i, Dot | Gather) for i in group.instructions):
            return True
        columns = (Access.COLUMN, Access.ENTRY)
        return any(v.access in columns for i in group.instructions for v in reads(i))
