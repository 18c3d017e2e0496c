"""Data as users have them in Python: frames, Arrow tables, texts, corpora, labels."""

from .samples import rows_can_be_taken as rows_can_be_taken
from .samples import samples_of as samples_of
from .sparse_matrix import SparseMatrix as SparseMatrix
