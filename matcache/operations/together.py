"""Several results of dense expressions, in one pass over their operands."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..containers.expressions import result_dtype
from ..containers.lazy import Lazy, Shape, Transposed
from ..containers.matrices import Mat, handle
from ..errors import ShapeError, source_line
from ..notation import functions
from ..program.instructions import Ending
from .build import operand, real_rows
from .dense import compiled, parts_of, run
from .elementwise import text_of

_ENDINGS: dict[Any, Ending] = {
    functions.copy: "assign",
    functions.total: "total",
    functions.colsum: "colsum",
    functions.colmax: "colmax",
}
_IGNORED = {"total": 0.0, "colsum": 0.0, "colmax": -np.inf}  # what padding rows count as


def together(*wanted: tuple[Any, Any]) -> tuple[Mat, ...]:
    """Compute several results of dense expressions in one kernel.

    wanted: pairs (what, x). `what` is `copy`, `total`, `colsum` or `colmax`, or a dense matrix that
        x is assigned to. All x are elementwise expressions of one shape.

    Returns a matrix for each pair. This example reads A and B once:

        C, columns, whole = together((C, A + B), (colsum, A + B), (total, A + B))

    What expressions have in common is computed once. If a matrix is float64, all is computed in
    float64. In float32, results have the bits of separate kernels, with two exceptions. A kernel of
    one `total` may reorder its arithmetic. Where expressions share a product and one adds to it,
    that sum may be rounded once or twice.

    Raises ShapeError if a pair is something else, or if shapes differ.
    """
    given = [x.of if isinstance(x, Transposed) else x for _, x in wanted]
    cache = next((x.cache for x in given if isinstance(x, Lazy)), None)
    if cache is None:
        raise ShapeError(f"together at {source_line()}: no matrix; must be pairs (what, matrix).")
    cache.require_open("together")
    pairs = [(what, operand(cache, "together", x)) for what, x in wanted]
    shape = _shape_of(pairs)
    if cache.recording is not None:
        cache.recording.note("together", tuple([part for pair in pairs for part in pair]))

    endings = tuple([_ENDINGS.get(what, "assign") for what, _ in pairs])
    roots = [
        x if ending == "assign" else real_rows(x, _IGNORED[ending])
        for (_, x), ending in zip(pairs, endings, strict=True)
    ]
    every = [mat for pair in pairs for mat in pair if isinstance(mat, Lazy)]
    precise = any(result_dtype([mat]) == np.float64 for mat in every)
    targets = [what for what, _ in pairs]
    dtype = "float64" if precise else "float32"
    found, args = compiled(cache, roots, shape, endings, dtype, targets)
    results: list[Mat] = []
    for n, (what, x) in enumerate(pairs):
        if isinstance(what, Mat):
            results.append(what)
            continue
        sides = {functions.copy: shape, functions.total: (1, 1)}.get(what, (1, shape[1]))
        number = np.float64 if what is functions.total else result_dtype([x])
        key = (("dense", found, shape, n), *parts_of(args))
        slot = cache.result(key, sides, number, f"{what.__name__}({x.label})")
        results.append(handle(cache, slot))
    run(cache, found, args, shape, tuple([mat.slot for mat in results]))
    for (_, x), ending, result in zip(pairs, endings, results, strict=True):
        if ending == "assign":
            result.slot.padding = x.padding
        result.follow()
    return tuple(results)


def _shape_of(pairs: list[tuple[Any, Any]]) -> Shape:
    """Return the shape of all expressions, and of what they are assigned to.

    Raises ShapeError if they differ, or if a pair cannot be computed.
    """
    shape: Shape = pairs[0][1].shape
    for what, x in pairs:
        name = getattr(what, "label", None) or getattr(what, "__name__", repr(what))
        if not isinstance(what, Mat) and what not in _ENDINGS:
            known = ", ".join(function.__name__ for function in _ENDINGS)
            raise ShapeError(
                f"together at {source_line()}: {name}: must be {known}, or a matrix to assign to."
            )
        for mat in (what, x) if isinstance(what, Mat) else (x,):
            if mat.pattern is not None or mat.shape != shape:
                raise ShapeError(
                    f"together at {source_line()}: {mat.label} is {text_of(mat.shape)}; must be "
                    f"dense and {text_of(shape)}, like the first."
                )
    targets = [what.guid for what, _ in pairs if isinstance(what, Mat)]
    if len(set(targets)) < len(targets):
        raise ShapeError(f"together at {source_line()}: a matrix is assigned to twice.")
    return shape
