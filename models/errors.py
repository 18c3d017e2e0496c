"""Errors that models raise."""

from blocklearn.matcache.errors import BlocklearnError


class ModelConfigError(BlocklearnError, ValueError):
    """A configuration that contradicts itself or the data."""


class UpdateError(BlocklearnError, ValueError):
    """An `update` that computes something else when it runs again."""


class TargetError(ModelConfigError):
    """Targets that the data do not have, or that contradict each other."""


class TargetRangeError(TargetError):
    """A number of the data that a model cannot use as a target, or as the weight of a target.

    row: its place among the rows that were checked.
    """

    def __init__(self, text: str, row: int = 0) -> None:
        super().__init__(text)
        self.row = row
