"""Worker 0 hands rows that it has read into memory to the other workers.

It writes them into a file of the run folder, which all workers map into memory, worker 0 too. So
workers on one machine share this memory, and each reads from the disk what its blocks need. The
file is scratch paper: it is removed when the run or the command ends, or when the next one begins.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from blocklearn.datasources import MatrixSource
from blocklearn.datasources.memory.handed import Handed, handed, received
from blocklearn.durable import naming

from ..engines.crew import Crew
from ..files.allocated import free_bytes, too_little_room
from ..files.row_folder import RowFolder, remove_left
from ..storage.tensor_file import read_tensors, write_tensors
from .run_folder import HANDED

FILE = "rows.safetensors"


@contextmanager
def room_for_rows(run: Path, name: str, remedy: str) -> Iterator[RowFolder]:
    """Yield the folder `name` for rows of a run, which is not made yet, and remove it at the end.

    What killed runs and commands have left in the run folder is removed before.

    name: begins with `HANDED`. remedy: what to do if there cannot be such a folder.
    """
    run = Path(os.path.realpath(run))
    rows = RowFolder(run, name, remedy=remedy)
    begun = os.path.exists(run)  # never an error: no other worker would hear of it here
    with suppress(OSError):
        for left in list(run.glob(f"{HANDED}*")):
            remove_left(left, "")
    try:
        yield rows
    finally:
        rows.release()
        if not begun:
            with suppress(OSError):  # there is a run in it, or nothing was made
                run.rmdir()


def hand_over(
    crew: Crew,
    rows: RowFolder,
    sources: Mapping[str, MatrixSource],
    *,
    turned: Collection[str] = (),
    beside: Any = None,
) -> dict[str, MatrixSource]:
    """Write sources into the folder, tell the others, and return them as all have them now.

    turned: see `handed`. beside: a value for JSON that the others find under this name, too.

    Raises OSError if the file cannot be written. After any error, also a signal, no file is left.
    """
    given = handed(sources, turned=turned)
    told = {
        "file": str(rows.path / FILE),
        "entries": _write(rows, given),
        "facts": given.facts,
        "beside": beside,
    }
    crew.told(told)
    return received(given.facts, _mapped(told), given.names)


def taken_over(told: Mapping[str, Any]) -> dict[str, MatrixSource]:
    """Return the sources that the worker that leads has told of in `hand_over`."""
    return received(told["facts"], _mapped(told))


def _mapped(told: Mapping[str, Any]) -> dict[str, Any]:
    return read_tensors(Path(told["file"]), told["entries"], mapped="private", compare=False)


def _write(rows: RowFolder, given: Handed) -> dict[str, dict[str, Any]]:
    """Write the file of rows; return what `read_tensors` needs."""
    file = rows.path / FILE
    needed, free = sum(array.nbytes for array in given.arrays.values()), free_bytes(rows.path)
    try:
        with naming(file), rows.adding(FILE):
            if needed > free:
                raise too_little_room(needed, free)
            return write_tensors(file, given.arrays)
    except BaseException as error:
        file.unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.add_note(
                f"Worker 0 hands the rows to the other workers in this file. {rows.remedy}"
            )
        raise
