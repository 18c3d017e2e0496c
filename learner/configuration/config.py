"""The schema of a run's configuration, in YAML files and from `learn schema`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ByteSize,
    Field,
    GetCoreSchemaHandler,
    PositiveInt,
    field_validator,
    model_validator,
)
from pydantic_core import CoreSchema, core_schema

from blocklearn.datasources.config import EvalData, TrainData
from blocklearn.mixins import MIXINS, Mixin
from blocklearn.models import MODELS, Model
from blocklearn.optimizers import OPTIMIZERS, Optimizer

from ..training.settings.checks import MOST_PASSES
from ..training.settings.devices import IndexSetting
from ..training.settings.evaluation import Evaluation
from .references import Referring
from .sections import (
    CheckpointConfig,
    DistributedConfig,
    Section,
    TablePlaces,
    TablesOrPlaces,
)


@dataclass(frozen=True, eq=False)
class OneOf:
    """Annotation of a field that holds one of `choices`, chosen by its key `kind`.

    pydantic's `Field(discriminator=...)` needs two or more alternatives; `choices` may have one.
    """

    choices: Mapping[str, type[BaseModel]]

    def __get_pydantic_core_schema__(self, _: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return a tagged union of the choices, whatever the type of the annotated field."""
        schemas = {kind: handler.generate_schema(cls) for kind, cls in self.choices.items()}
        return core_schema.tagged_union_schema(schemas, discriminator="kind")


class DataConfig(Section):
    """The data to train on and to score; `eval: null` scores no held-out data."""

    train: TrainData
    eval: EvalData | None = None
    block_rows: PositiveInt | Literal["auto"] = Field(
        "auto",
        description="rows per block; auto: chosen from the model and the size of the data, and "
        "written into the run's configuration",
    )
    shuffle: bool | Literal["blocks"] = Field(
        True,
        description="visit the rows in another order in every pass; blocks: shuffle rows into "
        "blocks once, then only the order of blocks, which is much cheaper after the first pass",
    )

    def rows_of_block(self, otherwise: int) -> int:
        """Return `block_rows`, or `otherwise` while no data have made a number of "auto"."""
        return otherwise if self.block_rows == "auto" else self.block_rows


class RankingConfig(Section):
    """How to score rankings of held-out items, for models of users and items."""

    top: PositiveInt = Field(10, description="length of the lists: ndcg@10, precision@10, ...")
    users: PositiveInt = Field(2000, description="the most users to make lists for")
    relevant: float | None = Field(
        None, description="the least value of a relevant held-out entry; null: any above 0"
    )


class MemoryLimit(Section):
    """The most memory that a run may plan, such as `8GiB`; more is refused.

    The state of rows lies in files where it does not fit.
    """

    host: ByteSize | None = Field(
        None, description="host memory of the whole process; null: all free memory"
    )
    device: ByteSize | None = Field(
        None,
        description="memory of each GPU, for all replicas that share it; null: all free memory",
    )


DEVICE = r"^(cpu|auto|cuda(:\d+)?)$"


def _device(name: str) -> str:
    if not re.match(DEVICE, name):
        raise ValueError(
            f"unknown device {name!r}; choose cpu, cuda (the first GPU), cuda:1 (the second) and "
            "so on, or auto: a GPU if there is one"
        )
    return name


Device = Annotated[str, AfterValidator(_device), Field(json_schema_extra={"pattern": DEVICE})]


