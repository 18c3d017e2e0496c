"""Non-negative matrix factorisation."""

from .model import NMF as NMF
