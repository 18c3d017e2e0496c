"""Hold out ratings for evaluation; both parts keep all users and items."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from blocklearn.answers import answered

from ..arrays.compiled import kernel
from ..arrays.hashing import GOLDEN, mix_one
from ..errors import DataError
from ..holdout.samples import check_parts
from ..holdout.split import HoldBy, limit_of, start_of
from .matrix import Ratings


@answered
def split_ratings(
    ratings: Ratings, share: float, seed: int, by: HoldBy = "entries"
) -> tuple[Ratings, Ratings]:
    """Split ratings into those to train on and those held out.

    by: "entries" or "time".

    With "entries", a rating is held out if hash(seed, user, item) < share. It stays on its side
    when other ratings change. Each user keeps at least one rating to train on. With "time", the
    newest `share` of all ratings is held out. Ratings with the same time as the newest one to train
    on are all trained on. Raises `DataError` if a part is empty.
    """
    if by in ("rows", "contents"):
        raise DataError(
            "holdout: whole users cannot be held out of ratings, because factors of a user "
            "come from this user's other ratings; use by: entries, or by: time."
        )
    matrix = ratings.matrix
    held = np.zeros(matrix.nnz, np.bool_)
    if by == "entries":
        if matrix.nnz and np.diff(matrix.indptr).max() == 1:
            raise DataError(
                "holdout: no user has two ratings, and each keeps one to train on, so none can be "
                "held out. Evaluate nothing (`data.eval: null`), or use by: time."
            )
        hold_entries(matrix.indptr, matrix.indices, start_of(seed), limit_of(share), held)
    elif ratings.times is None:
        raise DataError(
            "holdout: by: time needs the times of ratings; name their column: timestamp: NAME."
        )
    else:
        last = matrix.nnz - 1 - round(share * matrix.nnz)  # place of the newest one to train on
        held = ratings.times > np.partition(ratings.times, last)[last] if last >= 0 else ~held
    check_parts(share, int((~held).sum()), int(held.sum()), "ratings")
    return ratings.only(~held), ratings.only(held)


@kernel
def hold_entries(
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[np.int32],
    start: np.uint64,
    limit: np.uint64,
    held: npt.NDArray[np.bool_],
) -> None:
    """Mark the entries of CSR rows to hold out; see `split_ratings`."""
    for row in range(indptr.size - 1):
        of_row = mix_one(start + np.uint64(row + 1) * GOLDEN)
        left, largest, kept = 0, np.uint64(0), indptr[row]
        for place in range(indptr[row], indptr[row + 1]):
            hashed = mix_one(of_row + np.uint64(indices[place] + 1) * GOLDEN)
            held[place] = hashed < limit
            left += not held[place]
            if hashed >= largest:
                largest, kept = hashed, place
        if left == 0 and indptr[row] < indptr[row + 1]:
            held[kept] = False
