"""Read files of ratings, and hold ratings as a matrix of users and items."""

from blocklearn.exports import exported as _exported

from .files import read_pairs as read_pairs
from .files import read_ratings as read_ratings
from .matrix import Duplicates as Duplicates
from .matrix import Ratings as Ratings
from .split import split_ratings as split_ratings

__all__ = _exported(globals())
