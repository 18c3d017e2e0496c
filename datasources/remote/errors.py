"""Define the errors of reading remote files."""

from blocklearn.matcache.errors import BlocklearnError


class RemoteError(BlocklearnError, OSError):
    """A file could not be read after all retries: no answer or a wrong reply."""


class Passing(RemoteError):
    """A fault that the next try may not meet."""


class TooLong(RemoteError):
    """A server sends more bytes than requested."""


class DriverMissingError(BlocklearnError, ImportError):
    """No installed driver can read this kind of URL; the message says which can."""
