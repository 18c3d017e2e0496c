"""The folder in which one learner keeps its state of rows in files.

    FOLDER/NAME/.blocklearn-rows    the lock: who holds the folder, and the files that it has made
    FOLDER/NAME/users.float32       float32 [rows x columns], C-contiguous, mapped into memory

The files are of no use to a later process: what training continues from is a checkpoint. So they
are removed when the learner is done with them, and those of a process that was killed when the
folder is taken again. Files that the lock does not list are never touched.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ..errors import RunFolderError
from .allocated import free_bytes, new_array, too_little_room
from .lock import HeldError, Lock, this_process

LOCK = ".blocklearn-rows"
ENDING = ".float32"
TRIES = 100  # to make the folder while other processes remove it
REMEDY = "Set learner.row_folder (row_folder of a Learner) to another folder."


class RowFolder:
    """The folder `folder/name`, which one learner holds from `take` to `release`.

    It is also released when this object is forgotten, and when the process ends in an orderly way.
    """

    def __init__(self, folder: Path, name: str = "learner", owner: str = "") -> None:
        """Without touching the disk.

        owner: what else other processes are told of who holds it.
        """
        self.path = folder / name
        self.owner = owner
        self._held: _Held | None = None

    def check(self, states: Mapping[str, int]) -> None:
        """Check that `take` and `new` would work, and change nothing.

        states: bytes of each state, by name.

        Raises:
            RunFolderError: the folder is held, or has files of these names that it did not make.
            OSError: the disk has too little room.
        """
        ours: list[str] = []
        if (self.path / LOCK).exists():
            lock = self._lock()
            ours = _files_of(lock)
            lock.close()
        for name in states:
            if name + ENDING not in ours and (self.path / (name + ENDING)).exists():
                raise self._foreign(name)
        free = free_bytes(self.path) + sum(_bytes_on_disk(self.path / name) for name in ours)
        needed = sum(states.values())
        if needed > free:
            error = too_little_room(needed, free)
            error.filename = str(self.path)
            raise error

    def take(self) -> None:
        """Hold the folder, which is made where it is missing, and remove what a killed run left.

        Raises:
            RunFolderError: another process, or another learner of this one, holds it.
            OSError: it cannot be made.
        """
        if self._held is not None:
            return
        lock = self._lock()
        held = _Held(lock, f"{this_process()}{self.owner}", _files_of(lock))
        try:
            held.remove_files()
        except BaseException:
            lock.close()
            raise
        self._held, self._finalizer = held, weakref.finalize(self, held.release)

    def new(self, name: str, rows: int, columns: int) -> NDArray[np.float32]:
        """Make the file of the state `name`, all zeros, with its space on the disk.

        Returns float32 [rows x columns], mapped into memory.

        Raises:
            RunFolderError: there is a file of this name that the folder did not make.
            OSError: the disk has too little room.
        """
        assert self._held is not None
        file = self.path / (name + ENDING)
        if file.exists():
            raise self._foreign(name)
        with self._held.adding(file.name):
            return new_array(file, np.float32, (rows, columns))

    def release(self) -> None:
        """Remove the files and the folder, and let others take it. Arrays of the files stay as they
        are: their space on the disk is free when they are forgotten.
        """
        if self._held is not None:
            self._finalizer()
            self._held = None

    def __enter__(self) -> Self:
        """Take it."""
        self.take()
        return self

    def __exit__(self, *_: object) -> None:
        """Release it."""
        self.release()

    def _lock(self) -> Lock:
        for _ in range(TRIES):
            self.path.mkdir(parents=True, exist_ok=True)
            try:
                return Lock(self.path / LOCK)
            except FileNotFoundError:  # another process has just removed the folder
                continue
            except HeldError as error:
                raise RunFolderError(
                    f"{self.path}: must be held by one learner at a time, and {error.owner} holds "
                    f"it. Wait until that run ends (in Python: close() the learner). {REMEDY}"
                ) from None
        raise FileNotFoundError(f"{self.path}: cannot be made, it is removed again and again")

    def _foreign(self, name: str) -> RunFolderError:
        return RunFolderError(
            f"{self.path / (name + ENDING)}: must not exist. No run has made it, so it is left as "
            f"it is. {REMEDY}"
        )


class _Held:
    """What a `RowFolder` holds: apart, so that it can be released once that is forgotten."""

    def __init__(self, lock: Lock, owner: str, files: list[str]) -> None:
        self.lock, self.owner, self.files = lock, owner.replace("\n", " "), files
        self._process = os.getpid()

    @contextmanager
    def adding(self, name: str) -> Iterator[None]:
        """Make a file within it. It is listed before it is there, so that no kill leaves it alone,
        and no longer where it cannot be made.
        """
        self.files.append(name)
        self._list()
        try:
            yield
        except BaseException:
            self.files.remove(name)
            self._list()
            raise

    def remove_files(self) -> None:
        """Remove the files that are listed."""
        for name in self.files:
            (self.lock.path.parent / name).unlink(missing_ok=True)
        self.files.clear()
        self._list()

    def release(self) -> None:
        """Remove the files, the lock and the folder; but not in a copy of the process."""
        if os.getpid() != self._process:
            return
        if self.lock.intact:  # else the folder was removed, and may be another learner's by now
            for name in [*self.files, LOCK]:
                (self.lock.path.parent / name).unlink(missing_ok=True)
        self.lock.close()
        with suppress(OSError):  # it has other files, or is another learner's by now
            self.lock.path.parent.rmdir()

    def _list(self) -> None:
        self.lock.write(self.owner, *self.files)


def _files_of(lock: Lock) -> list[str]:
    """Names of the files that the owner of a lock has made."""
    return [name for name in lock.lines[1:] if name.endswith(ENDING) and "/" not in name]


def _bytes_on_disk(path: Path) -> int:
    return path.stat().st_blocks * 512 if path.is_file() else 0
