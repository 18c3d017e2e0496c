"""Name the files of a run for what may be larger than memory: the state of rows, and tables."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import NamedTuple, Self

from ..configuration.config import RunConfig
from ..engines.crew import Crew
from ..files.allocated import lies_in_memory
from ..files.row_folder import RowFolder, remove_left
from ..files.table_files import NAME as TABLES
from ..files.table_files import TableFiles
from ..training.plans.plan import Plan
from .run_folder import ROWS

OTHER_FOLDER = (
    "Choose another folder for the run (--out), or one for its state of rows (learner.row_folder)."
)


class StateFiles(NamedTuple):
    """Where a run keeps what may be larger than memory.

    rows: the folder for the state of rows; None: it is in memory.
    tables: the files of tables; None: they are in memory.
    spare: the folder for the state of rows where memory has no room for it; None: files would take
        memory, too.
    left: folders that earlier processes of the run may have left, and this one does not use.
    owner: the end of the names of the run's processes, which lock folders.
    """

    rows: RowFolder | None = None
    tables: TableFiles | None = None
    spare: RowFolder | None = None
    left: Sequence[Path] = ()
    owner: str = ""

    def with_spare(self) -> Self:
        """Return the same with the state of rows in the spare folder."""
        used = self.spare and self.spare.path
        return self._replace(rows=self.spare, left=[path for path in self.left if path != used])

    def check(self, plan: Plan) -> None:
        """Check that the files of `plan` can be made: see `RowFolder.check`."""
        if self.rows is not None:
            try:
                self.rows.check(plan.row_files)
            except OSError as error:
                error.add_note(f"These are files of the state of rows. {self.rows.remedy}")
                raise
        if self.tables is not None:
            self.tables.check(plan.table_files)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the folders in a `with` statement, and remove those that are `left`."""
        try:
            with self.rows or nullcontext(), self.tables or nullcontext():
                for folder in self.left:
                    remove_left(folder, self.owner)
                yield
        finally:
            if self.spare is not None:
                with suppress(OSError):  # only a worker that does not see the run has nothing there
                    self.spare.path.parent.rmdir()


def state_files_of(config: RunConfig, crew: Crew) -> StateFiles:
    """Return where a run keeps what may be larger than memory.

    The configuration names folders, in which those of the run have its name. State of rows for
    which it names none is in memory; `spare` is in the run folder.
    """
    chosen, out = config.learner.row_folder, Path(os.path.realpath(config.out))
    name, owner = crew.folder_name(out.name), f" (run {out})"
    rows, tables = None, None
    if chosen is not None:
        rows = RowFolder(chosen, name, owner)
    if folders := table_folders(config):
        tables = TableFiles(folders, name, owner, memory=config.learner.places.memory or 0)
    spare = RowFolder(out, crew.folder_name(ROWS), owner, remedy=OTHER_FOLDER)
    left = [spare.path, *left_of(config, out, crew)]
    return StateFiles(rows, tables, None if lies_in_memory(out) else spare, left, owner)


def left_of(config: RunConfig, out: Path, crew: Crew) -> Iterator[Path]:
    """Yield folders of rows and of tables of workers that the run in `out` does not have."""
    places = [(folder, out.name, TABLES) for folder in table_folders(config)]
    places.append((out, ROWS, "{}"))
    if config.learner.row_folder is not None:
        places.append((config.learner.row_folder, out.name, "{}"))
    for place, name, pattern in places:
        for folder in place.iterdir() if place.is_dir() else ():
            own = folder.name.removesuffix(pattern.format(""))
            if pattern.format(own) == folder.name and crew.lacks(name, own):
                yield folder


def table_folders(config: RunConfig) -> list[Path]:
    """Return the folders for tables; none: they are in memory."""
    found = config.learner.places.folder
    return found if isinstance(found, list) else [] if found is None else [found]