class LearnerConfig(Section):
    """How long and how to train."""

    passes: PositiveInt = Field(1, le=MOST_PASSES, description="passes over the training data")
    seed: int = Field(0, ge=0, lt=2**63, description="seed of all random numbers")
    threads: PositiveInt | None = Field(
        None, le=4096, description="threads that compute; null: all cores this process may use"
    )
    device: Device = Field(
        "cpu", description="where models compute: cpu, cuda, cuda:N, or auto: a GPU if there is one"
    )
    devices: list[Device] | None = Field(
        None, min_length=1, description="a device for each replica; null: all are on `device`"
    )
    index: IndexSetting = Field(
        "auto",
        description="where the transposed index of blocks is made: host: by the reader's threads; "
        "device: by the GPU; auto: where it is estimated to be faster. Results are equal to the "
        "bit",
    )
    device_blocks: ByteSize | Literal["auto"] = Field(
        "auto",
        description="memory of each GPU for states of rows, for all rows of data in memory, and "
        "for blocks that are the same in every pass, so that they are copied there once; auto: "
        "half of what is free beside the plan, or none if memory_limit.device is set",
    )
    tables: TablesOrPlaces = Field(
        "float32",
        description="how updates read tables of topics, factors or weights: float32, or bfloat16: "
        "half the bytes, for GPUs; sums stay float32. Or {memory: 100GiB, folder: [DIR, ...]}",
    )
    replicas: PositiveInt | Literal["auto"] = Field(
        1,
        description="copies of the model in each worker, with a thread of its own, merged as they "
        "learn; auto: one for each of `devices`, or for each GPU where `device` is cuda or auto",
    )
    sync_every: PositiveInt = Field(
        8, description="rounds (a block for each replica) from one merge to the next"
    )
    sync_weight: float = Field(
        1.0, gt=0, le=1, description="how far a merge moves a replica towards the mean of all"
    )
    row_folder: Path | None = Field(
        None,
        description="keep the state of rows in files of ROW_FOLDER/NAME during the run, with the "
        "NAME of the run folder; null: in memory, or in files of OUT/.rows if memory has no room",
    )
    table_folder: Path | list[Path] | None = Field(
        None,
        description="keep parameters and optimizer state that have a row for each column of the "
        "data in files of TABLE_FOLDER/NAME-tables during the run; a list: of several disks, which "
        "share the pages of each table; null: in memory",
    )
    ranking: RankingConfig | None = Field(
        None, description="null: ranking is scored for implicit feedback only"
    )
    memory_limit: MemoryLimit = MemoryLimit()
    log_every_seconds: float = Field(10.0, gt=0, description="seconds between lines of progress")
    watchdog_seconds: float | None = Field(
        600.0,
        gt=0,
        description="print where every thread is after so many seconds without a finished block; "
        "null: never",
    )
    watchdog_exit_seconds: float | None = Field(
        None,
        gt=0,
        description="exit with code 75 after so many seconds without a finished block, at least "
        "watchdog_seconds; null: never",
    )
    tensorboard: bool | Path = Field(
        False, description="event files for TensorBoard: true: in OUT/tensorboard; or a folder"
    )
    report: bool = Field(
        False, description="write the page of the run, OUT/report.html, when training ends"
    )
    prometheus: Path | None = Field(
        None, description="file NAME.prom for the textfile collector of Prometheus' node_exporter"
    )
    mlflow: str | None = Field(
        None, min_length=1, description="experiment of MLflow that gets settings and scores"
    )
    wandb: str | None = Field(
        None, min_length=1, description="project of Weights & Biases that gets settings and scores"
    )

    @model_validator(mode="after")
    def _watched_before_it_ends(self) -> Self:
        end, seconds = self.watchdog_exit_seconds, self.watchdog_seconds
        if end is not None and (seconds is None or end < seconds):
            raise ValueError(
                f"watchdog_exit_seconds={end:g}: must be at least watchdog_seconds "
                f"({'null' if seconds is None else f'{seconds:g}'}), when the watchdog first looks"
            )
        return self

    @property
    def places(self) -> TablePlaces:
        """Where tables lie, and how they are read."""
        if isinstance(self.tables, TablePlaces):
            return self.tables
        return TablePlaces(read=self.tables, folder=self.table_folder)

    @model_validator(mode="after")
    def _one_folder(self) -> Self:
        if isinstance(self.tables, TablePlaces) and self.table_folder is not None:
            raise ValueError(
                "table_folder: must be null where tables is a mapping. Use tables.folder"
            )
        return self

    @model_validator(mode="after")
    def _one_each(self) -> Self:
        if self.devices is not None and self.replicas not in ("auto", len(self.devices)):
            raise ValueError(
                f"devices names {len(self.devices)}, but there are {self.replicas} replicas; set "
                f"replicas: {len(self.devices)}"
            )
        return self

    @field_validator("prometheus")
    @classmethod
    def _is_collected(cls, file: Path | None) -> Path | None:
        if file is not None and file.suffix != ".prom":
            raise ValueError(f"{file}: must end in .prom, or the collector does not read it")
        return file


class RunConfig(Section, Referring):
    """One run: a model, its data, how it learns, and the folder `out` to write to."""

    model: Annotated[Model, OneOf(MODELS)]
    data: DataConfig
    optimizer: Annotated[Optimizer, OneOf(OPTIMIZERS)] | None = Field(
        None, description="null: the default for the model and the data"
    )
    mixins: list[Annotated[Mixin, OneOf(MIXINS)]] = Field(
        default_factory=list, description="terms added to the objective, and reports"
    )
    learner: LearnerConfig = LearnerConfig()
    evaluation: Evaluation = Evaluation()
    checkpoint: CheckpointConfig = CheckpointConfig()
    distributed: DistributedConfig = DistributedConfig()
    out: Path = Field(Path("runs/run"), description="run folder; `learn` takes runs/<config name>")
    code: dict[str, str] = Field(
        default_factory=dict,
        description="XXH3 digests (128 bits) of the Python files that kinds such as "
        "`kmeans.py:KMeans` name, by section; written by the run, and compared if given",
    )

    @model_validator(mode="after")
    def _has_what_is_watched(self) -> Self:
        if self.evaluation.metric is not None and self.data.eval is None:
            raise ValueError(
                f"evaluation.metric={self.evaluation.metric}: needs held-out data to score. Set "
                "data.eval, such as {kind: holdout, share: 0.05}"
            )
        return self

    @model_validator(mode="after")
    def _has_ratings(self) -> Self:
        train = self.data.train
        alike = getattr(train, "rating", "") is None and getattr(train, "duplicates", "") != "sum"
        if alike and getattr(self.model, "loss", None) == "explicit":
            raise ValueError(
                "data.train.rating=null: each record counts as 1, but model.loss is explicit, for "
                "ratings that differ. Set model.loss to implicit, or name the column of ratings"
            )
        return self


def renamed(given: Any) -> Any:
    """Return a configuration of an earlier version with the keys of this one.

    Runs of version 0.1.0 have `learner.eval_every` for `evaluation.every_passes`. This is not a
    pydantic validator: a "before" validator makes pydantic validate Python values instead of JSON,
    and then it refuses a list for a tuple.
    """
    learner = given.get("learner") if isinstance(given, dict) else None
    if not isinstance(learner, dict) or "eval_every" not in learner:
        return given
    passes = {"every_passes": learner["eval_every"]}
    rest = {key: value for key, value in learner.items() if key != "eval_every"}
    return {**given, "learner": rest, "evaluation": passes | given.get("evaluation", {})}
