"""Order a row-wise program into loops, and decide where values are kept.

The result is the same for every backend. A group is one loop over the row's non-zeros, one loop
over a vector, a vector-matrix product, or straight scalar code. An instruction joins an earlier
group of its class, unless an instruction in between or a sum that ends with that group prevents it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from .instructions import (
    Access,
    Apply,
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
    writes,
)


@dataclass(eq=False)
class Group:
    """The instructions of one loop, or one Product.

    kind: NNZ, VEC (with `length`) or ROW (no loop).
    """

    kind: Kind
    length: int
    instructions: list[Instruction] = field(default_factory=list)
    product: bool = False


@dataclass(eq=False)
class Loop:
    """A `repeat` with its own groups."""

    count: Value | int
    body: list[Node]


@dataclass(eq=False)
class Leave:
    """An `until`: leave the loop when the row's number is not zero."""

    condition: Value


Node = Group | Loop | Leave


@dataclass(eq=False)
class Schedule:
    """A program in loops, and the storage of its values.

    vectors: value id -> index, for values kept in scratch of their length.
    hidden: non-zero values that need an array of their own though they are not returned.
    stored: ids of all values kept in arrays (arguments, results, scratch). All others are scalars
    inside their loop.
    """

    program: Program
    nodes: list[Node]
    vectors: dict[int, int]
    hidden: list[Value]
    stored: set[int]

    @cached_property
    def scratch_length(self) -> int:
        """The length of the longest scratch vector."""
        values = [v for v in all_values(self.program.body) if v.id in self.vectors]
        return max((v.length for v in values), default=0)

    @cached_property
    def inputs(self) -> list[Value]:
        """The arguments that are read for each row or element, in order."""
        values = [v for v in all_values(self.program.body) if v.arg >= 0 and v.kind is not Kind.UNI]
        return sorted(values, key=lambda v: v.arg)

    @cached_property
    def flat(self) -> bool:
        """Whether one loop can run over all elements of an expression, without rows and columns."""
        by_element = all((v.kind, v.access) == (Kind.VEC, Access.ROWS) for v in self.inputs)
        return self.program.whole and by_element and not self.program.by_column


def schedule(program: Program) -> Schedule:
    """Group the instructions of `program` and decide where each value lives."""
    nodes = _group(program.body)
    returned = {v.id for v in program.returns}
    places: dict[int, set[int]] = {}  # value -> groups that touch it
    whole: set[int] = set()  # values read as a whole, not element by element
    _collect(nodes, places, whole)
    vectors: dict[int, int] = {}
    hidden: list[Value] = []
    stored: set[int] = set()
    for value in all_values(program.body):
        if value.kind not in (Kind.VEC, Kind.NNZ) or value.access is Access.PLACE:
            continue
        if value.arg >= 0 or value.id in returned:
            stored.add(value.id)
        elif len(places.get(value.id, ())) > 1 or value.id in whole or value.mutable:
            stored.add(value.id)
            if value.kind is Kind.VEC:
                vectors[value.id] = len(vectors)
            else:
                hidden.append(value)
    return Schedule(program, nodes, vectors, hidden, stored)


def all_values(body: list[Instruction]) -> list[Value]:
    """Return every value that the instructions mention, once, by first mention."""
    seen: dict[int, Value] = {}

    def visit(instructions: list[Instruction]) -> None:
        for instruction in instructions:
            for value in reads(instruction):
                seen.setdefault(value.id, value)
            if isinstance(instruction, Repeat):
                visit(instruction.body)
            if (out := writes(instruction)) is not None:
                seen.setdefault(out.id, out)

    visit(body)
    return list(seen.values())


def _loop_class(instruction: Instruction) -> tuple[Kind, int]:
    """Return the kind of loop that an instruction needs."""
    match instruction:
        case Apply():
            return _shape(instruction.out)
        case Dot():
            return Kind.NNZ, 1
        case Gather():
            return Kind.NNZ, 1
        case Reduce():
            return _shape(instruction.source)
        case Store():
            return _shape(instruction.target)
        case Product():
            return Kind.VEC, instruction.out.length
        case _:
            return Kind.ROW, 1


def _shape(value: Value) -> tuple[Kind, int]:
    if value.kind is Kind.VEC:
        return Kind.VEC, value.length
    return (Kind.NNZ, 1) if value.kind is Kind.NNZ else (Kind.ROW, 1)


def _group(body: list[Instruction]) -> list[Node]:
    nodes: list[Node] = []
    for instruction in body:
        if isinstance(instruction, Repeat):
            nodes.append(Loop(instruction.count, _group(instruction.body)))
        elif isinstance(instruction, Until):
            nodes.append(Leave(instruction.condition))
        else:
            _place(nodes, instruction)
    return nodes


def _place(nodes: list[Node], instruction: Instruction) -> None:
    """Put `instruction` into an existing group if nothing forbids it, or a new one.

    Single numbers go before loops that do not make them, so that later loops can be joined.
    """
    kind, length = _loop_class(instruction)
    product = isinstance(instruction, Product)
    place = len(nodes)
    if not product:
        for at in reversed(range(len(nodes))):
            node = nodes[at]
            if not isinstance(node, Group):
                break
            if (node.kind, node.length) == (kind, length) and not node.product:
                if _may_join(node, instruction):
                    node.instructions.append(instruction)
                    return
                break
            if _conflict(node, instruction):
                break
            if kind is Kind.ROW:
                place = at
    nodes.insert(place, Group(kind, length, [instruction], product))


def _conflict(group: Group, instruction: Instruction) -> bool:
    """Return whether `instruction` must stay behind `group`."""
    ours = {v.id for v in reads(instruction)}
    out = writes(instruction)
    for other in group.instructions:
        made = writes(other)
        if made is not None and (made.id in ours or made is out):
            return True
        if out is not None and any(v is out for v in reads(other)):
            return True
    return False


def _may_join(group: Group, instruction: Instruction) -> bool:
    """Return whether `instruction` can run in the loop of `group`, by element."""
    out = writes(instruction)
    for other in group.instructions:
        made = writes(other)
        # a sum, or a vector gathered over the non-zeros, is complete only after the loop
        finished_later = isinstance(other, Reduce | Gather) and group.kind is not Kind.ROW
        if finished_later and made in reads(instruction):
            return False
        # each non-zero reads a whole vector, so the same loop may not write it
        if isinstance(instruction, Dot) and made is instruction.vec:
            return False
        if isinstance(other, Dot) and out is other.vec:
            return False
        if finished_later and made is out:
            return False
    return True


def groups(nodes: list[Node]) -> Iterator[Group]:
    """Yield all groups in order, including those inside loops."""
    for node in nodes:
        if isinstance(node, Loop):
            yield from groups(node.body)
        elif isinstance(node, Group):
            yield node


def _collect(nodes: list[Node], places: dict[int, set[int]], whole: set[int]) -> None:
    for group in groups(nodes):
        for instruction in group.instructions:
            for value in (*reads(instruction), writes(instruction)):
                if value is not None:
                    places.setdefault(value.id, set()).add(id(group))
            if isinstance(instruction, Dot | Product):
                whole.add(instruction.vec.id)
            if isinstance(instruction, Gather | Product):
                whole.add(instruction.out.id)
