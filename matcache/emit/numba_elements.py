"""Print how Numba source reads and writes the elements of arrays."""

from __future__ import annotations

import re

from ..notation.elementwise import ELEMENTWISE
from ..program.instructions import Access, Apply, Kind, Value
from ..program.schedule import Schedule
from .numba_header import number
from .rows import RowwisePrinter, column, plus

ELEMENT = re.compile(r"(\w+)\[(.*)\]")  # of an array: its name, and the index


class NumbaElements(RowwisePrinter):
    """Prints elements. Functions of `cpu/compiling/access.py` convert other dtypes."""

    def __init__(self, plan: Schedule) -> None:
        """Start without text."""
        super().__init__(plan)
        self.made: dict[str, str] = {}  # operations on vectors of one length: name -> text
        self.constants: dict[str, str] = {}  # text -> name
        self.widths: dict[int, str] = {}  # names of lengths that the text does not say

    def length(self, length: int) -> str:
        """Return the length of a vector: a name, or a literal."""
        return self.widths.get(length, str(length))

    def up(self, length: int, step: int) -> str:
        """Return the least multiple of a power of two that is not less than a length."""
        if length in self.widths:
            return f"({self.widths[length]} + {step - 1} & -{step})"
        return str(-(-length // step) * step)

    def down(self, length: int, step: int) -> str:
        """Return the largest multiple of a power of two that is not more than a length."""
        if length in self.widths:
            return f"({self.widths[length]} & -{step})"
        return str(length // step * step)

    def number(self, value: float) -> str:
        """Return the name of a constant."""
        return self.constants.setdefault(number(value), f"number{len(self.constants)}")

    def read(self, element: str) -> str:
        """Return an element of an array, printed as `array[index]`, as one of our floats."""
        return f"get{self.located(element)})"

    def set(self, name: str, text: str) -> None:
        """Print an assignment to a name, or to an element of an array."""
        if name.endswith("]"):
            self.out.line(f"put{self.located(name)}, {text})")
        else:
            super().set(name, text)

    def add(self, element: str, text: str) -> None:
        """Print an addition to an element of an array."""
        self.set(element, f"{self.read(element)} + ({text})")

    def located(self, element: str) -> str:
        """Return the beginning of a call for an element: dimensions, array and index."""
        found = ELEMENT.fullmatch(element)
        assert found is not None, element
        array, index = found.groups()
        sides = 1 if index.startswith("place1") or ", " not in index else 2
        return f"{sides}({array}, {index}"

    def index(self, lane: int) -> str:
        """Return the index of the value of non-zero j + lane."""
        at = plus("j", lane)
        return f"place1(positions, {at})" if self.program.transposed else at

    def scalar(self, value: Value | float) -> str:
        """Return a per-row or global number."""
        text = super().scalar(value)
        if isinstance(value, Value) and value.access is Access.ROWS:
            return self.read(text)
        return text

    def cell(self, argument: int) -> str:
        """Return the row's number in an argument of one column."""
        return f"a{argument}[{self.row_of(argument)}, 0]"

    def load(self, value: Value, index: str = "k") -> str:
        """Return the value of one element of a vector."""
        if value.access is Access.PLACE:
            return f"F({index})"
        if value.access is Access.RANDOM:
            stream = self.program.arguments[value.arg].stream
            return f"m.uniform(random_bits({self.array(value)}, i, k, {stream}))"
        return self.read(self.element(value, index))

    def element(self, value: Value, index: str = "k") -> str:
        """Return one element of a stored vector."""
        array = self.array(value)
        if value.access is Access.SHARED:
            return f"{array}[0, {index}]"
        if value.access is Access.ENTRY:
            return f"{array}[{index}, 0]"
        if value.id in self.plan.vectors or self.plan.flat:
            return f"{array}[{index}]"
        if value.kind is Kind.ROW:
            return self.cell(value.arg)
        return f"{array}[{self.row_of(value.arg)}, {index}]"

    def put(self, value: Value, text: str) -> None:
        """Print the store of an element of a vector; a sum adds it."""
        out, n = self.out, self.outputs.get(value.id)
        match self.endings.get(value.id):
            case "total":
                out.line(f"total{n} = plus(total{n}, np.float64({text}))")
            case "colsum":
                out.line(f"o{n}[chunk, k] += np.float64({text})")
            case "colmax":
                out.line(f"o{n}[chunk, k] = m.maximum(o{n}[chunk, k], np.float64({text}))")
            case _:
                self.set(self.element(value), text)

    def home(self, value: Value) -> tuple[str, str]:
        """Return the array that holds a stored vector, and where the vector begins in it."""
        by_row = value.access is Access.ROWS or value.id in self.outputs
        row = self.row_of(value.arg)
        at = f"np.intp({row}) * {self.length(value.length)}" if by_row else "0"
        return self.array(value), at

    def short(self, make: str, length: int, lanes: int, options: str = "") -> str:
        """Return the name of an operation on short vectors, `lanes` rows at once."""
        bits = self.program.dtype.removeprefix("float")
        name = "_".join([make, str(length), str(lanes), *re.findall(r"\w+(?==)", options)])
        self.made[name] = f"make_{make}({length}, {lanes}, {bits}{options})"
        return name

    def dotter(self, length: int, lanes: int) -> tuple[str, str]:
        """Return the function that multiplies a vector by table rows, and its last argument.

        lanes: rows of one call.
        """
        if length not in self.widths:
            return self.short("dots", length, lanes), ""
        name, bits = f"dots_{lanes}", self.program.dtype.removeprefix("float")
        self.made[name] = f"make_dot_rows({lanes}, {bits})"
        return name, f", {self.widths[length]}"

    def adder(self, out: Value, lanes: int) -> tuple[str, str, str, str]:
        """Return the function that adds rows to a vector, its array and place, its last argument.

        lanes: rows added by one call.
        """
        array, at = self.home(out)
        padded = array.startswith("w")
        if out.length not in self.widths:
            options = ", padded=True" if padded else ""
            return self.short("add", out.length, lanes, options), array, at, ""
        bits = self.program.dtype.removeprefix("float")
        name = f"add_{lanes}" + "_padded" * padded
        self.made[name] = f"make_add_rows({lanes}, 0, {bits}, padded={padded})"
        return name, array, at, f", {self.widths[out.length]}"

    def nonzero(self, value: Value, lane: int) -> str:
        """Return non-zero j + lane of a stored value."""
        array = self.array(value)
        if value.access is Access.COLUMN:
            return f"{array}[0, {column(value.pattern, lane)}]"
        if value.access is Access.ENTRY:
            return f"{array}[{column(value.pattern, lane)}, 0]"
        return f"{array}[{self.index(lane)}]"

    def clear(self, value: Value, *, whole: bool) -> None:
        """Print code that sets a vector to zero.

        whole: for scratch, clear up to the end of its last whole vector.
        """
        length = self.length(value.length)
        if whole and self.home(value)[0].startswith("w"):
            length = self.up(value.length, 16)
        with self.out.block(f"for k in range({length}):"):
            self.set(self.element(value), self.number(0.0))

    def apply(self, instruction: Apply, texts: list[str]) -> str:
        """Return an elementwise operation on these texts."""
        return ELEMENTWISE[instruction.op].numba.format(*texts)
