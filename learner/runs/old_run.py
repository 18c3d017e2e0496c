"""Keep an old run until the run that replaces it has read all its data."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from blocklearn.durable import sync_folder

from ..hooks import Hook, Progress

if TYPE_CHECKING:
    from ..learner import Learner

ASIDE = ".old"


class OldRun(Hook):
    """The files of an old run, in a folder inside that of the run that replaces it."""

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        """Nothing is moved yet.

        folder: of both runs. names: of files; the mark of a run is the last one.
        """
        self._folder, self._names, self._aside = folder, names, folder / ASIDE

    @property
    def whole(self) -> bool:
        """Whether all files of an old run are here: its mark comes last, and leaves first."""
        return (self._aside / self._names[-1]).exists()

    def set_aside(self) -> None:
        """Move the run that is in the folder here."""
        self._aside.mkdir()
        for name in self._names:
            _move(self._folder / name, self._aside / name)
        sync_folder(self._folder)

    def put_back(self) -> None:
        """Move what is here back into the folder, which has no files of another run."""
        if self._aside.is_dir():
            for name in reversed(self._names):
                _move(self._aside / name, self._folder / name)
            self._aside.rmdir()

    def forget(self) -> None:
        """Delete what is here."""
        shutil.rmtree(self._aside, ignore_errors=True)

    def pass_end(self, learner: Learner, progress: Progress) -> None:
        """Delete the old run: the data and the settings of the new one are right."""
        self.forget()


def _move(path: Path, to: Path) -> None:
    if os.path.lexists(path):
        os.rename(path, to)
