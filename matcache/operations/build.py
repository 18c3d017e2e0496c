"""Build a node for each operation on Mats, or send row-local work to a kernel.

`build(cache, op, args)` is the entry point of `Lazy._apply`. Sums of rows and columns and
assignment are here; `elementwise.py`, `products.py` and `indexing.py` hold the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache as remembered
from functools import partial
from typing import Any

import numpy as np

from ..containers.cache import MatCache
from ..containers.dispatch import operation
from ..containers.expressions import Elementwise, Node, result_dtype
from ..containers.lazy import Lazy, Transposed
from ..containers.matrices import Mat, SparseMat
from ..containers.recording import NUMBERS
from ..errors import ShapeError, source_line
from ..notation.elementwise import ELEMENTWISE
from ..notation.operand import Operand, apply
from ..program import padding
from ..program.dense import Reference, Step
from ..program.instructions import Ending
from . import dense
from .calls import run
from .dense import linearise
from .elementwise import broadcast, elementwise, text_of
from .indexing import concatenate, filled
from .products import gram, matmul, matmul_transposed, sddmm, transpose, transposed_matmul
from .rowwise import Rowwise
from .sorting import argsort, sort


@operation("build")
def build(cache: MatCache, op: str, args: tuple[Any, ...]) -> Any:
    """Return the node, or the result, of `op` on `args`.

    Raises ShapeError if `op` is unknown or the arguments do not fit it.
    """
    args = tuple([operand(cache, op, a) for a in args])
    before = cache.at_line()
    try:
        if op in ELEMENTWISE:
            return _noted(cache, op, args, elementwise(cache, op, args))
        if op not in _BUILDERS:
            raise ShapeError(f"op={op!r}: must be an operation on matrices.")
        for arg in args:
            if not isinstance(arg, Lazy):
                raise ShapeError(f"{op} at {source_line()}: {arg!r} is not a matrix.")
        return _noted(cache, op, args, _BUILDERS[op](cache, *args))
    finally:
        cache.line = before


def _noted(cache: MatCache, op: str, args: tuple[Any, ...], result: Any) -> Any:
    if cache.recording is not None:
        cache.recording.note(op, args, result, cache.line)
    return result


def operand(cache: MatCache, op: str, arg: Any) -> Any:
    """Return an argument of `op` as an expression or a number.

    Raises ShapeError if it is neither, or belongs to another cache.
    """
    if isinstance(arg, Lazy):
        if arg.cache is not cache:
            raise ShapeError(f"{op} at {source_line()}: {arg.label} belongs to another cache.")
        return arg
    if isinstance(arg, Transposed):
        return transpose(cache, operand(cache, op, arg.of))
    if isinstance(arg, NUMBERS):
        return float(arg)
    if isinstance(arg, Operand):
        raise ShapeError(
            f"{op} at {source_line()}: a matrix from outside a @rowwise function is used in it; "
            "pass it as an argument."
        )
    if arg is None:
        raise ShapeError(
            f"{op} at {source_line()}: None in place of a matrix; block.Y is None where the data "
            "have no targets: pass (X, Y). A @rowwise function without return gives None, too."
        )
    raise ShapeError(
        f"{op} at {source_line()}: {type(arg).__name__} is not a matrix of this cache. Bring "
        "arrays in once, with from_array(cache, array) or from_sparse(cache, matrix)."
    )


# ---------------------------------------------------------------- padding


def real_rows(x: Lazy, instead: float = 0.0) -> Lazy:
    """Replace padding rows of x by a number, unless they hold it already."""
    block, number = x.padding
    if block is None or number == instead:
        return x
    real = elementwise(x.cache, "less_equal", (0.0, block.handle()))
    return elementwise(x.cache, "where", (real, x, instead))


@operation("evaluate")
def evaluate(node: Elementwise) -> Mat:
    """Compute an elementwise expression into its container of the cache."""
    if node.pattern is not None:
        result = _rowlocal((node,), node.op, node.label)
        assert isinstance(result, Mat)
        return result
    result = dense.result(node.cache, node, "assign", node.shape, node.dtype, node.label)
    result.slot.padding = node.padding
    return result


def _rowlocal(roots: tuple[Any, ...], name: str, label: str) -> Any:
    """Run elementwise trees of one shape, or on one pattern, as one row-wise kernel.

    name: what the kernel does with their values: see `_expression`.
    label: of the result.
    """
    shape = roots[0].shape
    leaves, steps, results = linearise(roots, shape, roots[0].pattern)
    program = _expression(name, steps, results)
    key = ("expression", name, steps, results)
    return run(program, tuple(leaves), key=key, rows=shape[0], label=label)


@remembered
def _expression(name: str, steps: tuple[Step, ...], results: tuple[Reference, ...]) -> Rowwise:
    """Return the row-wise function of elementwise steps. All caches share what it compiles.

    results: of the steps. If `name` is "assign", the first one receives the second. If it is a
        reduction of rows, such as "rowsum", it is applied to the only one. Else that is returned.
    """

    def replay(*inputs: Any) -> Any:
        values = {("leaf", n): value for n, value in enumerate(inputs)}
        for n, (op, references) in enumerate(steps):
            values["step", n] = apply(op, *(values[r] for r in references))
        found = [values[r] for r in results]
        if name == "assign":
            found[0] <<= found[1]
            return None
        return found[0] if name in ELEMENTWISE else apply(name, *found)

    replay.__name__ = name
    return Rowwise(replay)


# ---------------------------------------------------------------- assignment


def _is_zero(value: Any) -> bool:
    """Return whether `value` is the number 0.0, and not -0.0."""
    return isinstance(value, float | int) and str(float(value)) == "0.0"


@operation("assign")
def assign(target: Mat, value: Any) -> None:
    """Compute `value` into the target's own container: target <<= value.

    Raises ShapeError if shapes or patterns differ.
    """
    cache = target.cache
    cache.require_open(f"{target.label} <<=")
    value = operand(cache, "<<=", value)
    _noted(cache, "<<=", (target, value), None)
    if _is_zero(value) and target.slot.cleared == target.slot.version and cache.tape is None:
        return  # a new table may be larger than memory
    if isinstance(target, SparseMat) or (isinstance(value, Lazy) and value.pattern is not None):
        _assign_sparse(target, value)
        return
    if isinstance(value, Lazy) and broadcast("<<=", target.shape, value.shape) != target.shape:
        raise ShapeError(
            f"<<= at {source_line()}: {target.label} is {text_of(target.shape)}, the value "
            f"{text_of(value.shape)}."
        )
    held = value.padding if isinstance(value, Lazy) else padding.Padding()
    target.slot.padding = held if held.block and value.shape[0] > 1 else padding.Padding()
    if isinstance(value, Node) and value.fits(target):
        value.run(target.slot)
        return
    dense.store(target, value)


def _assign_sparse(target: Mat, value: Any) -> None:
    fits = isinstance(value, float) or value.pattern in (None, target.pattern)
    if not isinstance(target, SparseMat) or not fits:
        raise ShapeError(
            f"<<= at {source_line()}: {target.label} and the value do not have the same pattern of "
            "non-zeros; a sparse matrix can be assigned only what was computed on its own pattern."
        )
    _rowlocal((target, value), "assign", target.label)


# ---------------------------------------------------------------- sums


def _sum(ending: Ending) -> Callable[[MatCache, Lazy], Any]:
    def reduce(cache: MatCache, x: Lazy) -> Any:
        if x.pattern is not None:
            if ending == "colsum":
                return transpose(cache, transposed_matmul(cache, x, _ones(cache, x)))
            x = apply("rowsum", x)
        x = real_rows(x)
        shape = (1, 1) if ending == "total" else (1, x.shape[1])
        dtype = np.float64 if ending == "total" else result_dtype([x])
        return dense.result(cache, x, ending, shape, dtype, f"{ending}({x.label})")

    return reduce


def _ones(cache: MatCache, x: Lazy) -> Mat:
    """Return a column of ones, as long as x."""
    shape = (x.shape[0], 1)
    slot = cache.result(("ones", shape, x.dtype.name), shape, x.dtype, "a column of ones")
    return filled(cache, slot, np.ones(shape) if slot.computed < 0 else None)


def _colmax(cache: MatCache, x: Lazy) -> Any:
    if x.pattern is not None:
        raise ShapeError(f"colmax at {source_line()}: {x.label} is sparse; it must be dense.")
    x = real_rows(x, -np.inf)
    dtype = result_dtype([x])
    return dense.result(cache, x, "colmax", (1, x.shape[1]), dtype, f"colmax({x.label})")


def real_count(x: Lazy) -> Lazy | float:
    """Return the number of rows of x that are no padding."""
    block = x.padding.block
    if block is None:
        return float(x.shape[0])
    found: Lazy = apply("total", block.handle() >= 0.0)
    return found


@operation("mean")
def mean(x: Lazy, axis: int | None) -> Any:
    """Return the mean of all entries (axis None), of columns (0) or of rows (1)."""
    count = 1.0 if axis in (1, -1) else real_count(x)
    return x.sum(axis) / (count if axis in (0, -2) else count * x.shape[1])


def _rowreduce(op: str) -> Callable[[MatCache, Lazy], Any]:
    def reduce(cache: MatCache, x: Lazy) -> Any:
        if op == "rownnz" and x.pattern is None:
            raise ShapeError(f"rownnz at {source_line()}: {x.label} is not sparse.")
        return _rowlocal((x,), op, f"{op}({x.label})")

    return reduce


def _matmul(cache: MatCache, left: Lazy, right: Lazy) -> Any:
    return matmul(cache, left, real_rows(right))


def _transposed_matmul(cache: MatCache, left: Lazy, right: Lazy) -> Any:
    if left.pattern is None and 0.0 not in (left.padding.number, right.padding.number):
        left, right = real_rows(left), real_rows(right)
    return transposed_matmul(cache, left, right)


def _gram(cache: MatCache, x: Lazy) -> Any:
    return gram(cache, real_rows(x))


_BUILDERS: dict[str, Callable[..., Any]] = {
    "matmul": _matmul,
    "transposed_matmul": _transposed_matmul,
    "matmul_transposed": matmul_transposed,
    "gram": _gram,
    "sddmm": sddmm,
    "transpose": transpose,
    "total": _sum("total"),
    "colsum": _sum("colsum"),
    "rowsum": _rowreduce("rowsum"),
    "rowmax": _rowreduce("rowmax"),
    "rowmin": _rowreduce("rowmin"),
    "rownnz": _rowreduce("rownnz"),
    "argmax": _rowreduce("argmax"),
    "argmin": _rowreduce("argmin"),
    "colmax": _colmax,
    "concatenate(axis=0)": partial(concatenate, axis=0),
    "concatenate(axis=1)": partial(concatenate, axis=1),
    "sort": sort,
    "argsort": argsort,
}
