"""What a model can object to in its configuration."""

from blocklearn.matcache.errors import BlocklearnError


class ModelConfigError(BlocklearnError, ValueError):
    """A configuration that contradicts itself or the data."""


class UpdateError(BlocklearnError, ValueError):
    """An `update` that is not the same when it is run again."""


class TargetError(ModelConfigError):
    """Targets of a model that the data do not have, or that contradict each other."""
