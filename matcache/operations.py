"""What each operation does on Mats: builds a node, or sends row-local work to a row-wise kernel.

`build(cache, op, args)` is the front door of `Lazy._apply`; one function per family of operations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import fused
from .cache import MatCache
from .cpu import ROW_CHUNKS
from .elementwise import ELEMENTWISE
from .errors import ShapeError
from .lazy import Elementwise, Lazy, Mat, Node, Scalar, Shape, SparseMat, Transposed
from .operand import apply
from .rowwise import Rowwise, run, values_container
from .slots import PatternSlot, Slot, source_line

FLOAT32 = np.dtype(np.float32)


def build(cache: MatCache, op: str, args: tuple[Any, ...]) -> Any:
    """The node, or the result, of `op` on `args`."""
    args = tuple(_operand(cache, op, a) for a in args)
    if op in ELEMENTWISE:
        return _elementwise(cache, op, args)
    if op in _BUILDERS:
        return _BUILDERS[op](cache, *args)
    raise ShapeError(f"{op}: no such operation on matrices.")


def _operand(cache: MatCache, op: str, arg: Any) -> Any:
    if isinstance(arg, Lazy):
        if arg.cache is not cache:
            raise ShapeError(f"{op} at {source_line()}: {arg.label} belongs to another cache.")
        return arg
    if isinstance(arg, Transposed):
        return _transpose(cache, _operand(cache, op, arg.of))
    if isinstance(arg, int | float | np.number):
        return float(arg)
    raise ShapeError(
        f"{op} at {source_line()}: {type(arg).__name__} is not a matrix of this cache. Bring arrays in "
        "once, with cache.mat(array) or cache.sparse(matrix)."
    )


# ---------------------------------------------------------------- elementwise


def _elementwise(cache: MatCache, op: str, args: tuple[Lazy | float, ...]) -> Elementwise:
    lazies = [a for a in args if isinstance(a, Lazy)]
    pattern: PatternSlot | None = None
    for arg in lazies:
        if arg.pattern is not None:
            if pattern is not None and pattern is not arg.pattern:
                raise ShapeError(
                    f"{op} at {source_line()}: {lazies[0].label} and {arg.label} have different "
                    "patterns of non-zeros. Elementwise operations act on the stored entries."
                )
            pattern = arg.pattern
    if pattern is not None:
        shape = (pattern.rows, pattern.columns)
        for arg in lazies:
            if arg.pattern is None:
                _broadcast(op, shape, arg.shape)
    else:
        shape = lazies[0].shape
        for arg in lazies[1:]:
            shape = _broadcast(op, shape, arg.shape)
    return Elementwise(cache, op, args, shape, _dtype(lazies), pattern)


def _broadcast(op: str, a: Shape, b: Shape) -> Shape:
    for x, y in zip(a, b, strict=True):
        if x != y and 1 not in (x, y):
            raise ShapeError(
                f"{op} at {source_line()}: shapes {a[0]}x{a[1]} and {b[0]}x{b[1]} do not fit; each "
                "side must be equal, or 1."
            )
    return (max(a[0], b[0]) if 0 not in (a[0], b[0]) else 0, max(a[1], b[1]))


def _dtype(lazies: list[Lazy]) -> np.dtype[Any]:
    """float64 if a matrix is (a 1 x 1 does not count) or if all are integers; else float32."""
    large = [a.dtype for a in lazies if a.shape != (1, 1)] or [a.dtype for a in lazies]
    if any(d == np.float64 for d in large) or all(d.kind in "iu" for d in large):
        return np.dtype(np.float64)
    return FLOAT32


def _signature(node: Lazy | float, leaves: list[Any], places: dict[int, str]) -> str:
    """The structure of a tree as text; its leaves and numbers go into `leaves`, in order."""
    if isinstance(node, Elementwise) and node._result is None:
        for arg, version in zip(node.args, node.versions, strict=True):
            if isinstance(arg, Mat):
                arg.check(version)
        inner = ",".join(_signature(a, leaves, places) for a in node.args)
        return f"{node.op}({inner})"
    leaf = node.mat() if isinstance(node, Lazy) else node
    if isinstance(leaf, Mat):
        if leaf.guid not in places:
            places[leaf.guid] = f"${len(leaves)}"
            leaves.append(leaf)
        return places[leaf.guid]
    leaves.append(leaf)
    return f"${len(leaves) - 1}"


def evaluate(node: Elementwise) -> Mat:
    """Compute an elementwise expression into its container of the cache."""
    cache = node.cache
    if node.pattern is not None:
        result = _rowlocal(node)
        assert isinstance(result, Mat)
        return result
    dtype = node.dtype
    linear = fused.linearise(node, node.shape, "assign", dtype.name)
    key = (("fused", linear.fused), *(m.guid for m in linear.operands), *linear.numbers)
    slot = cache.result(key, node.shape, dtype, node.label)
    if cache.begin(slot):
        fused.run(cache, linear, node.shape, slot)
        slot.written()
        slot.inputs = tuple((m.slot, m.slot.version) for m in linear.operands)
        slot.computed = slot.version
    return Scalar(cache, slot) if node.shape == (1, 1) else Mat(cache, slot)


def _rowlocal(*roots: Lazy, then: Callable[..., Any] | None = None, name: str = "") -> Any:
    """Run elementwise trees (of a sparse matrix, say) as one row-wise kernel.

    then: what to do with the values inside the kernel, `name` its name; by default they are returned.
    """
    leaves: list[Any] = []
    places: dict[int, str] = {}
    text = "; ".join(_signature(r, leaves, places) for r in roots)
    structure = f"{name}[{text}]"
    function = _ROWLOCAL.get(structure)
    if function is None:
        shapes = list(roots)

        def body(*inputs: Any) -> Any:
            values = iter(_rebuild(text, inputs))
            result = tuple(values)
            return then(*result) if then is not None else result[0]

        del shapes
        body.__name__ = name or roots[0].label
        function = _ROWLOCAL[structure] = Rowwise(body)
    return run(function, tuple(leaves), key=structure)


_ROWLOCAL: dict[str, Rowwise] = {}  # by structure: compiled programs, which are immutable


def _rebuild(text: str, inputs: tuple[Any, ...]) -> list[Any]:
    """Apply the operations that `_signature` wrote down, to `inputs`."""
    results = []
    for tree in text.split("; "):
        value, rest = _parse(tree, inputs)
        assert not rest
        results.append(value)
    return results


def _parse(text: str, inputs: tuple[Any, ...]) -> tuple[Any, str]:
    if text.startswith("$"):
        end = 1
        while end < len(text) and text[end].isdigit():
            end += 1
        return inputs[int(text[1:end])], text[end:]
    op, _, rest = text.partition("(")
    args = []
    while True:
        value, rest = _parse(rest, inputs)
        args.append(value)
        closing, rest = rest[0], rest[1:]
        if closing == ")":
            return apply(op, *args), rest


# ---------------------------------------------------------------- assignment


def assign(target: Mat, value: Any) -> None:
    """target <<= value: compute into the target's own container."""
    cache = target.cache
    value = _operand(cache, "<<=", value)
    if isinstance(target, SparseMat) or (isinstance(value, Lazy) and value.pattern is not None):
        _assign_sparse(target, value)
        return
    if isinstance(value, Lazy) and _broadcast("<<=", target.shape, value.shape) != target.shape:
        raise ShapeError(
            f"<<= at {source_line()}: {target.label} is {target.shape}, the value {value.shape}."
        )
    if isinstance(value, Node) and value._result is None and value.shape == target.shape:
        own = any(o.guid == target.guid for o in value.operands)
        if not own and value.dtype == target.dtype:
            value.run(target.slot)
            return
    dtype = "float64" if target.dtype == np.float64 else "float32"
    if target.dtype.kind in "iu":
        dtype = "float64"
    linear = fused.linearise(value, target.shape, "assign", dtype)
    fused.run(cache, linear, target.shape, target.slot)
    target.slot.written()


