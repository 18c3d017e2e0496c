"""Errors that models raise."""

from blocklearn.matcache.errors import BlocklearnError


class ModelConfigError(BlocklearnError, ValueError):
    """A configuration that contradicts itself or the data."""


class UpdateError(BlocklearnError, ValueError):
    """An `update` that computes something else when it runs again."""


class TargetError(ModelConfigError):
    """Targets that the data do not have, or that contradict each other.

    row: the place, among the rows that were checked, of a number out of range; None: it is no such.
    """

    row: int | None = None
