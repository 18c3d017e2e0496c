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

from blocklearn.matcache import from_array
from blocklearn.optimizers import Groups

from ..base import Model
from ..errors import ModelConfigError
from ..inputs import Drawn

FieldSizes = list[int] | Literal["names"]


class FieldPairs:
    """Where the factors of pairs of fields lie.

    pairs: F x F.
    own: [1 x pairs * n], 1 where both fields are the same.
    mask: 1 at the field of each feature, in a table [features x pairs * n].
    partner: int64 [pairs * n], for column (f, g) that of (g, f).
    """

    def __init__(self, model: Model, fields: NDArray[np.int32], n: int) -> None:
        """Lay out the table. fields: [features], numbers from 0. n: columns of a pair of fields."""
        count = int(fields.max()) + 1
        f, g, k = np.indices((count, count, n)).reshape(3, -1)
        self.pairs = count * count
        self.partner = (g * count + f) * n + k
        self.own = from_array(model.cache, (f == g).astype(np.float32), "pairs in one field")

        def some(features: NDArray[np.int64]) -> NDArray[np.float32]:
            return fields[features, None].astype(np.float32)

        first = Drawn(some(np.arange(len(fields))), some)
        own = model.parameter("fields", len(fields), 1, first, merge="same", saved=False)
        self._fields, self._row = fields, f.astype(np.float32)[None]
        self.mask = Groups(own, from_array(model.cache, self._row, "first fields of pairs"))

    def masked(self, drawn: Drawn) -> Drawn:
        """Return the factors that features have, of `drawn` ones."""

        def some(features: NDArray[np.int64]) -> NDArray[np.float32]:
            own = np.equal(self._fields[features, None], self._row)
            return drawn.rows(features) * own.astype(np.float32)

        return Drawn(self.mask.times(drawn.table), some)


def fields_of(given: FieldSizes, columns: int, names: Sequence[str] | None) -> NDArray[np.int32]:
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
        return np.array(found, np.int32)
    if sum(given) != columns:
        raise ModelConfigError(
            f"fm: fields={given}: must add up to {columns:,}, the columns of the data; they add "
            f"up to {sum(given):,}. Set the columns of each field."
        )
    return np.repeat(np.arange(len(given), dtype=np.int32), given)
