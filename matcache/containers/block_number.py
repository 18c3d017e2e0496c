"""Numbers of a block that a recording computes anew for each block.

An update such as `keep.set(0.5 ** (block.rows / total))` is a small program of the host. Where its
numbers were constants, a recording would serve blocks of one size alone.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .tape import Tape

Formula = tuple[Any, ...]
"""(name of a number,), or (function of Python's `operator`, argument, argument)."""


def _arithmetic(function: Callable[..., Any], *, turned: bool = False) -> Any:
    """Return a method that computes `function` of the number and another one.

    turned: whether the other one comes first.
    """

    def method(self: BlockNumber, other: Any, *more: Any) -> Any:
        part = other
        if type(other) is BlockNumber and other.tape is self.tape:
            part = other.formula
        if self.tape.records and type(part) in (int, float, tuple) and not more:
            formula = (function, part, self.formula) if turned else (function, self.formula, part)
            return BlockNumber(self.tape, formula)
        own = self.read()
        return function(other, own, *more) if turned else function(own, other, *more)

    return method


def _reading(function: Callable[..., Any]) -> Any:
    """Return a method that reads the number: the recording serves blocks with this one alone."""

    def method(self: BlockNumber, *others: Any) -> Any:
        return function(self.read(), *others)

    return method


def _turned(function: Callable[[Any, Any], Any]) -> Any:
    """Return a method that reads the number and computes `function` of another one and it."""
    return _reading(lambda own, other: function(other, own))


class BlockNumber:
    """A number of the present block, or arithmetic with such numbers, while it is recorded.

    It stays a formula until it is read. `Mat.set` takes it as it is; all else reads it.
    """

    __slots__ = ("_value", "formula", "tape")

    def __init__(self, tape: Tape, formula: Formula) -> None:
        """Compute `formula` of numbers of the block that `tape` records.

        Raises ArithmeticError where it has no value for this block.
        """
        self.tape, self.formula = tape, formula
        try:
            self._value = function_of(formula)(tape.now)
        except ArithmeticError:
            _depend(tape, formula)
            raise

    def read(self) -> Any:
        """Return the number, and note that what follows depends on it.

        A function of the host, which runs for each block, gets that of the present one.
        """
        if self.tape.calls_host:
            return function_of(self.formula)(self.tape.now)
        _depend(self.tape, self.formula)
        return self._value

    def __reduce__(self) -> Any:
        """Copy and pickle the number."""
        found = self.read()
        return type(found), (found,)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """The type of the number, which `isinstance` asks for."""
        return type(self._value)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the number, such as `is_integer`."""
        return getattr(self.read(), name)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """Return the number as an array of one element."""
        return np.array(self.read(), dtype)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *given: Any, **named: Any) -> Any:
        """Compute a function of NumPy: a number of Python leaves the precision of arrays."""
        plain = [each.read() if type(each) is BlockNumber else each for each in given]
        return getattr(ufunc, method)(*plain, **named)

    __add__, __radd__ = _arithmetic(operator.add), _arithmetic(operator.add, turned=True)
    __sub__, __rsub__ = _arithmetic(operator.sub), _arithmetic(operator.sub, turned=True)
    __mul__, __rmul__ = _arithmetic(operator.mul), _arithmetic(operator.mul, turned=True)
    __pow__, __rpow__ = _arithmetic(pow), _arithmetic(pow, turned=True)
    __truediv__ = _arithmetic(operator.truediv)
    __rtruediv__ = _arithmetic(operator.truediv, turned=True)
    __floordiv__ = _arithmetic(operator.floordiv)
    __rfloordiv__ = _arithmetic(operator.floordiv, turned=True)
    __mod__, __rmod__ = _arithmetic(operator.mod), _arithmetic(operator.mod, turned=True)

    __eq__, __ne__ = _reading(operator.eq), _reading(operator.ne)
    __lt__, __le__ = _reading(operator.lt), _reading(operator.le)
    __gt__, __ge__ = _reading(operator.gt), _reading(operator.ge)
    __hash__, __bool__ = _reading(hash), _reading(bool)
    __str__, __repr__, __format__ = _reading(str), _reading(repr), _reading(format)
    __int__, __float__, __index__ = _reading(int), _reading(float), _reading(operator.index)
    __neg__, __pos__, __abs__ = _reading(operator.neg), _reading(operator.pos), _reading(abs)
    __round__, __trunc__ = _reading(round), _reading(math.trunc)
    __floor__, __ceil__ = _reading(math.floor), _reading(math.ceil)
    __divmod__, __rdivmod__ = _reading(divmod), _turned(divmod)
    __invert__, __and__, __rand__ = (
        _reading(operator.inv),
        _reading(operator.and_),
        _turned(operator.and_),
    )
    __or__, __ror__ = _reading(operator.or_), _turned(operator.or_)
    __xor__, __rxor__ = _reading(operator.xor), _turned(operator.xor)
    __lshift__, __rlshift__ = _reading(operator.lshift), _turned(operator.lshift)
    __rshift__, __rrshift__ = _reading(operator.rshift), _turned(operator.rshift)


def function_of(formula: Any) -> Callable[[Mapping[str, Any]], Any]:
    """Return a formula, or a number, as a function of the numbers of a block."""
    if not isinstance(formula, tuple):
        return lambda now: formula
    if isinstance(formula[0], str):
        return operator.itemgetter(formula[0])
    function, one, other = formula[0], function_of(formula[1]), function_of(formula[2])
    return lambda now: function(one(now), other(now))


def has_value(
    function: Callable[[Mapping[str, Any]], Any], kind: type, now: Mapping[str, Any]
) -> bool:
    """Return whether a formula has a value of this type for a block with the numbers `now`."""
    try:
        return type(function(now)) is kind
    except ArithmeticError:
        return False


def _depend(tape: Tape, formula: Formula) -> None:
    """Note that a program depends on the numbers in a formula, if it is being recorded."""
    if tape.records:
        tape.reads |= {name: tape.now[name] for name in _names(formula)}


def _names(formula: Any) -> list[str]:
    """Return the names of the numbers in a formula."""
    if not isinstance(formula, tuple):
        return []
    if isinstance(formula[0], str):
        return [formula[0]]
    return _names(formula[1]) + _names(formula[2])
