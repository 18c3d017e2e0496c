"""Errors of combining models, optimizers and mixins."""

from blocklearn.matcache import BlocklearnError


class CombinationError(BlocklearnError, ValueError):
    """A combination of a model, an optimizer and mixins that does not work."""
