"""What can go wrong when parts are put together."""

from blocklearn.matcache import BlocklearnError


class CombinationError(BlocklearnError, ValueError):
    """A model, an optimizer and mixins, or two mixins, that do not go together."""
