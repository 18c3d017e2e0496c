"""Normal equations of many small least squares problems: summed and solved.

All matrices are float32. A system that is singular in float32 is solved as if it had a small ridge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..containers.chunks import turned
from ..containers.expressions import Node
from ..containers.launching import launch
from ..containers.lazy import Lazy
from ..containers.matrices import Mat, SparseMat
from ..containers.slots import Slot
from ..errors import ShapeError, source_line
from .packing import packed
from .products import of_product
from .rounding import as_table

Operands = dict[str, tuple[Mat, tuple[int, int]]]  # name -> Mat and its required shape
SHARED = ("gram", "free", "scale", "shift")  # operands that all systems share; each may be missing
MOST = 130  # most unknowns: a kernel's text grows with their square


@dataclass(frozen=True)
class Systems:
    """Containers of n systems of k unknowns, without the entries of their matrices.

    out: the solutions [n x k].

    See `solve_rows` for the others.
    """

    gram: Slot | None
    free: Slot | None
    scale: Slot | None
    shift: Slot | None
    ridge: Slot
    rhs: Slot
    out: Slot

    @classmethod
    def of(cls, mats: Operands, out: Slot) -> Systems:
        """Make it from operands by name."""
        shared = {name: mats[name][0].slot if name in mats else None for name in SHARED}
        return cls(**shared, ridge=mats["ridge"][0].slot, rhs=mats["rhs"][0].slot, out=out)

    @property
    def flops(self) -> int:
        """The floating point operations of solving all systems."""
        n, k = self.out.shape
        return n * (k**3 // 3 + 2 * k * k)


def solve_rows(
    weights: SparseMat,
    table: Lazy,
    ridge: Lazy,
    rhs: Lazy,
    *,
    gram: Lazy | None = None,
    free: Lazy | None = None,
    diagonal: tuple[Lazy, Lazy] | None = None,
) -> Node:
    """Solve (sum_j w_ij v_j v_j' + gram + D_i) x = rhs_i for each row i.

    weights: sparse [n x m], not negative.
    table: [m x k], whose rows are v_j.
    ridge: [n x 1], positive.
    rhs: [n x k].
    gram: [k x k], positive semidefinite.
    free: [1 x k], 0 where x is known. There x is taken from rhs, and the other equations are solved
    for the rest.
    diagonal: scale and shift, [1 x k] each; D_i is ridge_i scale + shift. None: D_i is ridge_i.

    Returns the solutions [n x k].
    """
    (n, m), k = weights.shape, table.shape[1]
    mats: Operands = {
        "table": (table.mat(), (m, k)),
        "ridge": (ridge.mat(), (n, 1)),
        "rhs": (rhs.mat(), (n, k)),
        **_shared(k, gram, free, diagonal),
    }
    _check("solve_rows", k, mats)
    cache, pattern, weights = table.cache, weights.pattern, _weights("solve_rows", weights)
    mats["table"] = as_table(mats["table"][0], weights), (m, k)

    def compute(slot: Slot) -> None:
        systems = Systems.of(mats, slot)
        launch(cache, "solve_rows", pattern, weights.slot, mats["table"][0].slot, systems)
        cache.count(systems.flops, pattern, k * (k + 1))

    operands = (weights, *(mat for mat, _ in mats.values()))
    return Node(
        cache,
        (n, k),
        np.float32,
        key=("solve_rows", gram is None, free is None, diagonal is None),
        operands=operands,
        compute=compute,
        label=f"solve_rows({weights.label}, {table.label})",
        padding=of_product(mats["rhs"][0]),
    )


def packed_columns(k: int) -> int:
    """Return the number of columns of `sums` in `add_outer`, for k unknowns."""
    return packed(k)


def add_outer(sums: Mat, weights: SparseMat, table: Lazy) -> None:
    """Add weighted outer products: sums[c] += sum over i of weights[i, c] v_i v_i'.

    sums: [m x packed_columns(k)].
    weights: sparse [n x m], with its transposed index.
    table: [n x k], whose rows are v_i.

    Only stored entries (i, c) count. Rows are added in ascending order.
    """
    (n, m), k = weights.shape, table.shape[1]
    table = table.mat()
    _check("add_outer", k, {"table": (table, (n, k)), "sums": (sums, (m, packed(k)))})
    cache, pattern, weights = sums.cache, weights.pattern, _weights("add_outer", weights)
    table = as_table(table, weights)
    sums.check(sums.version)
    turned(cache, pattern)
    sums.slot.written()
    sums.follow()
    launch(cache, "add_outer", pattern, weights.slot, table.slot, sums.slot)
    cache.count(0, pattern, k * (k + 1))


def solve_sums(
    sums: Mat,
    ridge: Lazy,
    rhs: Lazy,
    *,
    gram: Lazy | None = None,
    free: Lazy | None = None,
    diagonal: tuple[Lazy, Lazy] | None = None,
) -> Node:
    """Solve (sums_i + gram + D_i) x = rhs_i for each row i.

    sums: [m x packed_columns(k)], from `add_outer`.
    ridge: [m x 1].
    rhs: [m x k].
    gram, free, diagonal: as in `solve_rows`.

    Returns the solutions [m x k].
    """
    m, k = rhs.shape
    mats: Operands = {
        "sums": (sums.mat(), (m, packed(k))),
        "ridge": (ridge.mat(), (m, 1)),
        "rhs": (rhs.mat(), (m, k)),
        **_shared(k, gram, free, diagonal),
    }
    _check("solve_sums", k, mats)
    cache = sums.cache

    def compute(slot: Slot) -> None:
        systems = Systems.of(mats, slot)
        launch(cache, "solve_sums", mats["sums"][0].slot, systems)
        cache.count(systems.flops)

    return Node(
        cache,
        (m, k),
        np.float32,
        key=("solve_sums", gram is None, free is None, diagonal is None),
        operands=tuple(mat for mat, _ in mats.values()),
        compute=compute,
        label=f"solve_sums({sums.label})",
    )


def _shared(
    k: int, gram: Lazy | None, free: Lazy | None, diagonal: tuple[Lazy, Lazy] | None
) -> Operands:
    """Return the operands that all systems share, without those that are None."""
    given = zip(SHARED, (gram, free, *(diagonal or (None, None))), (k, 1, 1, 1), strict=True)
    return {name: (mat.mat(), (rows, k)) for name, mat, rows in given if mat is not None}


def _weights(what: str, weights: SparseMat) -> Any:
    """Return the values of the weights. Raises ShapeError if they are not float32."""
    if weights.dtype != np.float32:
        raise ShapeError(
            f"{what} at {source_line()}: {weights.label} is {weights.dtype}; must be float32."
        )
    return weights.mat()


def _check(what: str, k: int, mats: Operands) -> None:
    if not 1 <= k <= MOST:
        raise ShapeError(f"{what} at {source_line()}: unknowns={k:,}: must be 1 to {MOST}.")
    for name, (mat, shape) in mats.items():
        if mat.shape != shape or mat.dtype != np.float32 or mat.pattern is not None:
            raise ShapeError(
                f"{what} at {source_line()}: {name} is {mat.shape[0]} x {mat.shape[1]} "
                f"{mat.dtype}; expected {shape[0]} x {shape[1]} float32, dense."
            )
