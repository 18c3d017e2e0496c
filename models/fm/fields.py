"""Give features other factors for each field of their partners: field-aware machines.

Juan, Zhuang, Chin, Lin, *Field-aware factorization machines for CTR prediction*, RecSys 2016: a
pair of feature a, of field f, and feature b, of field g, weighs V_a,g . V_b,f.

The table has columns for all F x F pairs (f, g) of fields, of which feature a uses those of its own
f; the others stay 0. So S = X V holds the sums S_fg of each row, and the sum over its pairs is
(sum_fg S_fg . S_gf - sum_a x_a^2 V_a,f . V_a,f) / 2. The cost is linear in the non-zeros, but F
times that of libffm, which stores no zeros: use it for tens of fields, not for hundreds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from blocklearn.matcache import MatCache, from_array

from ..errors import ModelConfigError

FieldSizes = list[int] | Literal["names"]


class FieldPairs:
    """Where the factors of pairs of fields lie.

    pairs: F x F.
    own: [1 x pairs * n], 1 where both fields are the same.
    mask: [features x pairs * n], 1 at the field of each feature.
    partner: int64 [pairs * n], for column (f, g) that of (g, f).
    """

    def __init__(self, cache: MatCache, fields: NDArray[np.int64], n: int) -> None:
        """Lay out the table. fields: [features], numbers from 0. n: columns of a pair of fields."""
        count = int(fields.max()) + 1
        f, g, k = np.indices((count, count, n)).reshape(3, -1)
        self.pairs = count * count
        self.partner = (g * count + f) * n + k
        self.own = from_array(cache, (f == g).astype(np.float32), "pairs in one field")
        mask = (fields[:, None] == f).astype(np.float32)
        self.mask = from_array(cache, mask, "fields of features")


def fields_of(given: FieldSizes, columns: int, names: Sequence[str] | None) -> NDArray[np.int64]:
    """Return the field of each column, numbers from 0, [columns].

    given: the columns of each field, in their order; "names": the name before "=" is the field.

    Raises ModelConfigError if these are not all columns, or have no names.

    >>> fields_of([2, 1], 3, None).tolist()
    [0, 0, 1]
    >>> fields_of("names", 3, ["city=Rome", "age", "city=Oslo"]).tolist()
    [0, 1, 0]
    """
    if given == "names":
        if names is None:
            raise ModelConfigError(
                "fm: fields=names: must be a list of sizes: the columns of these data have no "
                "names. Set fields: [columns of the first field, ...]."
            )
        order: dict[str, int] = {}
        found = [order.setdefault(name.partition("=")[0], len(order)) for name in names]
        return np.array(found, np.int64)
    if sum(given) != columns:
        raise ModelConfigError(
            f"fm: fields={given}: must add up to {columns:,}, the columns of the data; they add "
            f"up to {sum(given):,}. Set the columns of each field."
        )
    return np.repeat(np.arange(len(given)), given)
