"""Choose where tables lie: with other memory, in files, or on a device and the host."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from blocklearn.optimizers import CombinationError

from ...engines.crew import Crew
from ...files.placed_tables import PlacedTables
from ...files.spread_tables import SpreadTables
from ...files.table_files import TableFiles, table_files_of
from .checks import check_whole
from .execution import Execution


def choose_tables(
    folder: Path | str | Sequence[Path | str] | TableFiles | None,
    on_device: int | None,
    execution: Execution,
    *,
    crew: Crew,
    keeps_best: bool,
) -> PlacedTables | None:
    """Return what keeps the tables; None: they lie with the learner's other memory.

    folder, on_device: `table_folder` and `device_tables` of a learner.
    crew: the workers of the run. Each has files of its own.
    keeps_best: whether the best model is kept in memory.

    Raises CombinationError for settings that need whole tables.
    """
    if on_device is not None:
        remedy = " Write None for tables that lie on the device as a whole."
        check_whole("device_tables", on_device, least=0, remedy=remedy)
    found: PlacedTables | None = table_files_of(folder, crew.folder_name("learner"))
    devices = execution.devices
    wrong = [("device and replicas", "one replica on the CPU")] if list(devices) != ["cpu"] else []
    if found is None and on_device is not None and execution.on_gpu:
        found = SpreadTables(on_device)
        wrong = [("replicas", "one replica")] if execution.replicas > 1 else []
    if found is None:
        return None
    if crew.size > 1 and isinstance(found, SpreadTables):
        wrong.append(("engine", "one worker"))
    if execution.tables != "float32":
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
