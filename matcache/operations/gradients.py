"""Gradients of row-wise functions: `grad`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce
from operator import add
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..containers.expressions import Node
from ..containers.lazy import Lazy, Transposed
from ..containers.matrices import Mat
from ..containers.slots import Slot
from ..errors import ShapeError, source_line
from ..notation.operand import Operand, apply
from ..program.derivatives import DERIVATIVES
from ..program.recorder import Recorder, recorder_in_use
from ..program.records import flatten, leaf_names
from ..program.reverse import Reverse, Sum
from ..program.straight import Straight
from ..program.trace import Traced
from .arguments import key_part
from .calls import current, run, with_made
from .dense import store
from .rowwise import Rowwise

STEP = 1e-6  # of the central differences that define a gradient


def grad(loss: Callable[..., Any], *by: str, value: bool = False) -> Gradients:
    """Return a function that computes derivatives of the sum of all rows' losses.

    loss: a `@rowwise` function that returns one number per row, or several that are added up.
    by: names of its arguments. A field of a record is `record.field`.
    value: whether the function also returns the losses, first.

    The result takes the arguments of `loss` and returns a derivative for each name, a tuple if
    there are several. Each is as large as the argument: [rows x k] of rows, [columns x k] of a
    table, 1 x 1 of a number; of a sparse matrix, at its entries. Padding rows of a block do not
    count. Weights of rows belong into the loss.

    `X.T @ R`, the derivative by a table that a sparse X reads, is not computed before it is used.
    As an update of an optimizer it stays sparse.

    Raises ShapeError for operations without a derivative, and loops of unknown length. See
    `program/derivatives.py` for the rules, and `program/straight.py` for loops.
    """
    if not callable(loss):
        raise ShapeError(f"grad: loss={loss!r}: must be a @rowwise function.")
    if not by:
        raise ShapeError("grad: by=(): must name at least one argument of the loss.")
    return Gradients(loss, by, value=value)


@dataclass(frozen=True)
class Part:
    """A part of a derivative: see `reverse.Factors`.

    places: of its values: the number of an argument, or ~n for the result n of the program.
    """

    how: Sum
    places: tuple[int, ...]


@dataclass(frozen=True)
class Recipe:
    """How derivatives are made of the results of a program.

    by: numbers of the arguments that are asked for.
    parts: of the derivatives, by number of the argument.
    """

    by: tuple[int, ...]
    parts: dict[int, list[Part]]


class Gradients:
    """The function that `grad` returns."""

    def __init__(self, loss: Callable[..., Any], by: tuple[str, ...], *, value: bool) -> None:
        """Prepare; the loss is traced at the first call."""
        self.loss = loss if isinstance(loss, Rowwise) else Rowwise(loss)
        self.by, self.value = by, value

        def traced(*args: Any) -> Any:
            return self._traced(*args)

        traced.__name__ = f"grad({self.loss.name})"
        traced.__wrapped__ = self.loss.function  # type: ignore[attr-defined]
        self.kernel = Rowwise(traced)
        self.kernel.name = traced.__name__

    def __call__(self, *args: Any) -> Any:
        """Return the derivatives for these arguments: expressions, or Mats."""
        leaves, structure = flatten(args)
        if any(isinstance(a, Operand) and not isinstance(a, Lazy | Transposed) for a in leaves):
            raise ShapeError(
                f"grad({self.loss.name}) at {source_line()}: within a @rowwise function. Call it "
                "outside: derivatives by tables are sums over all rows."
            )
        leaves = tuple(current(leaf) for leaf in leaves)
        results: tuple[Any, ...] = run(self.kernel, leaves, structure) or ()
        found = self.kernel.compile_leaves(leaves, structure)
        made = found.plan.program.made
        every = _Sums(found.recipe, with_made(made, leaves), results)
        for number in reversed(range(len(leaves), len(leaves) + len(made))):
            every.through(number, *made[number - len(leaves)])
        derivatives = [every.whole(number) for number in found.recipe.by]
        if self.value:
            derivatives.insert(0, results[0])
        return derivatives[0] if len(derivatives) == 1 else tuple(derivatives)

    def total(self, *args: Any) -> Lazy:
        """Return the sum of all rows' losses, 1 x 1, which is computed when it is needed.

        `value` must be True.
        """
        leaves = tuple(current(leaf) for leaf in flatten(args)[0])
        mats = [leaf for leaf in leaves if isinstance(leaf, Mat)]

        def compute(slot: Slot) -> None:
            found = self(*args)
            losses = found[0] if isinstance(found, tuple) else found
            store(Mat(mats[0].cache, slot), apply("total", losses))

        return Node(
            mats[0].cache,
            (1, 1),
            np.float64,
            key=("total", self, *(key_part(leaf) for leaf in leaves)),
            operands=tuple(mats),
            compute=compute,
            label=f"total({self.loss.name})",
        )

    def reference(self, *args: Any) -> Any:
        """Return the derivatives by central differences in float64: the definition.

        args: as of `Rowwise.reference`, without records.
        """
        names = leaf_names(self.loss.function, None, len(args))
        found: list[Any] = [self.loss.reference(*args)] if self.value else []
        for name in self.by:
            place = names.index(name)
            found.append(_differences(partial(self._total, args, place), args[place]))
        return found[0] if len(found) == 1 else tuple(found)

    def _total(self, args: tuple[Any, ...], place: int, instead: Any) -> float:
        copies = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
        copies[place] = instead
        return float(self.loss.reference(*copies).sum())

    # ------------------------------------------------------------- tracing

    def _traced(self, *args: Any) -> tuple[Traced, ...]:
        recorder = recorder_in_use.get()
        assert recorder is not None
        by = tuple(_number(recorder, self.loss.name, name) for name in self.by)
        if any(argument.pattern > 0 for argument in recorder.arguments):
            raise ShapeError(
                f"grad({self.loss.name}): the loss reads sparse arguments with different columns; "
                "must be one sparse matrix, or results on its pattern. Differentiate by hand."
            )
        body = recorder.open[-1]
        loss = self.loss.function(*args)
        if not isinstance(loss, Traced):
            raise ShapeError(
                f"grad({self.loss.name}): the loss returns {type(loss).__name__}; must be one "
                "value: a number per row, or several that are added up."
            )
        root = loss.as_value()
        line = Straight(recorder, body[:])
        body[:] = line.body
        root = line.value(root)
        back = Reverse(recorder, line, root, by)
        results = [Traced(recorder, root)] if self.value else []
        parts = {
            number: [Part(f.how, tuple(_place(v, results) for v in f.values)) for f in factors]
            for number, factors in back.factors.items()
        }
        recorder.recipe = Recipe(by, parts)
        if not results:
            raise ShapeError(
                f"grad({self.loss.name}) by {', '.join(self.by)}: is 0 whatever the numbers are. "
                "Comparisons, floor and the like are steps, whose derivative is 0: use a smooth "
                "function in their place, such as sigmoid or softplus."
            )
        return tuple(results)


def _number(recorder: Recorder, loss: str, name: str) -> int:
    names = [argument.name for argument in recorder.arguments]
    if name not in names:
        raise ShapeError(
            f"grad({loss}): by={name!r}: must be an argument of the loss: {', '.join(names)}."
        )
    return names.index(name)


def _place(value: Traced, results: list[Traced]) -> int:
    """Return the number of an argument, or ~n for the result n, which is added if it is new."""
    if value.value is None:
        return value.argument
    if value.value.arg >= 0:
        return value.value.arg
    for number, known in enumerate(results):
        if known.value is value.value:
            return ~number
    results.append(value)
    return ~(len(results) - 1)


class _Sums:
    """Sums over rows, of the values that a program left."""

    def __init__(self, recipe: Recipe, args: tuple[Any, ...], results: tuple[Any, ...]) -> None:
        self.recipe, self.args, self.results = recipe, args, results
        self.further: dict[int, list[Any]] = defaultdict(list)  # through tables made of others

    def whole(self, number: int) -> Any:
        """Return the derivative by an argument."""
        parts = self._parts(number)
        if parts:
            return reduce(add, parts)
        argument = self.args[number]
        return apply("full", argument, 0.0) if isinstance(argument, Lazy) else 0.0

    def through(self, number: int, op: str, parts: tuple[int | float, ...]) -> None:
        """Pass the derivative by a table on to the arguments that it was computed from."""
        if op not in DERIVATIVES or not (found := self._parts(number)):
            return
        values = [self.args[part] if isinstance(part, int) else part for part in parts]
        backs = DERIVATIVES[op](reduce(add, found), self.args[number], *values)
        for part, back in zip(parts, backs, strict=True):
            if isinstance(part, int) and back is not None:
                self.further[part].append(_fitted(back, self.args[part]))

    def _parts(self, number: int) -> list[Any]:
        found = [self._part(part) for part in self.recipe.parts.get(number, ())]
        return found + self.further[number]

    def _part(self, part: Part) -> Any:
        values = [self.args[n] if n >= 0 else self.results[~n] for n in part.places]
        match part.how:
            case "own":
                return values[0]
            case "columns":
                return apply("colsum", values[0])
            case "turned columns":
                return apply("transpose", apply("colsum", values[0]))
            case "product":
                return values[0].T @ values[1]
            case "turned product":
                return apply("transpose", values[0].T @ values[1])


def _fitted(back: Any, argument: Any) -> Any:
    """Add up a derivative over the axes along which the argument was repeated."""
    shape = argument.shape if isinstance(argument, Lazy) else (1, 1)
    if back.shape == shape:
        return back
    if shape == (1, 1):
        return apply("total", back)
    return apply("colsum" if shape[0] == 1 else "rowsum", back)


def _differences(total: Callable[[Any], float], at: Any) -> Any:
    """Return central differences of `total` by the entries of `at`."""
    sparse = sp.issparse(at)
    numbers = np.array(at.data if sparse else at, dtype=np.float64)
    found = np.zeros(numbers.shape)
    for place in np.ndindex(numbers.shape):
        ends = []
        for step in (STEP, -STEP):
            moved = numbers.copy()
            moved[place] += step
            given: Any = moved if np.ndim(at) else float(moved)
            if sparse:
                given = sp.csr_array((moved, at.indices, at.indptr), shape=at.shape)
            ends.append(total(given))
        found[place] = (ends[0] - ends[1]) / (2 * STEP)
    return found
