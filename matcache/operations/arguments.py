"""Arguments of a row-wise function: describe them for its compiler, check shapes."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from ..containers.expressions import result_dtype
from ..containers.keys import number_key
from ..containers.lazy import Lazy, Transposed
from ..containers.local import LocalPattern, columns_of_data
from ..containers.matrices import Mat, SparseMat
from ..containers.slots import PatternSlot
from ..errors import ShapeError, source_line
from ..program.instructions import (
    Access,
    Argument,
    Dot,
    Gather,
    Kind,
    Product,
    Program,
    reads,
    walk,
)
from ..program.records import Structure, leaf_names


def is_static(arg: Any) -> bool:
    """Return whether tracing fixes an argument: None, a flag, a name, a function."""
    return arg is None or isinstance(arg, bool | str) or callable(arg)


def row_count(args: tuple[Any, ...]) -> int:
    """Return the rows of the first sparse argument, or else of the first matrix."""
    for arg in args:
        if isinstance(arg, Lazy) and arg.pattern is not None:
            return arg.shape[0]
        if isinstance(arg, Transposed) and arg.of.pattern is not None:
            return arg.shape[0]
    return next((a.shape[0] for a in args if isinstance(a, Lazy)), 0)


def describe(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    rows: int,
    structure: Structure | None = None,
) -> tuple[tuple[Argument, ...], str]:
    """Return what the compiler must know of the arguments, and the dtype of the work.

    args: leaves of the arguments of `function`.
    rows: rows of the program.
    structure: rebuilds the arguments from the leaves, see `records.flatten`.

    X.T of a sparse X makes a program that runs over the columns of X that occur.

    Raises ShapeError for arguments that do not fit together.
    """
    title = f"@rowwise {function.__name__}"
    patterns: list[PatternSlot] = []
    found: list[Argument] = []
    whole = next((columns_of_data(a.of.pattern) for a in args if _turns_local(a)), 0)
    for name, arg in zip(leaf_names(function, structure, len(args)), args, strict=True):
        position = 0
        if isinstance(arg, Transposed):
            arg = arg.of
            position = _position_bytes(arg)
        if is_static(arg):
            found.append(Argument("static", name))
        elif not isinstance(arg, Lazy):
            try:
                float(arg)
            except (TypeError, ValueError):
                raise ShapeError(
                    f"{title} at {source_line()}: '{name}' is a "
                    f"{type(arg).__name__}; arguments must be matrices of a cache (see from_array, "
                    "from_sparse), numbers, strings, booleans, functions, None, or tuples and "
                    "frozen dataclasses of these."
                ) from None
            found.append(Argument("number", name))
        elif arg.pattern is not None:
            if arg.pattern not in patterns:
                patterns.append(arg.pattern)
            place = patterns.index(arg.pattern)
            found.append(Argument("sparse", name, pattern=place, transposed=position))
        else:
            one = arg.shape[0] == 1
            local = bool(whole) and isinstance(arg, Mat) and arg.slot.grows == 0
            rowlike = local or arg.shape[0] == (whole or rows)
            found.append(Argument("mat", name, arg.shape[1], one, rowlike, local))
    if len({(pattern.beside or pattern).guid for pattern in patterns}) > 1:
        raise ShapeError(
            f"{title} at {source_line()}: {len(patterns)} sparse arguments with "
            "different patterns of non-zeros; they must share one (results of operations on one "
            "sparse matrix do), or be drawn for one another's entries (see Draws.beside)."
        )
    if len({a.transposed for a in found if a.form == "sparse"}) > 1:
        raise ShapeError(
            f"{title} at {source_line()}: both X and X.T among the arguments; a "
            "program runs over the rows of one of them."
        )
    if len(patterns) > 1 and any(a.transposed for a in found):
        raise ShapeError(
            f"{title} at {source_line()}: X.T beside a matrix drawn for its entries; their columns "
            "differ, so a program over columns can have only one of them."
        )
    mats = [
        a.of if isinstance(a, Transposed) else a for a in args if isinstance(a, Lazy | Transposed)
    ]
    if all(mat.shape == (1, 1) for mat in mats):  # the dtype they have beside other columns
        mats = [mat for mat in mats if mat.dtype == np.float32] or mats
    return tuple(found), result_dtype(mats).name


def _turns_local(arg: Any) -> bool:
    """Return whether an argument is X.T of an X whose columns are numbered in the block."""
    return isinstance(arg, Transposed) and isinstance(arg.of.pattern, LocalPattern)


def _position_bytes(x: Lazy) -> int:
    """Return the bytes of a position in the values of a sparse matrix."""
    return 4 if x.pattern is None else np.dtype(x.pattern.position_type).itemsize


def signature(arg: Any) -> Hashable:
    """Return everything in an argument that its program and its checks depend on."""
    if isinstance(arg, Transposed):
        return ("T", signature(arg.of))
    if isinstance(arg, Mat):
        return arg.guid if arg.pattern is None else (arg.guid, arg.pattern.capacity)
    return ("static", arg) if is_static(arg) else "number"


def key_part(arg: Any) -> Hashable:
    """Return what identifies an argument in the keys of results."""
    if isinstance(arg, Mat):
        return arg.guid
    return ("static", arg) if is_static(arg) else number_key(arg)


def patterns_of(args: tuple[Any, ...]) -> list[PatternSlot]:
    """Return the patterns of sparse arguments, in the order of their numbers."""
    return list(dict.fromkeys(a.pattern for a in args if isinstance(a, SparseMat)))


def check_shapes(program: Program, args: tuple[Any, ...]) -> None:
    """Check sizes, such as one table row per column of the sparse argument.

    Raises ShapeError.
    """
    sparse = next((a for a in args if isinstance(a, SparseMat)), None)
    across = 0 if program.transposed else 1
    what_across = f"{'columns' if across else 'rows'} of the sparse argument"

    def expect(argument: int, side: int, size: int, what: str) -> None:
        if args[argument].shape[side] != size:
            rows, columns = args[argument].shape
            raise ShapeError(
                f"@rowwise {program.name} at {source_line()}: "
                f"'{program.arguments[argument].name}' is {rows} x {columns}, but there "
                f"are {size} {what}. A table has one row per column of the data."
            )

    for instruction in walk(program.body):
        match instruction:
            case Dot() | Gather():
                assert sparse is not None
                expect(instruction.table, 0, sparse.shape[across], what_across)
            case Product():
                expect(instruction.matrix, 0, instruction.vec.length, "numbers in a row vector")
            case _:
                pass
        for value in reads(instruction):
            if value.access is Access.ENTRY and value.kind is Kind.VEC:
                expect(value.arg, 0, value.length, "numbers in a row vector")
            elif value.access in (Access.ENTRY, Access.COLUMN):
                assert sparse is not None
                side = 0 if value.access is Access.ENTRY else 1
                expect(value.arg, side, sparse.shape[across], what_across)
