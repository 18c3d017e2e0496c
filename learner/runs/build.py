"""Make the learner of a run from its configuration."""

from typing import Literal

from blocklearn.datasources import DataSource

from ..configuration.config import RunConfig
from ..engines.crew import Crew
from ..files.row_folder import RowFolder
from ..hooks import Hook
from ..learner import Learner
from ..recommendation.ranking_evaluation import RankingEvaluation, ranking_of


def row_folder_of(config: RunConfig, crew: Crew) -> RowFolder | None:
    """Return the folder for row state, named after the run.

    None: the model has no row state, or keeps it in memory.
    """
    folder, out = config.learner.row_folder, config.out.resolve()
    if folder is None or not (config.model.row_states or config.model.needs_tokens):
        return None
    return RowFolder(folder, crew.folder_name(out.name), f" (run {out})")


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
    rows: RowFolder | None = None,
    crew: Crew | None = None,
) -> Learner:
    """Return the learner that `config` describes.

    Args:
        config: the settings.
        train: the open training data.
        eval: the open held-out data; None: there are none.
        hooks: hooks of the learner; the evaluation of rankings is added if configured.
        rows: the folder for row state; None: in memory.
        crew: the workers of the run; None: there is one.
    """
    ranking = ranking_of(config)
    if ranking is not None and eval is not None:
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
        row_folder=rows,
        replicas=config.learner.replicas,
        sync_every=config.learner.sync_every,
        sync_weight=config.learner.sync_weight,
        device=config.learner.devices or config.learner.device,
        index=config.learner.index,
        device_blocks=device_blocks_of(config),
        tables=config.learner.tables,
        engine="local" if crew is None else crew,
        verbose=False,  # the hooks show it
    )
