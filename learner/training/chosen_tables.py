"""Choose where tables lie: with other memory, in files, or on a device and the host."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from blocklearn.optimizers import CombinationError

from ..files.placed_tables import PlacedTables
from ..files.spread_tables import SpreadTables
from ..files.table_files import TableFiles, table_files_of


def choose_tables(
    folder: Path | str | Sequence[Path | str] | TableFiles | None,
    on_device: int | None,
    devices: Sequence[str],
    *,
    workers: int,
    read: str,
    keeps_best: bool,
) -> PlacedTables | None:
    """Return what keeps the tables; None: they lie with the learner's other memory.

    folder, on_device: `table_folder` and `device_tables` of a learner.
    devices: of its replicas. workers: of the run. read: `tables` of a learner.
    keeps_best: whether the best model is kept in memory.

    Raises CombinationError for settings that need whole tables.
    """
    found: PlacedTables | None = table_files_of(folder)
    wrong = [("device and replicas", "one replica on the CPU")] if list(devices) != ["cpu"] else []
    if found is None and on_device is not None and devices[0] != "cpu":
        found = SpreadTables(on_device)
        wrong = [("replicas", "one replica")] if len(devices) > 1 else []
    if found is None:
        return None
    if workers > 1:
        wrong.append(("engine", "one worker"))
    if read != "float32":
        wrong.append(("tables", "tables='float32'"))
    if keeps_best:
        wrong.append(("evaluation.keep_best", "keep_best=False"))
    if wrong:
        setting, remedy = wrong[0]
        raise CombinationError(
            f"Learner: {found.setting}: {setting} would need whole tables in memory. Choose "
            f"{remedy}, or leave out {found.setting}."
        )
    return found