def _assign_sparse(target: Mat, value: Any) -> None:
    if not isinstance(target, SparseMat) or not (
        isinstance(value, float) or value.pattern in (None, target.pattern)
    ):
        raise ShapeError(
            f"<<= at {source_line()}: {target.label} and the value do not have the same pattern of "
            "non-zeros; a sparse matrix can be assigned only what was computed on its own pattern."
        )

    def store(place: Any, result: Any) -> None:
        place <<= result

    if isinstance(value, float):
        value = target * 0.0 + value
    _rowlocal(target, value, then=store, name="assign")


# ---------------------------------------------------------------- products


def _matmul(cache: MatCache, left: Any, right: Any) -> Any:
    if not isinstance(left, Lazy) or not isinstance(right, Lazy) or right.pattern is not None:
        raise ShapeError(
            f"@ at {source_line()}: {_name(left)} @ {_name(right)}: the right side must be dense."
        )
    _inner(left.shape, right.shape)
    if left.pattern is not None:
        return run(_SPARSE_MATMUL, (left.mat(), right.mat()))

    def compute(slot: Slot) -> None:
        cache.backend.matmul(_data(left), _data(right), slot.array)
        cache.flops += 2 * left.shape[0] * left.shape[1] * right.shape[1]

    shape = (left.shape[0], right.shape[1])
    return _node(cache, shape, "matmul", (left, right), compute)


