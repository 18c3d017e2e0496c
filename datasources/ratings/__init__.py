"""Read files of ratings, and hold ratings as a matrix of users and items."""

from typing import TYPE_CHECKING

from blocklearn.exports import on_demand

if TYPE_CHECKING:
    from .files import read_pairs as read_pairs
    from .files import read_ratings as read_ratings
    from .matrix import Duplicates as Duplicates
    from .matrix import Ratings as Ratings
    from .split import split_ratings as split_ratings
else:
    __getattr__, __dir__, __all__ = on_demand(__name__)
