"""Whether columns of two data have the same names."""

from collections.abc import Sequence

from ..errors import DataError
from .hashed_names import HashedWords


def check_names(
    where: str, found: Sequence[str] | None, known: Sequence[str] | None, what: str = "column"
) -> None:
    """Raise `DataError` if a column has another name than in the training data.

    - where: the data; begins the message.
    - found, known: names of their columns and of those of the training data; None: unknown.
    - what: that has these names.

    Of hashed words, the names of the columns before them are compared.
    """
    if isinstance(found, HashedWords) and isinstance(known, HashedWords):
        found, known = found.first, known.first
    if found is None or known is None or len(found) != len(known):
        return
    array = hasattr(found, "__array__")  # of NumPy or pandas, which compare name by name
    if found is known or (not array and type(found) is type(known) and found == known):
        return  # most are the same, and so this is fast
    for place, (name, other) in enumerate(zip(map(str, found), map(str, known), strict=True)):
        if name != other:
            raise DataError(
                f"{where}: {what} {place} is {name!r}, but in the training data it is {other!r}: "
                f"must be the same in both. Give both the same {what}s in the same order; convert "
                "both with the same vocabulary."
            )
