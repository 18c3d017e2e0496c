"""Names of many rows or columns as arrays, for other processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays.hashed_names import HashedWords
from ..ids import Ids

Names = Sequence[str]


def packed(names: Names) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Return facts for JSON, and arrays, of which `names_of` makes the names again."""
    if isinstance(names, HashedWords):
        facts, arrays = packed(list(names.seen.values()))
        arrays["columns"] = np.fromiter(names.seen, np.int64, len(names.seen))
        return facts | {"hash_bits": names.bits, "first": names.first}, arrays
    try:
        ids = Ids(names)
    except UnicodeEncodeError:  # the name of a file that is no text
        return {"names": list(names)}, {}
    return {}, {"ends": ids.ends, "text": ids.text}


def names_of(facts: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> Names:
    """Return the names that `packed` has taken apart; texts stay in the arrays."""
    names: Names = facts["names"] if "names" in facts else Ids.of(arrays["ends"], arrays["text"])
    if "hash_bits" not in facts:
        return names
    seen = dict(zip(arrays["columns"].tolist(), names, strict=True))
    return HashedWords(facts["hash_bits"], facts["first"], seen)
