"""Reads bytes of a file in a store into existing buffers, and digests them."""

from collections.abc import Sequence

import xxhash

from ..remote import RemoteError, StoredPath
from .read_bytes import Stamp, wrong_size


class StoredFile:
    """A file in a store, which must have `size` bytes. Threads may share it.

    It has the methods of `LocalFile`. Stores do not tell cheaply whether a file was replaced, so it
    has no stamp: the digest of a block is compared at each read.
    """

    def __init__(self, path: StoredPath, size: int) -> None:
        """Open the file. Raises `OSError`, and `DataError` if it has another size."""
        status = path.status()
        if status.size != size:
            raise wrong_size(path, status.size, size)
        self._path, self._size = path, size
        self._file = path.files.open(status)

    def read(
        self, offset: int, pieces: Sequence[memoryview], digest: xxhash.xxh3_64 | None
    ) -> bool:
        """Fill `pieces` with the bytes from `offset` on, in one request; digest them.

        Returns False if the file ends before. Raises `RemoteError`.
        """
        length = sum(map(len, pieces))
        if offset + length > self._size:
            return False
        try:
            data = memoryview(self._file.read_at(length, offset))
        except RemoteError:
            raise
        except OSError as error:
            raise RemoteError(f"{self._path}: {error}") from error
        if len(data) != length:
            return False
        if digest is not None:
            digest.update(data)
        for piece in pieces:
            piece[:] = data[: len(piece)]
            data = data[len(piece) :]
        return True

    def stamp(self) -> Stamp | None:
        """Return None: it is not known whether the file was written to."""
        return None

    def close(self) -> None:
        """Let the file go, which closes it.

        Its `close` would first ask Google's server for the file, and wait for minutes if none
        answers.
        """
        del self._file
