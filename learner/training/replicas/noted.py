"""Blocks and shapes that note what a model reads of them."""

from __future__ import annotations

from typing import Any

from blocklearn.matcache import Mat, MatCache, Tables
from blocklearn.matcache.containers.block_number import BlockNumber, function_of
from blocklearn.matcache.containers.tape import Tape
from blocklearn.models import Block, Shapes

NUMBERS = ("rows", "pass_", "weight", "whole_rows")  # of a block, which a program may read


class NotedBlock(Block):
    """A block that notes which of its numbers are read: see `Tape.read`."""

    plain: Block
    tape: Tape

    @classmethod
    def of(cls, block: Block, tape: Tape) -> NotedBlock:
        """Return the same block, which notes on `tape`."""
        noted = cls(**vars(block))
        object.__setattr__(noted, "plain", block)
        object.__setattr__(noted, "tape", tape)
        return noted

    def reading(self, tables: Tables) -> Block:
        """Return the block with an X that reads tables in that precision."""
        return NotedBlock.of(self.plain.reading(tables), self.tape)

    def __getattribute__(self, name: str) -> Any:
        """Return an attribute; numbers come from the tape, also when it runs again."""
        return self.tape.read(name) if name in NUMBERS else super().__getattribute__(name)


class Rehearsal(Tape):
    """Notes which numbers of a block are read while memory is planned; records no launches."""

    @classmethod
    def of(cls, block: Block, cache: MatCache, reads: dict[str, Any]) -> NotedBlock:
        """Return the same block, which notes in `reads` what is read, and not as formulas."""
        tape = cls(cache, {name: getattr(block, name) for name in NUMBERS})
        tape.reads = reads
        return NotedBlock.of(block, tape)

    @property
    def records(self) -> bool:
        """True: numbers stay formulas until they are read."""
        return True

    def follow(self, mat: Mat, number: BlockNumber) -> None:
        """Set a container to a number of the block."""
        mat.set(function_of(number.formula)(self.now))


class NotedShapes(Shapes):
    """Shapes that note what is read of them.

    read: names of attributes.
    """

    plain: Shapes
    read: set[str]

    @classmethod
    def of(cls, shapes: Shapes) -> NotedShapes:
        """Return the same shapes, of which nothing has been read."""
        noted = cls(**vars(shapes))
        object.__setattr__(noted, "read", set())
        noted.turn_to(shapes)
        return noted

    def turn_to(self, shapes: Shapes) -> None:
        """Be other shapes from now on."""
        object.__setattr__(self, "plain", shapes)

    def __getattribute__(self, name: str) -> Any:
        """Return an attribute of the plain shapes; `dataclasses.replace` makes plain ones, too."""
        own = super().__getattribute__
        if name == "__class__":
            return Shapes
        if name in ("plain", "read", "turn_to") or name.startswith("__"):
            return own(name)
        own("read").add(name)
        return getattr(own("plain"), name)
