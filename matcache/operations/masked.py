"""Products of two sparse matrices, at chosen entries only."""

from __future__ import annotations

from ..containers.expressions import result_dtype
from ..containers.launching import launch
from ..containers.lazy import Lazy, Transposed
from ..containers.matrices import SparseMat, slots_of
from ..containers.patterns import values_container
from ..errors import ShapeError, source_line


def masked_product(left: Lazy, right: Lazy | Transposed, mask: Lazy) -> SparseMat:
    """Return `left @ right` at the stored entries of `mask`, whatever their values.

    left: sparse [n x m].
    right: sparse [m x k], or `B.T` of a sparse B [k x m].
    mask: sparse [n x k]; the result has the same pattern.

    The product itself is never stored. An entry (i, j) costs a look at column j of right; where
    that is much longer than row i of left, it costs a search for each entry of the row. On the CPU
    each thread needs a row of left in dense form. Sums are of float64.

    `masked_product(A, A, A)` of the links of a graph counts, for each link, the detours of two
    links. With a link in both directions, their total is six times the number of triangles.

    Raises ShapeError where a matrix is dense, or the shapes do not fit.
    """
    of, turned = (right.of, False) if isinstance(right, Transposed) else (right, True)
    for name, x in (("left", left), ("right", of), ("mask", mask)):
        if not isinstance(x, Lazy) or x.pattern is None:
            raise ShapeError(
                f"masked_product at {source_line()}: {name} must be a sparse matrix"
                f"{' or its .T' if name == 'right' else ''}. Of dense rows and a table, at the "
                "entries of a mask, use sddmm(rows, table, mask)."
            )
    (n, m), (p, k) = left.shape, of.shape if turned else of.shape[::-1]
    if m != p or mask.shape != (n, k):
        raise ShapeError(
            f"masked_product at {source_line()}: left {n} x {m}, right {p} x {k}, mask "
            f"{mask.shape[0]} x {mask.shape[1]}; expected n x m, m x k, n x k."
        )
    a, b, pattern = (x.mat() for x in (left, of, mask))
    assert isinstance(a, SparseMat) and isinstance(b, SparseMat) and isinstance(pattern, SparseMat)
    cache, key = a.cache, ("masked_product", turned, a.guid, b.guid, pattern.pattern.guid)
    label = f"masked_product({left.label}, {of.label}{'' if turned else '.T'}, {mask.label})"
    slot = values_container(cache, key, pattern.pattern, result_dtype((a, b)), label)
    if cache.begin(slot):
        slot.written()
        launch(cache, "masked_product", a, b, turned, pattern.pattern, slot)
        slot.computed_from(*slots_of([a, b]), pattern.pattern)
    return SparseMat(cache, slot, pattern.pattern, pattern.tables)
