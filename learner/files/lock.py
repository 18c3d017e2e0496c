"""A lock file, which one process holds at a time, and which names its holder."""

from __future__ import annotations

import fcntl
import logging
import os
import socket
from pathlib import Path

from blocklearn.durable import naming
from blocklearn.matcache.errors import BlocklearnError

log = logging.getLogger(__name__)


class HeldError(BlocklearnError):
    """A lock file that another process, or another part of this one, holds: `owner`."""

    def __init__(self, path: Path, owner: str) -> None:
        """owner: as the lock file names it."""
        self.owner = owner
        super().__init__(f"{path}: {owner} holds this lock.")


class Lock:
    """A lock file, held from construction to `close`.

    The operating system drops the lock when the process ends, however it ends. On a file system
    without locks a warning is logged, and nothing is held.
    """

    def __init__(self, path: Path) -> None:
        """Take the lock file `path`, and make it if it does not exist. Its text stays.

        Raises:
            HeldError: the lock is held.
            OSError: the file cannot be made or opened.
        """
        self.path = path
        while True:
            self._file = open(path, "r+b", buffering=0, opener=_opened_or_made)  # noqa: SIM115
            try:
                self._take()
            except BaseException:
                self._file.close()
                raise
            if self.intact:
                return
            self._file.close()  # its last owner has just removed it

    def _take(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise HeldError(self.path, self.lines[0] or "another process") from None
        except OSError as error:  # a file system without locks
            log.warning("%s: cannot be locked (%s); start no second run there", self.path, error)

    @property
    def intact(self) -> bool:
        """Whether the file is still the one at its path."""
        try:
            return os.path.samestat(os.fstat(self._file.fileno()), self.path.stat())
        except FileNotFoundError:
            return False

    @property
    def lines(self) -> list[str]:
        """The lines of the file: first its owner, then lines that the owner has added."""
        self._file.seek(0)
        return self._file.read().decode("utf-8", "surrogateescape").splitlines() or [""]

    def write(self, *lines: str) -> None:
        """Replace the text of the file by `lines`, of which the first names the owner."""
        text = "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")
        with naming(self.path):
            self._file.seek(0)
            self._file.write(text)
            self._file.truncate(len(text))

    def close(self) -> None:
        """Drop the lock. The file stays."""
        self._file.close()


def this_process() -> str:
    """Name this process, for other processes."""
    return f"process {os.getpid()} on {socket.gethostname()}"


def _opened_or_made(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CREAT, 0o666)
