"""Rankings of items, learned by a sampled softmax."""

from blocklearn.exports import exported as _exported

from .model import Ranking as Ranking

__all__ = _exported(globals())
