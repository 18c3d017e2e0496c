"""Data as users have them in Python: frames, Arrow tables, texts, corpora, labels."""

from typing import TYPE_CHECKING

from blocklearn.exports import on_demand

if TYPE_CHECKING:
    from .ratings import is_ratings as is_ratings
    from .ratings import ratings_of as ratings_of
    from .samples import Known as Known
    from .samples import Reads as Reads
    from .samples import rows_can_be_taken as rows_can_be_taken
    from .samples import samples_of as samples_of
    from .sparse_matrix import SparseMatrix as SparseMatrix
else:
    __getattr__, __dir__, __all__ = on_demand(__name__)
