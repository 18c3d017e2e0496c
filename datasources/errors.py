"""The errors of data sources."""

from blocklearn.matcache.errors import BlocklearnError


class DataError(BlocklearnError, ValueError):
    """The data cannot be used: wrong shape, kind, number, file or folder."""


class ReadError(DataError):
    """A block could not be read; `__cause__` is the reason."""
