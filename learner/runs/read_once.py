"""Read the data of a command once: of several workers, worker 0 reads them for all.

It hands over rows in memory as in a training (`handing.py`). Data that must be converted become
blocks in the same folder. Each worker reads its own part of block datasets and Parquet.
"""

from __future__ import annotations

import logging
import secrets
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from blocklearn.datasources import DataSource, MatrixSource
from blocklearn.datasources.blocks import BlockSource

from ..engines.crew import Crew
from ..engines.shared_folder import seen_by_all
from ..exit_codes import message
from ..files.row_folder import RowFolder
from .handing import hand_over, room_for_rows, taken_over
from .run_folder import HANDED

log = logging.getLogger(__name__)
ROWS, BLOCKS = "rows", "rows.blocks"

Opened = Callable[[Callable[[], Path]], DataSource]
"""Opens the data. It is given what makes an empty folder, for data that must be converted."""


@contextmanager
def read_once(crew: Crew, run: Path, what: str, opened: Opened) -> Iterator[DataSource]:
    """Yield the data to each worker. All call this, with the same model and data.

    What is made for them is removed at the end of the `with` statement. So the workers must meet in
    it, once all have read.

    run: the folder of the model, in which worker 0 makes one for what it hands over.
    what: the name of the data, for a warning.
    """
    with ExitStack() as stack:
        made = list[Path]()  # by this worker alone

        def temporary() -> Path:
            folder = tempfile.TemporaryDirectory(prefix="blocklearn-")
            made.append(Path(stack.enter_context(folder)))
            return made[-1]

        if crew.size == 1:
            yield opened(temporary)
            return
        rows, why = _room(crew, run, stack)
        if why:
            source = opened(temporary)
            if crew.leads and (made or type(source) is MatrixSource):
                log.warning(
                    "%s: each of %d workers reads all of %s, because %s. Copy the model into a "
                    "folder that all workers see and worker 0 may write to",
                    run, crew.size, what, why,
                )  # fmt: skip
            yield source
            return
        if rows is not None:
            source = _handed(crew, opened, rows)
        else:
            found = _taken_over(crew)
            source = opened(temporary) if found is None else found
        crew.gather(None)  # all have opened them: an error of worker 0 removes the folder
        yield source


def _room(crew: Crew, run: Path, stack: ExitStack) -> tuple[RowFolder | None, str]:
    """Return the folder of worker 0, which `stack` removes, and why it is of no use, or ""."""
    rows, folder, why = None, None, "not all see the folder"
    if crew.leads:
        name = f"{HANDED}-{secrets.token_hex(4)}"  # commands on one model run at the same time
        rows = stack.enter_context(room_for_rows(run, name, "Make room on its disk."))
        try:
            rows.take()
            folder = rows.path
        except OSError as error:
            why = message(error)
    return rows, "" if seen_by_all(crew, folder) else why


def _handed(crew: Crew, opened: Opened, rows: RowFolder) -> DataSource:
    """Open the data, and hand to the others what is read whole, or tell them that nothing is."""
    source = opened(partial(rows.new_folder, BLOCKS))
    if type(source) is MatrixSource:
        return hand_over(crew, rows, {ROWS: source})[ROWS]
    blocks = rows.path / BLOCKS
    crew.told({"blocks": str(blocks)} if blocks.exists() else None)
    return source


def _taken_over(crew: Crew) -> DataSource | None:
    """Return what worker 0 hands over; None: nothing, as each reads its own part."""
    told = crew.told()
    if told is None:
        return None
    return BlockSource([told["blocks"]]) if "blocks" in told else taken_over(told)[ROWS]
