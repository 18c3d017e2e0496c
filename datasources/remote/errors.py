"""What can go wrong between here and a file that lies elsewhere."""

from blocklearn.matcache.errors import BlocklearnError


class RemoteError(BlocklearnError, OSError):
    """A file could not be read, after all retries: no connection, silence, a wrong reply."""


class Passing(RemoteError):
    """A fault that may be gone at the next try."""


class TooLong(RemoteError):
    """A server sends more than it was asked for."""


class DriverMissingError(BlocklearnError, ImportError):
    """Nothing that is installed can read this kind of URL; the message says what can."""
