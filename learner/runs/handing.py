"""Open the data of a run; worker 0 reads rows into memory, and hands them to the others.

It writes them into a file of the run folder, which all workers map into memory, worker 0 too. So
workers on one machine share this memory, and each reads from the disk what its blocks need. The
file is scratch paper: it is removed when the run ends, or when the next one begins.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from blocklearn.datasources import DataKind, Holdout, MatrixSource
from blocklearn.datasources.memory.handed import Handed, handed, received
from blocklearn.durable import naming

from ..configuration.config import RunConfig
from ..engines.alike import check_alike
from ..engines.crew import Crew
from ..engines.shared_folder import seen_by_all
from ..files.allocated import free_bytes, too_little_room
from ..files.row_folder import RowFolder, remove_left
from ..storage.tensor_file import read_tensors, write_tensors
from .advice import warn_of_copies
from .inputs import (
    EVAL,
    TRAIN,
    Sources,
    kinds_of,
    of_length,
    open_data,
    require_files,
    settled,
    with_kinds,
)
from .run_folder import HANDED

FILE = "rows.safetensors"
REMEDY = "Choose another folder for the run (--out), or convert the data: `learn convert`."

Opened = tuple[RunConfig, Sources]
"""The configuration, with the settings that data and devices decide, and the open data."""


@contextmanager
def room_for_rows(out: Path) -> Iterator[RowFolder]:
    """Yield the folder for rows of the run `out`, which is not made yet, and remove it at the end.

    What a killed run has left there is removed before.
    """
    run = Path(os.path.realpath(out))
    rows = RowFolder(run, HANDED, remedy="Choose another folder (--out).")
    begun = os.path.exists(run)  # never an error: no other worker would hear of it here
    remove_left(rows.path, "")
    try:
        yield rows
    finally:
        rows.release()
        if not begun:
            with suppress(OSError):  # there is a run in it, or nothing was made
                run.rmdir()


def open_together(
    config: RunConfig,
    crew: Crew,
    rows: RowFolder | None = None,
    begun: Mapping[str, Any] | None = None,
) -> Opened:
    """Settle the configuration and open the data. All workers call this.

    Raises as `settled` and `open_data`.

    rows: the folder of worker 0 for what it hands to the others.
    begun: see `of_length`.
    """
    kinds = kinds_of(config.data)
    if crew.size > 1:
        check_alike(
            crew, {name: [type(kind).__name__, kind.reads_whole] for name, kind in kinds.items()}
        )
    if crew.size == 1 or not any(kind.reads_whole for kind in kinds.values()):
        return _alone(config, begun)
    if rows is not None:
        rows.take()
    if seen_by_all(crew, None if rows is None else rows.path) is None:
        if rows is not None:
            rows.release()
            warn_of_copies(config, crew.size, f"not all see the run folder {rows.path.parent}")
        return _alone(config, begun)
    return _received(config, crew) if rows is None else _handed(config, crew, rows, begun)


def _alone(config: RunConfig, begun: Mapping[str, Any] | None = None) -> Opened:
    """Open the data without the others."""
    config = settled(config, begun)
    return config, open_data(config)


def _handed(
    config: RunConfig, crew: Crew, rows: RowFolder, begun: Mapping[str, Any] | None
) -> Opened:
    """Open the data, and hand to the others what is read into memory."""
    config, (train, eval) = _alone(config, begun)
    kinds = kinds_of(config.data)
    whole = {name for name, kind in kinds.items() if kind.reads_whole}
    if TRAIN in whole and isinstance(config.data.eval, Holdout):
        whole.add(EVAL)
    sources = {
        name: source
        for name, source in ((TRAIN, train), (EVAL, eval))
        if name in whole and type(source) is MatrixSource
    }
    if len(sources) < len(whole):  # those of a user's own kind
        crew.told(None)
        warn_of_copies(config, crew.size, "its source is no MatrixSource")
        return config, (train, eval)
    two_sided = 1 in config.model.row_states.values()
    given = handed(sources, turned=[TRAIN] if two_sided else [])  # scores take rows only
    entries = _write(rows, given)
    crew.told({
        "file": str(rows.path / FILE),
        "entries": entries,
        "facts": given.facts,
        "kinds": {name: kinds[name].model_dump(mode="json") for name in sources if name in kinds},
    })  # fmt: skip
    arrays = read_tensors(rows.path / FILE, entries, mapped="private", compare=False)
    found = received(given.facts, arrays, given.names)
    return config, (found.get(TRAIN, train), found.get(EVAL, eval))


def _received(config: RunConfig, crew: Crew) -> Opened:
    """Open the data; worker 0 hands over those that it reads into memory."""
    told = crew.told()
    if told is None:
        return _alone(config)
    arrays = read_tensors(Path(told["file"]), told["entries"], mapped="private", compare=False)
    sources = received(told["facts"], arrays)
    kinds, found = kinds_of(config.data), dict[str, DataKind]()
    require_files({name: kind for name, kind in kinds.items() if name not in sources})
    for name, kind in kinds.items():  # that of training first
        given = told["kinds"].get(name)
        found[name] = (
            kind.settled(found.get(TRAIN)) if given is None else type(kind).model_validate(given)
        )
    config = with_kinds(of_length(config), found[TRAIN], found.get(EVAL, config.data.eval))
    return config, open_data(config, sources)


def _write(rows: RowFolder, given: Handed) -> dict[str, dict[str, Any]]:
    """Write the file of rows; return what `read_tensors` needs.

    Raises OSError if it cannot be written. After any error, also a signal, no file is left.
    """
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
            error.add_note(f"Worker 0 hands the rows to the other workers in this file. {REMEDY}")
        raise