def _transposed_matmul(cache: MatCache, left: Any, right: Any) -> Any:
    """left.T @ right."""
    if not isinstance(right, Lazy) or right.pattern is not None:
        raise ShapeError(f"@ at {source_line()}: {left.label}.T @ {_name(right)}: the right side must be dense.")
    _inner((left.shape[1], left.shape[0]), right.shape)
    left, right = left.mat(), right.mat()
    shape = (left.shape[1], right.shape[1])
    if left.pattern is None:

        def dense(slot: Slot) -> None:
            cache.backend.matmul(_data(left).T, _data(right), slot.array)
            cache.flops += 2 * shape[0] * shape[1] * left.shape[0]

        return _node(cache, shape, "transposed_matmul", (left, right), dense)

    pattern = left.pattern

    def sparse(slot: Slot) -> None:
        if pattern.starts is None or pattern.active is None:
            raise ShapeError(f"{left.label}.T: this sparse matrix has no transposed index.")
        backend = cache.backend
        bounds = cache.result(
            ("column bounds", pattern.guid), (1, ROW_CHUNKS + 1), np.int64, "bounds of column chunks"
        )
        assert bounds.array is not None and left.slot.array is not None
        backend.kernels["balance"](pattern.starts, pattern.active_count, bounds.array[0])
        backend.run(
            backend.kernels["transposed_product"],
            ROW_CHUNKS,
            bounds.array[0],
            pattern.active,
            pattern.starts,
            pattern.t_rows,
            pattern.t_pos,
            left.slot.array[0],
            _data(right),
            slot.array,
        )
        cache.flops += 2 * pattern.nnz * shape[1]

    if cache.reserving:
        cache.result(
            ("column bounds", pattern.guid), (1, ROW_CHUNKS + 1), np.int64, "bounds of column chunks"
        )
    return _node(cache, shape, "transposed_matmul", (left, right), sparse)


def _matmul_transposed(cache: MatCache, left: Any, right: Any) -> Any:
    """left @ right.T, both dense."""
    if not isinstance(left, Lazy) or left.pattern is not None or right.pattern is not None:
        raise ShapeError(
            f"@ at {source_line()}: {_name(left)} @ {right.label}.T: both must be dense; for a sparse "
            "matrix, sddmm(rows, table, pattern) computes the entries of a product at its non-zeros."
        )
    _inner(left.shape, (right.shape[1], right.shape[0]))

    def compute(slot: Slot) -> None:
        cache.backend.matmul(_data(left), _data(right).T, slot.array)
        cache.flops += 2 * left.shape[0] * left.shape[1] * right.shape[0]

    return _node(
        cache, (left.shape[0], right.shape[0]), "matmul_transposed", (left, right), compute
    )


