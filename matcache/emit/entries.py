"""Print a program of one entry of each table, as straight code."""

from __future__ import annotations

from collections.abc import Mapping

from ..program.instructions import Access, Apply, Store, Value
from ..program.row_steps_plan import SIGNALS, EntryProgram
from .rows import RowwisePrinter


def print_entry(printer: RowwisePrinter, entry: EntryProgram, names: Mapping[int, str]) -> None:
    """Print the statements of an entry's program.

    names: of the tables' entries, by place.
    """

    def text(value: Value | float) -> str:
        if not isinstance(value, Value):
            return printer.number(value)
        if value.arg < 0:
            return f"s{entry.prefix}{value.id}"
        if value.access is Access.ROWS:
            return names[value.arg - entry.first]
        if value.arg < entry.first:
            return SIGNALS[value.arg]
        return f"y{value.arg - entry.first - len(entry.tables)}"

    for instruction in entry.program.body:
        match instruction:
            case Apply():
                formula = printer.apply(instruction, [text(a) for a in instruction.args])
                declare = printer.declare if instruction.out.arg < 0 else ""
                printer.set(f"{declare}{text(instruction.out)}", formula)
            case Store():
                printer.set(text(instruction.target), text(instruction.value))
            case _:
                raise AssertionError(instruction)  # entries have neither vectors nor loops
