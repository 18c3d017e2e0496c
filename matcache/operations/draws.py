"""Random numbers of many distributions, by counter.

The number at (row, column) depends on the key, row, column, distribution and `stream` alone. So it
is the same in every run, for any number of threads, and after a resume.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..containers.expressions import Node
from ..containers.keys import number_key
from ..containers.launching import launch
from ..containers.lazy import Lazy, Shape
from ..containers.local import LocalPattern
from ..containers.matrices import Mat, SparseMat
from ..containers.patterns import filled_beside, values_container
from ..containers.slots import Slot
from ..errors import ShapeError, source_line
from ..notation.operand import apply
from ..program.padding import Padding, beside
from .alias import AliasTable, check_table
from .dense import Random, random
from .indexing import filled
from .products import cast

STREAMS = 2**20  # for each distribution; `random` has numbers below 2^28
ATTEMPTS = 2**8  # of a draw that may be refused, each with numbers of its own
CODES = {
    name: number
    for number, name in enumerate(
        (
            "radius",
            "angle",
            "exponential",
            "integers",
            "choice",
            "log_gamma",
            "poisson",
            "binomial",
            "beside",
        ),
        1,
    )
}


class Draws:
    """Random numbers by counter, for one key.

    Each method takes the shape of its result, and a `stream` from 0 to 2^20 - 1, which tells draws
    of one distribution with the same key apart. Parameters are numbers, or matrices that fit the
    shape: 1 x 1, one row, one column, or all entries. A draw whose parameters are out of range is
    NaN; see `bernoulli` for its chances.

    Methods without loops return expressions, which are not stored but computed where they are used.
    """

    def __init__(self, key: Mat) -> None:
        """Use a key.

        key: int64 [1 x 3] with (seed, pass, block), such as `block.key`.
        """
        if not isinstance(key, Mat):
            raise ShapeError(
                f"Draws at {source_line()}: key={key!r}: must be an int64 matrix of shape (1, 3): "
                "block.key, or from_array(cache, np.array([[seed, 0, 0]]))."
            )
        self.key, self.cache = key, key.cache
        random(self.cache, (1, 1), key)  # raises for a wrong key

    def uniform(self, shape: Shape, *, stream: int = 0) -> Random:
        """Return uniform numbers in (0, 1), as `random` does."""
        return random(self.cache, shape, self.key, stream)

    def normal(self, shape: Shape, *, stream: int = 0) -> Lazy:
        """Return numbers of the standard normal distribution: an expression.

        Box and Muller (1958), of two uniform numbers.
        """
        radius, angle = (self._of(name, shape, stream) for name in ("radius", "angle"))
        found: Lazy = apply("sqrt", -2.0 * apply("log", radius)) * apply("cos", math.tau * angle)
        return found

    def exponential(self, shape: Shape, *, stream: int = 0) -> Lazy:
        """Return numbers of the exponential distribution with mean 1: an expression."""
        found: Lazy = -apply("log", self._of("exponential", shape, stream))
        return found

    def bernoulli(self, shape: Shape, chance: Any, *, stream: int = 0) -> Lazy:
        """Return 1 with this chance, else 0: an expression, of `uniform` with the same stream.

        chance: below 0 it counts as 0, above 1 as 1, since computed chances may be off by rounding.
        NaN gives NaN.
        """
        drawn: Lazy = self.uniform(shape, stream=stream) < chance
        found: Lazy = apply("where", chance == chance, drawn, chance)  # NaN equals nothing
        return found

    def integers(self, shape: Shape, end: int, *, stream: int = 0) -> Node:
        """Return whole numbers from 0 to `end` - 1, int64, of use as positions.

        end: 1 to 2^31. Chances differ by less than end / 2^32 of themselves.
        """
        if not isinstance(end, int | np.integer) or not 1 <= end <= 2**31:
            raise ShapeError(
                f"integers at {source_line()}: end={end}: must be 1 to 2^31, and whole."
            )
        return self._node("integers", shape, stream, (end,), np.int64)

    def choice(self, shape: Shape, table: AliasTable, *, stream: int = 0) -> Node:
        """Return positions, int64, with the chances of a table: see `alias_table`."""
        check_table("choice", table)
        return self._node("choice", shape, stream, tuple(table), np.int64)

    def beside(self, x: Lazy, table: AliasTable, *, stream: int = 0) -> SparseMat:
        """Return a sparse matrix of ones: for each stored entry of x one in a drawn column.

        x: sparse [n x m].
        table: of m weights.

        Row i has as many entries as row i of x, so a `@rowwise` function takes both: entry e of a
        row meets entry e of the other. What is computed from both has the columns of its leftmost
        operand. A row may get a column twice, or one that it has in x. Columns do not ascend. The
        entry at place e of row i depends on the key, i and e alone. If the weights are out of range
        (see `alias_table`), the values are NaN.

        Raises ShapeError if x is dense, or the table has not m weights.
        """
        check_table("beside", table)
        source, m = x.mat(), table.chance.shape[1]
        if not isinstance(source, SparseMat) or isinstance(source.pattern, LocalPattern):
            raise ShapeError(
                f"beside at {source_line()}: {x.label} is dense, or its columns are numbered in "
                "the block; must be a sparse matrix of all columns."
            )
        if m != x.shape[1]:
            raise ShapeError(
                f"beside at {source_line()}: {m} weights, and {x.label} has {x.shape[1]} columns; "
                "there must be one for each."
            )
        cache, of, number = self.cache, source.pattern, _number("beside", stream)
        key = ("beside", number, of.guid, self.key.guid, table.chance.guid, table.other.guid)
        label = f"beside({source.label})"
        pattern = filled_beside(cache, key, of, label)
        slot = values_container(cache, (*key, pattern.guid), pattern, np.float32, label)
        if cache.begin(slot):
            slot.written()
            launch(cache, "beside", number, self.key.slot, *(t.slot for t in table), pattern, slot)
            slot.computed_from(of, *(mat.slot for mat in (self.key, *table)))
        return SparseMat(cache, slot, pattern, source.tables)

    def gamma(self, shape: Shape, a: Any, *, stream: int = 0) -> Lazy:
        """Return numbers of the gamma distribution with shape parameter a and scale 1.

        a: positive. Numbers below 1e-38 become 0; `log_gamma` tells them apart.
        """
        found: Lazy = apply("exp", self.log_gamma(shape, a, stream=stream))
        return found

    def log_gamma(self, shape: Shape, a: Any, *, stream: int = 0) -> Node:
        """Return logarithms of numbers of the gamma distribution with scale 1.

        a: positive. (Marsaglia and Tsang, ACM Transactions on Mathematical Software 26, 2000.)
        """
        return self._node("log_gamma", shape, stream, (a,))

    def beta(self, shape: Shape, a: Any, b: Any, *, stream: int = 0) -> Lazy:
        """Return numbers of the beta distribution; it takes the streams 2 `stream` and the next.

        a, b: positive.

        Numbers above 1 - 2^-24 become 1, and those below 1e-38 become 0: many, if a or b is small.
        The difference of two `log_gamma` with these streams tells them apart: it is the logarithm
        of x / (1 - x).
        """
        sides = (self.log_gamma(shape, x, stream=2 * stream + n) for n, x in enumerate((a, b)))
        found: Lazy = apply("sigmoid", next(sides) - next(sides))
        return found

    def dirichlet(self, shape: Shape, a: Any, *, stream: int = 0) -> Lazy:
        """Return rows of the Dirichlet distribution, with sum 1.

        a: positive; parameters of the columns.
        """
        logs = self.log_gamma(shape, a, stream=stream)
        parts = apply("exp", logs - apply("rowmax", logs)).mat()
        found: Lazy = parts / apply("rowsum", parts)
        return found

    def poisson(self, shape: Shape, rate: Any, *, stream: int = 0) -> Node:
        """Return numbers of the Poisson distribution, as floats.

        rate: not negative. By PTRS from 10 on, else by inversion. (Hoermann, Insurance: Mathematics
        and Economics 12, 1993.)
        """
        return self._node("poisson", shape, stream, (rate,))

    def binomial(self, shape: Shape, n: Any, p: Any, *, stream: int = 0) -> Node:
        """Return numbers of the binomial distribution, as floats.

        n: trials, a whole number that is not negative.
        p: chance of each, 0 to 1.

        By BTRS where n min(p, 1 - p) is 10 or more, else by inversion. (Hoermann, Journal of
        Statistical Computation and Simulation 46, 1993.)
        """
        return self._node("binomial", shape, stream, (n, p))

    def multinomial(self, shape: Shape, n: Any, p: Any, *, stream: int = 0) -> Node:
        """Return rows of counts that add up to n, of the multinomial distribution, as floats.

        n: a number, or one for each row.
        p: weights of columns, not negative; their sum does not matter.

        It takes the numbers of `binomial` with the same stream.
        """
        return self._node("multinomial", shape, stream, (n, p))

    # ------------------------------------------------------------- how

    def _of(self, name: str, shape: Shape, stream: int) -> Random:
        return random(self.cache, shape, self.key, _number(name, stream))

    def _node(
        self, name: str, shape: Shape, stream: int, given: tuple[Any, ...], dtype: Any = np.float32
    ) -> Node:
        random(self.cache, shape, self.key)  # raises for a wrong shape
        number = _number("binomial" if name == "multinomial" else name, stream)
        params = tuple(self._parameter(name, shape, value) for value in given)
        cache, key = self.cache, self.key

        def compute(slot: Slot) -> None:
            launch(cache, "draw", name, number, key.slot, *(p.slot for p in params), slot)
            cache.count(20 * shape[0] * shape[1])

        label = f"{name}({', '.join(p.label for p in params)})"
        facts = ("draw", name, number, shape)
        operands = (key, *params)
        held = Padding(beside([p for p in params if p.shape[0] == shape[0]]).block)
        return Node(
            cache, shape, dtype, key=facts, operands=operands, compute=compute, label=label,
            padding=held,
        )  # fmt: skip

    def _parameter(self, name: str, shape: Shape, value: Any) -> Mat:
        cache = self.cache
        if isinstance(value, int | float | np.number):
            number = float(value)
            key = ("a number", number_key(number))
            slot = cache.result(key, (1, 1), np.float64, f"{number:g}")
            return filled(cache, slot, number)
        if not isinstance(value, Lazy) or value.pattern is not None or value.cache is not cache:
            raise ShapeError(
                f"{name} at {source_line()}: {type(value).__name__}; parameters must be numbers or "
                "dense matrices of the key's cache."
            )
        if name == "choice":  # the columns of a table
            return value.mat()
        if any(h not in (1, w) for h, w in zip(value.shape, shape, strict=True)):
            raise ShapeError(
                f"{name} at {source_line()}: a parameter is {_x(value.shape)}, the result "
                f"{_x(shape)}; each side must be equal, or 1."
            )
        return cast(value, np.dtype(np.float64))


def _number(name: str, stream: int) -> int:
    """Return the number of a stream that no other distribution has."""
    if not isinstance(stream, int | np.integer) or not 0 <= stream < STREAMS:
        raise ShapeError(
            f"{name} at {source_line()}: stream={stream}: must be 0 to {STREAMS - 1:,}, and whole."
        )
    return (CODES[name] << 28) + stream * ATTEMPTS


def _x(shape: Shape) -> str:
    return f"{shape[0]} x {shape[1]}"
