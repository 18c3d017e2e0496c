"""A folder in which one learner keeps its state of rows, or its tables, in files.

A run, or a command, keeps the rows in one that it hands to its other workers.

    FOLDER/NAME/.blocklearn-rows    the lock: holder of the folder, and the files that it has made
    FOLDER/NAME/users.float32       numbers [rows x columns], C-contiguous, mapped into memory
    FOLDER/NAME/rows.blocks         a folder of files

A later process cannot use the files: training continues from checkpoints. The learner removes its
files when it is done with them. Files of a killed process are removed when the folder is taken
again. Files that the lock does not list are never touched.
"""

from __future__ import annotations

import os
import shutil
import weakref
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..errors import RunFolderError
from .allocated import free_bytes, new_file, too_little_room
from .lock import HeldError, Lock, this_process
from .lost_pages import Watched
from .stripes import one_file

LOCK = ".blocklearn-rows"
FOLDER = ".blocks"  # the end of the name of a folder
ENDINGS = (".float32", ".float64", ".uint16", ".uint32", ".safetensors", FOLDER)
OTHER_FOLDER = "Set learner.{0} ({0} of a Learner) to another folder."
TRIES = 100  # to make the folder while other processes remove it


class RowFolder:
    """The folder `folder/name`, which one learner holds from `take` to `release`.

    It is also released when this object is deleted, and when the process exits normally.
    """

    def __init__(
        self,
        folder: Path,
        name: str = "learner",
        owner: str = "",
        *,
        remedy: str = OTHER_FOLDER.format("row_folder"),
    ) -> None:
        """Name the folder, without touching the disk.

        owner: text after the name of this process, for messages of other processes.
        remedy: how to choose another folder, for messages.
        """
        self.path = folder / name
        self.owner, self.remedy = owner, remedy
        self.watched: list[Watched] = []  # finds lost pages of the files
        self._held: _Held | None = None

    def check(self, states: Mapping[str, int]) -> None:
        """Check that `take` and `new` would work, and change nothing.

        states: bytes of each state, by the name of its file.

        Raises:
            RunFolderError: the folder is held, or has files of these names that no run has made.
            OSError: the disk has too little room.
        """
        ours: list[str] = []
        if (self.path / LOCK).exists():
            lock = self._lock()
            ours = _files_of(lock)
            lock.close()
        for name in states:
            if name not in ours and (self.path / name).exists():
                raise self._foreign(name)
        free = free_bytes(self.path) + sum(_bytes_on_disk(self.path / name) for name in ours)
        needed = sum(states.values())
        if needed > free:
            error = too_little_room(needed, free)
            error.filename = str(self.path)
            raise error

    def take(self) -> None:
        """Make the folder if it is missing, hold it, and remove files of a killed run.

        Raises:
            RunFolderError: another process, or another learner of this one, holds the folder.
            OSError: the folder cannot be made.
        """
        if self._held is not None:
            return
        lock = self._lock()
        held = _Held(lock, f"{this_process()}{self.owner}", _files_of(lock))
        try:
            held.remove_files()
        except BaseException:
            with suppress(OSError), closing(lock):
                held.release()
            raise
        self._held, self._finalizer = held, weakref.finalize(self, held.release)

    def new(self, name: str, rows: int, columns: int, dtype: Any = np.float32) -> NDArray[Any]:
        """Make the file `name.DTYPE`, all zeros, with reserved disk space.

        Returns numbers [rows x columns] of a dtype of `ENDINGS`, mapped into memory.

        Raises:
            RunFolderError: a file of this name exists.
            OSError: the disk has too little room.
        """
        file = self.new_file(name, dtype, rows * columns * np.dtype(dtype).itemsize)
        array: NDArray[Any] = np.memmap(file, dtype, "r+", shape=(rows, columns)).view(np.ndarray)
        self.watched.append(Watched(array, one_file(file)))
        return array

    def new_file(self, name: str, dtype: Any, nbytes: int) -> Path:
        """Make the file `name.DTYPE` of so many zeros, and return its path; see `new`."""
        with self.adding(f"{name}.{np.dtype(dtype).name}") as file:
            new_file(file, nbytes)
        return file

    def new_folder(self, name: str) -> Path:
        """Make an empty folder, and return its path; its name ends in `FOLDER`.

        Raises RunFolderError if a file or folder of this name exists.
        """
        with self.adding(name) as folder:
            folder.mkdir()
        return folder

    @contextmanager
    def adding(self, name: str) -> Iterator[Path]:
        """Yield the path of a file that the `with` statement makes; it ends in one of `ENDINGS`.

        Raises RunFolderError if the file exists.
        """
        assert self._held is not None
        if (self.path / name).exists():
            raise self._foreign(name)
        with self._held.adding(name):
            yield self.path / name

    def release(self) -> None:
        """Remove the files and the folder, and let others take it.

        Arrays mapped from the files stay valid. Their disk space becomes free when they are
        deleted.
        """
        if self._held is not None:
            self._finalizer()
            self._held = None
            self.watched.clear()

    def __enter__(self) -> Self:
        """Take the folder."""
        self.take()
        return self

    def __exit__(self, *_: object) -> None:
        """Release the folder."""
        self.release()

    def _lock(self) -> Lock:
        for _ in range(TRIES):
            self.path.mkdir(parents=True, exist_ok=True)
            try:
                return Lock(self.path / LOCK)
            except FileNotFoundError:  # another process has just removed the folder
                continue
            except OSError:  # the disk is full
                with suppress(OSError):
                    self.path.rmdir()
                raise
            except HeldError as error:
                raise RunFolderError(
                    f"{self.path}: must be held by one learner at a time, and {error.owner} holds "
                    f"it. Wait until that run ends (in Python: close() the learner). {self.remedy}"
                ) from None
        raise FileNotFoundError(f"{self.path}: cannot be made, it is removed again and again")

    def _foreign(self, name: str) -> RunFolderError:
        return RunFolderError(
            f"{self.path / name}: must not exist. No run has made it, so it is left as "
            f"it is. {self.remedy}"
        )


