"""The elementwise operations: definition in NumPy, text in Numba, text in C.

This table is the only place that lists them. The float64 reference uses `define`. The emitters use
the texts, in which {0}, {1}, {2} are the arguments and `F` is the kernel's float type. Comparisons
give 1.0 or 0.0. A division by zero gives inf or NaN, as in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

LEAST_EXPPSI = 1e-20  # of `exppsi`: products of denormal numbers are 15 to 50 times slower


@dataclass(frozen=True)
class Elementwise:
    """One operation. `flops` is its cost in the gflops figures."""

    arity: int
    define: Callable[..., Any]
    numba: str
    c: str
    flops: int = 1


def _full(x: Any, value: Any) -> Any:
    return np.broadcast_to(value, np.broadcast_shapes(np.shape(x), np.shape(value)))


def _exppsi(x: Any) -> Any:
    return np.maximum(np.exp(special.digamma(x)), LEAST_EXPPSI)


ELEMENTWISE: dict[str, Elementwise] = {
    "copy": Elementwise(1, np.positive, "{0}", "{0}", flops=0),
    "full": Elementwise(2, _full, "{1}", "{1}", flops=0),
    "add": Elementwise(2, np.add, "({0} + {1})", "({0} + {1})"),
    "sub": Elementwise(2, np.subtract, "({0} - {1})", "({0} - {1})"),
    "mul": Elementwise(2, np.multiply, "({0} * {1})", "({0} * {1})"),
    "div": Elementwise(2, np.divide, "({0} / {1})", "({0} / {1})"),
    "pow": Elementwise(2, np.power, "({0} ** {1})", "pow({0}, {1})"),
    "neg": Elementwise(1, np.negative, "(-{0})", "(-{0})"),
    "abs": Elementwise(1, np.abs, "abs({0})", "fabs({0})"),
    "sign": Elementwise(1, np.sign, "m.sign({0})", "bl_sign({0})"),
    "sqrt": Elementwise(1, np.sqrt, "m.sqrt({0})", "sqrt({0})"),
    "exp": Elementwise(1, np.exp, "m.exp({0})", "exp({0})"),
    "log": Elementwise(1, np.log, "m.log({0})", "log({0})"),
    "tanh": Elementwise(1, np.tanh, "m.tanh({0})", "tanh({0})"),
    "cos": Elementwise(1, np.cos, "m.cos({0})", "cos({0})"),
    "sin": Elementwise(1, np.sin, "m.sin({0})", "sin({0})"),
    "floor": Elementwise(1, np.floor, "m.floor({0})", "floor({0})"),
    "maximum": Elementwise(2, np.maximum, "m.maximum({0}, {1})", "bl_maximum({0}, {1})"),
    "minimum": Elementwise(2, np.minimum, "m.minimum({0}, {1})", "bl_minimum({0}, {1})"),
    "less": Elementwise(2, np.less, "F({0} < {1})", "F({0} < {1})"),
    "less_equal": Elementwise(2, np.less_equal, "F({0} <= {1})", "F({0} <= {1})"),
    "equal": Elementwise(2, np.equal, "F({0} == {1})", "F({0} == {1})"),
    "not_equal": Elementwise(2, np.not_equal, "F({0} != {1})", "F({0} != {1})"),
    "logical_and": Elementwise(
        2,
        np.logical_and,
        "F(({0} != F(0)) & ({1} != F(0)))",
        "F(({0} != F(0)) && ({1} != F(0)))",
    ),
    "logical_or": Elementwise(
        2,
        np.logical_or,
        "F(({0} != F(0)) | ({1} != F(0)))",
        "F(({0} != F(0)) || ({1} != F(0)))",
    ),
    "where": Elementwise(
        3,
        lambda c, a, b: np.where(np.not_equal(c, 0), a, b),
        "({1} if {0} != F(0) else {2})",
        "({0} != F(0) ? {1} : {2})",
    ),
    "lgamma": Elementwise(1, special.gammaln, "m.lgamma({0})", "bl_lgamma({0})"),
    "digamma": Elementwise(1, special.digamma, "m.digamma({0})", "bl_digamma({0})"),
    "exppsi": Elementwise(1, _exppsi, "m.exppsi({0})", "bl_exppsi({0})"),
    "sigmoid": Elementwise(1, special.expit, "m.sigmoid({0})", "bl_sigmoid({0})"),
    "softplus": Elementwise(
        1, lambda x: np.logaddexp(0.0, x), "m.softplus({0})", "bl_softplus({0})"
    ),
}
