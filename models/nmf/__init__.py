"""Non-negative matrix factorisation."""

from blocklearn.exports import exported as _exported

from .model import NMF as NMF

__all__ = _exported(globals())
