"""Make the learner of a run from its configuration."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Literal, NamedTuple

from blocklearn.datasources import DataSource

from ..configuration.config import RunConfig
from ..engines.crew import Crew
from ..files.row_folder import RowFolder, remove_left
from ..files.table_files import NAME as TABLES
from ..files.table_files import TableFiles
from ..hooks import Hook
from ..learner import Learner, Plan
from ..recommendation.ranking_evaluation import RankingEvaluation, ranking_of


class StateFiles(NamedTuple):
    """Where a run keeps what may be larger than memory.

    rows: the folder for the state of rows; None: the model has none, or keeps it in memory.
    tables: the files of tables; None: they are in memory.
    left: folders of workers that the run had before it was killed, and does not have now.
    owner: the end of the names of the run's processes, which lock folders.
    """

    rows: RowFolder | None = None
    tables: TableFiles | None = None
    left: Sequence[Path] = ()
    owner: str = ""

    def check(self, plan: Plan) -> None:
        """Check that the files of `plan` can be made: see `RowFolder.check`."""
        if self.rows is not None:
            self.rows.check(plan.row_files)
        if self.tables is not None:
            self.tables.check(plan.table_files)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the folders in a `with` statement, and remove those that are `left`."""
        with self.rows or nullcontext(), self.tables or nullcontext():
            for folder in self.left:
                remove_left(folder, self.owner)
            yield


def state_files_of(config: RunConfig, crew: Crew) -> StateFiles:
    """Return where a run keeps what may be larger than memory, named after the run."""
    folder, out = config.learner.row_folder, Path(os.path.realpath(config.out))
    name, owner = crew.folder_name(out.name), f" (run {out})"
    rows, tables = None, None
    kept = config.optimizer is not None and config.optimizer.keeps_rows
    if folder is not None and (config.model.row_states or config.model.needs.tokens or kept):
        rows = RowFolder(folder, name, owner)
    if folders := table_folders(config):
        tables = TableFiles(folders, name, owner, memory=config.learner.places.memory or 0)
    return StateFiles(rows, tables, list(left_of(config, out.name, crew)), owner)


def left_of(config: RunConfig, name: str, crew: Crew) -> Iterator[Path]:
    """Yield folders of rows and of tables of workers that the run `name` does not have."""
    places = [(folder, TABLES) for folder in table_folders(config)]
    if config.learner.row_folder is not None:
        places.append((config.learner.row_folder, "{}"))
    for place, pattern in places:
        for folder in place.iterdir() if place.is_dir() else ():
            own = folder.name.removesuffix(pattern.format(""))
            if pattern.format(own) == folder.name and crew.lacks(name, own):
                yield folder


def table_folders(config: RunConfig) -> list[Path]:
    """Return the folders for tables; none: they are in memory."""
    found = config.learner.places.folder
    return found if isinstance(found, list) else [] if found is None else [found]


def device_blocks_of(config: RunConfig) -> int | Literal["auto"]:
    """Return the bytes of each GPU in which blocks may stay.

    A limit of its memory is for what training needs: blocks stay beside it only if they are told
    to.
    """
    chosen = config.learner.device_blocks
    if chosen == "auto":
        return "auto" if config.learner.memory_limit.device is None else 0
    return int(chosen)


def build(
    config: RunConfig,
    train: DataSource,
    eval: DataSource | None,
    hooks: list[Hook],
    files: StateFiles = StateFiles(),  # noqa: B008 (immutable)
    crew: Crew | None = None,
) -> Learner:
    """Return the learner that `config` describes.

    Args:
        config: the settings.
        train: the open training data.
        eval: the open held-out data; None: there are none.
        hooks: hooks of the learner; the evaluation of rankings is added if configured, on the
            worker that leads.
        files: where it keeps what may be larger than memory.
        crew: the workers of the run; None: there is one.
    """
    ranking = ranking_of(config)
    if ranking is not None and eval is not None and (crew is None or crew.leads):
        hooks = [RankingEvaluation(**ranking.model_dump()), *hooks]
    return Learner(
        config.model,
        train,
        eval,
        passes=config.learner.passes,
        block_rows=config.data.block_rows,
        seed=config.learner.seed,
        threads=config.learner.threads,
        optimizer=config.optimizer,
        mixins=config.mixins,
        hooks=hooks,
        evaluation=config.evaluation.model_copy(update={"keep_best": False}),  # checkpoints do
        row_folder=files.rows,
        table_folder=files.tables,
        device_tables=config.learner.places.device,
        replicas=config.learner.replicas,
        sync_every=config.learner.sync_every,
        sync_weight=config.learner.sync_weight,
        device=config.learner.devices or config.learner.device,
        index=config.learner.index,
        device_blocks=device_blocks_of(config),
        tables=config.learner.places.read,
        engine="local" if crew is None else crew,
        verbose=False,  # the hooks show it
    )
