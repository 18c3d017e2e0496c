"""Decide whether the state of rows of a run is in memory or in files: its memory plan says so.

This changes no bit of the result, so each worker decides for itself. Workers with the same memory
have equal parts of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from ..configuration.config import RunConfig
from ..engines.crew import Crew
from ..figures import counted, size
from ..learner import Learner
from ..memory import shared_limits
from ..training.plans.plan import Plan
from .memory_check import check_room, lack_of
from .state_files import StateFiles

Make = Callable[[StateFiles], Learner]
"""Makes the learner of a run with these files."""


class Placed(NamedTuple):
    """Where a run keeps its numbers.

    files: for what may be larger than memory.
    learner: of the run, with these files.
    plan: of its memory.
    note: why the state of rows is in files that the configuration does not name; "": it is not.
    """

    files: StateFiles
    learner: Learner
    plan: Plan
    note: str


def checked(make: Make, files: StateFiles, config: RunConfig, crew: Crew) -> Placed:
    """Return where a run keeps its numbers, once its workers agree and memory and disks have room.

    All workers call this. The note of the one that leads says how many have such files.

    Raises:
        ConfigError: workers differ, or are more than blocks.
        MemoryPlanError: memory does not suffice.
        RunFolderError, OSError: see `StateFiles.check`.
    """
    found = placed(make, files, config, crew)
    notes = [note for note in crew.gather(found.note) if note]
    check_room(found.plan, config)
    found.files.check(found.plan)
    if crew.size == 1 or not notes:
        return found
    return found._replace(note=f"{counted(len(notes), 'worker')}: {notes[0]}")


def placed(
    make: Make, files: StateFiles, config: RunConfig, crew: Crew, workers: int | None = None
) -> Placed:
    """Return where a run keeps its numbers; they may need more memory than there is.

    All workers call this. Raises ConfigError if they differ, or are more than blocks.

    workers: to plan for; None: those that there are.
    """
    learner = make(files)
    learner.check_workers()
    plan = learner.plan(workers)
    lack = lack_of(plan, config, _sharing(crew))
    if lack is None or not plan.rows_in_memory or files.spare is None:
        return Placed(files if plan.row_files else files._replace(rows=None), learner, plan, "")
    files = files.with_spare()
    learner = make(files)
    note = (
        f"the state of rows is in files of {config.out}: in memory, training would need "
        f"{size(lack.needed)}, and {size(lack.left)} are {lack.limit}"
    )
    return Placed(files, learner, learner.plan(workers), note)


def _sharing(crew: Crew) -> dict[str, int]:
    """Return how many workers have the memory of a limit together, by the name of the limit."""
    everywhere = crew.gather(shared_limits())
    count = Counter(item for each in everywhere for item in each.items())
    return {limit: count[limit, whose] for limit, whose in everywhere[crew.rank].items()}
