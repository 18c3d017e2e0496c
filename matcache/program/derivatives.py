"""Derivatives of the elementwise operations, for the reverse mode of `reverse.py`.

Each rule takes g, the derivative of the loss by the result y, and returns that by each argument, or
None where it is zero everywhere or has jumps only. Operands may be values of a program as well as
whole matrices; some are numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..notation.operand import Operand, apply

Parts = tuple[Any, ...]
Rule = Callable[..., Parts]


def product(a: Any, b: Any) -> Any:
    """Return a * b; a factor of 1 is left out."""
    if not isinstance(a, Operand) and a == 1.0:
        return b
    if not isinstance(b, Operand) and b == 1.0:
        return a
    if not isinstance(a, Operand) and a == -1.0:
        return -b
    return a * b


def _power(g: Any, y: Any, a: Any, b: Any) -> Parts:
    by_base = product(g, b * a ** (b - 1.0)) if isinstance(a, Operand) else None
    if not isinstance(b, Operand):
        return by_base, None
    if not isinstance(a, Operand):
        return None, product(g, y * math.log(a)) if a > 0 else 0.0
    return by_base, product(g, apply("where", a > 0.0, y * apply("log", a), 0.0))


def _larger(g: Any, y: Any, a: Any, b: Any) -> Parts:
    first = a >= b  # of equal ones, the first
    return product(g, first), product(g, 1.0 - first)


def _smaller(g: Any, y: Any, a: Any, b: Any) -> Parts:
    first = a <= b
    return product(g, first), product(g, 1.0 - first)


def _chosen(g: Any, y: Any, c: Any, a: Any, b: Any) -> Parts:
    return None, apply("where", c, g, 0.0), apply("where", c, 0.0, g)


_STEPS = ("sign", "floor", "less", "less_equal", "equal", "not_equal", "logical_and", "logical_or")

DERIVATIVES: dict[str, Rule] = {
    "copy": lambda g, y, a: (g,),
    "full": lambda g, y, a, b: (None, g),
    "add": lambda g, y, a, b: (g, g),
    "sub": lambda g, y, a, b: (g, product(-1.0, g)),
    "mul": lambda g, y, a, b: (product(g, b), product(g, a)),
    "div": lambda g, y, a, b: (g / b, product(-1.0, product(g, y / b))),
    "pow": _power,
    "neg": lambda g, y, a: (product(-1.0, g),),
    "abs": lambda g, y, a: (product(g, apply("sign", a)),),
    "sqrt": lambda g, y, a: (g / (y + y),),
    "exp": lambda g, y, a: (product(g, y),),
    "log": lambda g, y, a: (g / a,),
    "cos": lambda g, y, a: (product(g, -apply("sin", a)),),
    "sin": lambda g, y, a: (product(g, apply("cos", a)),),
    "tanh": lambda g, y, a: (product(g, 1.0 - y * y),),
    "maximum": _larger,
    "minimum": _smaller,
    "where": _chosen,
    "lgamma": lambda g, y, a: (product(g, apply("digamma", a)),),
    "sigmoid": lambda g, y, a: (product(g, y * (1.0 - y)),),
    "softplus": lambda g, y, a: (product(g, apply("sigmoid", a)),),
    **dict.fromkeys(_STEPS, lambda g, y, *args: (None,) * len(args)),
}
"""The rule of each operation. An operation without one cannot be differentiated."""