def _gram(cache: MatCache, x: Any) -> Any:
    x = x.mat()
    return _transposed_matmul(cache, x, x)


def _sddmm(cache: MatCache, rows: Any, table: Any, pattern: Any) -> Any:
    if not isinstance(pattern, SparseMat):
        raise ShapeError(f"sddmm at {source_line()}: the third argument must be a sparse matrix.")
    return run(_SDDMM, (rows.mat(), table.mat(), pattern.mat()))


_SPARSE_MATMUL = Rowwise(lambda x, table: x @ table)
_SDDMM = Rowwise(lambda rows, table, pattern: apply("sddmm", rows, table, pattern))


# ---------------------------------------------------------------- sums, sorting, indexing


def _sum(ending: fused.Ending) -> Callable[[MatCache, Any], Any]:
    def reduce(cache: MatCache, x: Any) -> Any:
        if x.pattern is not None:
            if ending == "colsum":
                raise ShapeError(
                    f"colsum at {source_line()}: of a sparse matrix, use x.T @ ones instead."
                )
            x = apply("rowsum", x)
        shape = (1, 1) if ending == "total" else (1, x.shape[1])
        dtype = np.dtype(np.float64) if ending == "total" else x.dtype
        work = "float64" if x.dtype == np.float64 else "float32"
        linear = fused.linearise(x, x.shape, ending, work)
        key = (("fused", linear.fused), *(m.guid for m in linear.operands), *linear.numbers)
        slot = cache.result(key, shape, dtype, f"{ending}({x.label})")
        if cache.begin(slot):
            fused.run(cache, linear, x.shape, slot)
            slot.written()
            slot.inputs = tuple((m.slot, m.slot.version) for m in linear.operands)
            slot.computed = slot.version
        return Scalar(cache, slot) if shape == (1, 1) else Mat(cache, slot)

    return reduce


def _rowreduce(op: str) -> Callable[[MatCache, Any], Any]:
    def reduce(cache: MatCache, x: Any) -> Any:
        return _rowlocal(x, then=lambda value: apply(op, value), name=op)

    return reduce


def _sort(cache: MatCache, x: Any) -> Any:
    x = x.mat()
    if x.pattern is not None:
        raise ShapeError(f"sort at {source_line()}: {x.label} is sparse.")

    def compute(slot: Slot) -> None:
        assert slot.array is not None
        np.copyto(slot.array, _data(x))
        slot.array.sort(axis=1)

    return _node(cache, x.shape, "sort", (x,), compute, dtype=x.dtype)


def _transpose(cache: MatCache, x: Any) -> Any:
    x = x.mat()
    if x.pattern is not None:
        raise ShapeError(
            f"{x.label}.T at {source_line()}: of a sparse matrix it can only be the left side of @."
        )

    def compute(slot: Slot) -> None:
        assert slot.array is not None
        np.copyto(slot.array, _data(x).T)

    return _node(cache, (x.shape[1], x.shape[0]), "transpose", (x,), compute, dtype=x.dtype)


