"""Make the learner of a run from its configuration."""

from typing import Literal

from blocklearn.datasources import DataSource

from ..configuration.config import RunConfig
from ..engines.crew import Crew
from ..hooks import Hook
from ..learner import Learner
from ..recommendation.ranking_evaluation import RankingEvaluation, ranking_of
from .state_files import StateFiles


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
