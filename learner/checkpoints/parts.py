"""Let each worker write the rows that it owns into files of a checkpoint, and check these files.

Rows of states go into a part of each worker, rows of tables in files into logs of each. The leader
calls what is here, and the others follow its order. Where some worker does not see the leader's
folder, none of them is written, and the leader checks those of that worker.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from blocklearn.durable import sync_file
from blocklearn.matcache.finite import is_finite

from ..engines.crew import Crew
from ..engines.shared_folder import seen_by_all
from ..errors import ModelFolderError, WorkerError
from ..exit_codes import exit_code
from ..storage.manifest import file_entry, verified
from ..storage.page_logs import PAGES, OwnLogs, joined, write_own_logs
from ..storage.row_parts import BLOCKS, PARTS, Seal, check_part, name_of, seal_of
from ..storage.tensor_file import check_finite, read_tensors, write_tensors
from ..training import divergence
from ..training.replicas.names import OPTIMIZER
from ..training.settings.progress import Progress
from ..training.states.live_model import LiveModel
from ..training.teams.needed_tables import NeededTables

log = logging.getLogger(__name__)

WRITE, CHECK = "write part", "check parts"
"""The orders of the leader that make the others call `PartWriter.write` and `check_parts`."""


class Written(NamedTuple):
    """What workers have written into a folder, for the manifest of a checkpoint.

    parts: entries of the arrays of each part by file; none if no rows of states have owners.
    pages: see `page_logs.joined`; None: no rows of tables in files have owners.
    files: bytes and digests of all these files.
    """

    parts: dict[str, Any]
    pages: dict[str, Any] | None
    files: dict[str, Any]


class PartWriter:
    """Writes the states, and tables in files, whose rows belong to several workers."""

    def __init__(self, live: LiveModel, progress: Progress) -> None:
        """live: has the rows of this worker."""
        self._live, self._progress = live, progress
        self._told = False

    def write(self, folder: Path | None = None) -> Written | None:
        """Write this worker's rows into the folder of a checkpoint that is not complete yet.

        All workers take part, and none writes any more when it returns or raises an error. None: no
        rows have owners, or not all workers see the folder; nothing is written, and all workers
        have whole tables.

        folder: of the leader. The others are told.

        Raises:
            DivergedError: own rows are not finite.
            OSError: the own part cannot be written.
            WorkerError: another worker cannot write its part.
        """
        crew = self._live.crew
        if not self._live.owned and self._live.ready().owned is None:
            return None
        with crew.ordered(WRITE):
            place = seen_by_all(crew, folder)
            if place is not None:
                return self._meet(place)
            self._live.ready().gather()
        if crew.leads and not self._told:
            log.warning(
                "%s: not all workers see this folder, so worker 0 writes the rows of all. Each "
                "writes its own where the run is in a folder that all share",
                None if folder is None else folder.parent,
            )
        self._told = True
        return None

    def _meet(self, folder: Path) -> Written:
        """Write own rows, wait for those of the others, and return what all have written."""
        crew, tables = self._live.crew, self._live.ready().owned
        failure: Exception | None = None
        own: Any
        try:
            own = self._part(folder) if tables is None else self._logs(folder, tables)
        except Exception as error:
            failure = error
            own = {"code": int(exit_code(error)), "text": f"{type(error).__name__}: {error}"}
        found = crew.gather(own)
        if failure is not None:
            raise failure
        for rank, each in enumerate(found):
            if "text" in each:
                raise WorkerError(rank, each["code"], each["text"])
        files = {file: entry for each in found for file, entry in each["files"].items()}
        if crew.leads:
            _check_sizes(folder, files)
        arrays = [each["arrays"] for each in found]
        if tables is None:
            return Written({file: of for each in arrays for file, of in each.items()}, None, files)
        rows, shapes = [each["rows"] for each in found], self._live.ready().table_shapes
        return Written({}, joined(map(OwnLogs, arrays, rows), shapes), files)

    def _logs(self, folder: Path, tables: NeededTables) -> dict[str, Any]:
        """Write own rows of tables; return their number, and entries of arrays and of files."""
        logs, rows = write_own_logs(folder, self._live.crew.rank, tables.own_parts())
        return {"arrays": logs, "rows": rows, "files": _entries(folder, logs)}

    def _part(self, folder: Path) -> dict[str, Any]:
        """Write own rows of states; return entries of arrays and of the file."""
        live = self._live
        arrays: dict[str, Any] = live.parted()
        learnt = live.ready().first.model.row_states.keys() & arrays.keys()
        finite = ((name, is_finite(live.stores[name].array)) for name in sorted(learnt))
        divergence.check_finite(finite, self._progress)
        if live.crew.leads:
            owned = live.owned.items()
            arrays |= {f"{BLOCKS}{name}": state.owned.first_rows for name, state in owned}
        parts = {(file := name_of(live.crew.rank)): write_tensors(folder / file, arrays)}
        return {"arrays": parts, "files": _entries(folder, parts)}


def _entries(folder: Path, files: Iterable[str]) -> dict[str, Any]:
    """Return bytes and digest of each file of this worker, once it is on the disk."""
    for file in files:
        sync_file(folder / file)
    return {file: file_entry(folder / file) for file in files}


def check_parts(crew: Crew, manifest: Path | None = None) -> None:
    """Check the parts and logs of a checkpoint: worker w those numbered w, w + workers, ...

    manifest: of the leader, checked already. The others are told.

    Raises ModelFolderError on the leader: a file is missing, or is not what was written.
    """
    with crew.ordered(CHECK):
        seal = Seal(*crew.told(None if manifest is None else seal_of(manifest)))
        sees = crew.gather(seal.fits())
        checked = [rank for rank in range(crew.size) if sees[rank] and rank == crew.rank]
        if crew.leads:
            checked += [rank for rank in range(crew.size) if not sees[rank]]
        problems = crew.gather([_problem(Path(seal.path), rank, crew.size) for rank in checked])
    found = next((text for each in problems for text in each if text), None)
    if crew.leads and found is not None:
        raise ModelFolderError(found)


def _problem(path: Path, rank: int, size: int) -> str | None:
    """Return what is wrong with every `size`-th part and log, from number `rank` on."""
    try:
        manifest = json.loads(path.read_bytes())
        for file in list((manifest.get(PAGES) or {"logs": ()})["logs"])[rank::size]:
            verified(path.parent, file, manifest)
        for file in sorted(manifest.get(PARTS) or ())[rank::size]:
            check_part(path.parent, file, manifest)
            part, entries = path.parent / file, manifest[PARTS][file]
            arrays = read_tensors(part, entries, mapped=True, compare=False)
            check_finite(part, {name: arrays[name] for name in arrays if OPTIMIZER not in name})
    except (ModelFolderError, OSError) as error:
        return str(error)
    return None


def _check_sizes(folder: Path, files: dict[str, Any]) -> None:
    """Raise OSError unless the leader sees the parts as the others have written them."""
    for file, told in files.items():
        size, wrote = (folder / file).stat().st_size, told["bytes"]
        if size != wrote:
            raise OSError(
                f"{folder / file}: {size} bytes, but {wrote} were written on another machine. Put "
                "the run into a folder that all workers see alike."
            )