def gather(x: Lazy, index: Any) -> Any:
    """x[rows], x[rows, columns]: each an int, a slice, or an integer Mat or array of positions.

    Returns a Mat [number of rows x number of columns]. Positions out of range raise IndexError.
    """
    cache = x.cache
    if x.pattern is not None:
        raise ShapeError(f"{x.label}[...] at {source_line()}: a sparse matrix cannot be indexed.")
    rows, columns = index if isinstance(index, tuple) else (index, slice(None))
    row_mat = _positions(cache, rows, x.shape[0])
    column_mat = _positions(cache, columns, x.shape[1])
    source = x.mat()
    shape = (row_mat.shape[1], column_mat.shape[1])
    if cache.reserving:
        _bad(cache)

    def compute(slot: Slot) -> None:
        bounds = fused.even_bounds(cache, shape[0], _chunks(shape))
        bad = _bad(cache)
        bad.fill(0)
        cache.backend.run(
            cache.backend.kernels["gather"],
            _chunks(shape),
            bounds,
            _data(source),
            _data(row_mat)[0],
            _data(column_mat)[0],
            slot.array,
            bad,
        )
        for axis, positions in enumerate((row_mat, column_mat)):
            if place := int(bad[:, axis].max(initial=0)):
                found = int(_data(positions)[0, place - 1])
                raise IndexError(
                    f"{x.label}[...] at {source_line()}: position {found} on axis {axis}, which has "
                    f"{x.shape[axis]} entries."
                )

    if cache.reserving:
        fused.even_bounds(cache, shape[0], _chunks(shape))
    return _node(cache, shape, "gather", (source, row_mat, column_mat), compute, dtype=x.dtype)


def _chunks(shape: Shape) -> int:
    return max(1, min(ROW_CHUNKS, shape[0] * shape[1] // fused.CHUNK_ELEMENTS, shape[0]))


def _bad(cache: MatCache) -> np.ndarray[Any, Any]:
    slot = cache.result(("bad index",), (ROW_CHUNKS, 2), np.int64, "positions out of range")
    return slot.array if slot.array is not None else np.empty((0, 2), np.int64)


def _positions(cache: MatCache, index: Any, size: int) -> Mat:
    """Positions as an int64 Mat [1 x n]; a Mat given by the caller may change its contents."""
    if isinstance(index, Mat):
        if index.dtype != np.int64 or index.shape[0] != 1:
            raise ShapeError(
                f"index {index.label} at {source_line()}: it is {index.shape} {index.dtype}; positions "
                "are an int64 Mat of shape (1, n)."
            )
        return index.mat()
    if isinstance(index, slice):
        positions = np.arange(*index.indices(size), dtype=np.int64)
        key: Any = ("positions", *index.indices(size))
    else:
        positions = np.atleast_1d(np.asarray(index, dtype=np.int64))
        key = ("positions", positions.tobytes())
    slot = cache.result(key, (1, positions.size), np.int64, "positions")
    if slot.array is not None and slot.computed < 0:
        slot.array[0] = positions
        slot.computed = slot.version
    return Mat(cache, slot)


# ---------------------------------------------------------------- helpers


def _node(
    cache: MatCache,
    shape: Shape,
    op: str,
    operands: tuple[Lazy, ...],
    compute: Callable[[Slot], None],
    dtype: Any = None,
) -> Node:
    label = f"{op}({', '.join(o.label for o in operands)})"
    if dtype is None:
        dtype = _dtype(list(operands))
    return Node(cache, shape, dtype, key=(op,), operands=operands, compute=compute, label=label)


def _data(x: Lazy) -> np.ndarray[Any, Any]:
    array = x.mat().slot.array
    assert array is not None
    return array


def _inner(left: Shape, right: Shape) -> None:
    if left[1] != right[0]:
        raise ShapeError(
            f"@ at {source_line()}: {left[0]}x{left[1]} times {right[0]}x{right[1]}: "
            f"{left[1]} columns against {right[0]} rows."
        )


def _name(x: Any) -> str:
    return x.label if isinstance(x, Lazy) else repr(x)


_BUILDERS: dict[str, Callable[..., Any]] = {
    "matmul": _matmul,
    "transposed_matmul": _transposed_matmul,
    "matmul_transposed": _matmul_transposed,
    "gram": _gram,
    "sddmm": _sddmm,
    "total": _sum("total"),
    "colsum": _sum("colsum"),
    "rowsum": _rowreduce("rowsum"),
    "rowmax": _rowreduce("rowmax"),
    "rowmin": _rowreduce("rowmin"),
    "rownnz": _rowreduce("rownnz"),
    "sort": _sort,
}

__all__ = ["assign", "build", "evaluate", "gather", "values_container"]
