"""What can go wrong with data."""

from blocklearn.matcache.errors import BlocklearnError


class DataError(BlocklearnError, ValueError):
    """Data that cannot be used as they are: wrong shape, kind, number, file or folder."""


class ReadError(DataError):
    """A block could not be read; `__cause__` says why."""