def remove_left(folder: Path, owner: str) -> None:
    """Remove the files of a killed process, and the folder if it has no others.

    A folder that is held, that no run has made, or that cannot be changed is left as it is.

    owner: the end of the name of the process. Folders of other owners are left, too.
    """
    if not os.path.exists(folder / LOCK):
        return
    with suppress(HeldError, OSError), closing(Lock(folder / LOCK)) as lock:
        before = lock.lines[0]  # empty where another process has just removed the file
        if not before or before.endswith(owner):
            _Held(lock, "", _files_of(lock)).release()


class _Held:
    """The lock and files of a `RowFolder`, apart for the sake of its finalizer."""

    def __init__(self, lock: Lock, owner: str, files: list[str]) -> None:
        self.lock, self.owner, self.files = lock, owner.replace("\n", " "), files
        self._process = os.getpid()

    @contextmanager
    def adding(self, name: str) -> Iterator[None]:
        """List a file, which the `with` statement makes.

        It is listed first, so that a kill cannot leave a file that is not listed. It is taken off
        the list if it cannot be made.
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
        """Remove the listed files."""
        for name in self.files:
            _remove(self.lock.path.parent / name)
        self.files.clear()
        self._list()

    def release(self) -> None:
        """Remove the files, the lock and the folder, except in a fork of the process."""
        if os.getpid() != self._process:
            return
        if self.lock.intact:  # else the folder was removed, and may be another learner's by now
            for name in [*self.files, LOCK]:
                _remove(self.lock.path.parent / name)
        self.lock.close()
        with suppress(OSError):  # it has other files, or is another learner's by now
            self.lock.path.parent.rmdir()

    def _list(self) -> None:
        self.lock.write(self.owner, *self.files)


def _files_of(lock: Lock) -> list[str]:
    """Return the names of the files that the owner of a lock has made."""
    return [name for name in lock.lines[1:] if name.endswith(ENDINGS) and "/" not in name]


def _remove(path: Path) -> None:
    """Remove a file, or what `new_folder` has made."""
    if path.suffix == FOLDER:
        shutil.rmtree(path, ignore_errors=True)  # what another machine still reads may stay
    else:
        path.unlink(missing_ok=True)


def _bytes_on_disk(path: Path) -> int:
    return path.stat().st_blocks * 512 if path.is_file() else 0
