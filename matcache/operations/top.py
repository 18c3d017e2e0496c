"""Find the largest entries of each row of a product, without the product."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..containers.launching import launch
from ..containers.lazy import Lazy
from ..containers.matrices import Mat, SparseMat, slots_of
from ..errors import ShapeError, source_line


class Top(NamedTuple):
    """The best table rows for each row.

    ids: int32 [rows x n], numbers of table rows, best first.
    scores: float32 [rows x n].

    If fewer than n table rows count, the last ids are -1, with score -inf.
    """

    ids: Mat
    scores: Mat


def top_products(
    rows: Lazy, table: Lazy, n: int, *, leave_out: SparseMat | None = None, unit: bool = False
) -> Top:
    """For each row, find the n table rows with the largest products with it.

    rows: float32 [r x k].
    table: float32 [m x k or more]; only its first k columns count.
    n: results for each row.
    leave_out: [r x m]; table rows at its stored entries, whatever their values, are not considered.
    unit: scale table rows to length 1. If rows have length 1 too, products are cosines.

    NaN products are not considered. Of equal products the lower number comes first. Apart from the
    result, each thread needs memory for a tile of the table. A row's result, to the last bit,
    depends only on that row, the table and what it leaves out.
    """
    mats = [rows.mat(), table.mat()]
    if any(m.pattern is not None or m.dtype != np.float32 for m in mats):
        raise ShapeError(f"top_products at {source_line()}: rows and table must be dense float32.")
    (r, k), (m, columns) = mats[0].shape, mats[1].shape
    if k > columns or n < 1:
        raise ShapeError(
            f"top_products at {source_line()}: rows {r} x {k}, table {m} x {columns}, n={n}; the "
            f"table must have at least {k} columns, and n must be at least 1."
        )
    if leave_out is not None:
        if leave_out.shape != (r, m):
            raise ShapeError(
                f"top_products at {source_line()}: leave_out is {leave_out.shape}; expected "
                f"{(r, m)}, a row for each row and a column for each row of the table."
            )
        mats.append(leave_out.mat())
    cache = mats[0].cache
    key = (("top_products", n, unit), *(mat.guid for mat in mats))
    ids = cache.result((*key, "ids"), (r, n), np.int32, "numbers of the largest products")
    scores = cache.result((*key, "scores"), (r, n), np.float32, "largest products")
    if any([cache.begin(slot) for slot in (ids, scores)]):  # noqa: C419 - each must begin
        for slot in (ids, scores):
            slot.written()
        pattern = None if leave_out is None else leave_out.pattern
        launch(cache, "top_products", mats[0].slot, mats[1].slot, unit, pattern, scores, ids)
        cache.count(2 * r * m * k)
        for slot in (ids, scores):
            slot.computed_from(*slots_of(mats))
    return Top(Mat(cache, ids), Mat(cache, scores))
