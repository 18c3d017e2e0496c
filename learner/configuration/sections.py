"""Sections of the configuration that stand alone: checkpoints, workers, where tables lie."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import (
    BaseModel,
    ByteSize,
    ConfigDict,
    Discriminator,
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Tag,
    model_validator,
)

from blocklearn.matcache import Tables

from ..engines.exchange import PATIENCE
from ..engines.open import EngineName


class Section(BaseModel):
    """A part of the configuration, without unknown keys, and immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class CheckpointConfig(Section):
    """When to save checkpoints, from which runs resume, besides the end of training."""

    every_passes: PositiveInt | None = Field(
        1, description="passes between checkpoints; null: passes do not count"
    )
    every_blocks: PositiveInt | None = Field(
        None, description="blocks between checkpoints, counted over all passes"
    )
    every_minutes: PositiveFloat | None = Field(None, description="minutes between checkpoints")
    keep: PositiveInt = Field(
        2, description="checkpoints to keep, in addition to that of the best evaluation.metric"
    )
    store: str | None = Field(
        None,
        description="URL of a folder in a store, such as s3://bucket/runs/lda, for copies of all "
        "checkpoints. A run whose own folder is lost resumes from them",
    )


class DistributedConfig(Section):
    """Several workers, processes on one or more machines, that train one model together."""

    engine: EngineName = Field(
        "auto",
        description="how workers find each other: local: there is one; mpi: the processes that "
        "mpirun or srun starts; ray: Ray starts them; auto: mpi if mpirun started this process "
        "with others, ray if RAY_ADDRESS is set and workers is above 1, else local",
    )
    workers: PositiveInt | None = Field(
        None,
        description="how many there must be; null: those that were started. With mpi and no "
        "launcher, the command starts so many on this machine; ray needs a number",
    )
    address: str | None = Field(
        None,
        description="address of a cluster of Ray that this machine is a part of, such as "
        "10.0.0.1:6379 or auto; null: that of RAY_ADDRESS, else a cluster of this machine, started "
        "for the run",
    )
    max_failures: NonNegativeInt = Field(
        3,
        description="how often a run starts again from its newest checkpoint when a worker of Ray "
        "is lost",
    )
    fewest_workers: PositiveInt = Field(
        1,
        description="how many workers of Ray a run needs to start again. With fewer than workers, "
        "the model has other bits from there on, and a warning says so",
    )
    replace_seconds: PositiveFloat = Field(
        300.0,
        description="how long a run waits for a machine in place of a lost one, before it starts "
        "again with fewer workers",
    )
    patience_seconds: PositiveFloat = Field(
        PATIENCE,
        description="seconds that a worker waits for another before it gives up: more than the "
        "longest evaluation or checkpoint takes",
    )

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.workers is not None and self.fewest_workers > self.workers:
            raise ValueError(
                f"fewest_workers={self.fewest_workers}: must be at most workers={self.workers}"
            )
        return self


class TablePlaces(Section):
    """Where tables with a row for each column of the data lie, and how updates read them."""

    read: Tables = Field("float32", description="how updates read tables, see `tables`")
    device: ByteSize | None = Field(
        None,
        description="tables that need no more than this, such as `60GiB`, lie on the GPU; of "
        "larger ones, as many rows as fit, and the others in the host's memory. null: all rows lie "
        "on the GPU. The CPU ignores it",
    )
    memory: ByteSize | None = Field(
        None,
        description="tables that need no more than this, such as `100GiB`, stay in memory; of "
        "larger ones, it must hold the rows of two blocks. null: no table stays there, if there "
        "is a folder. With `device`: the most that rows on the host may take",
    )
    folder: Path | list[Path] | None = Field(
        None, description="folders of larger ones, see `table_folder`"
    )

    @model_validator(mode="after")
    def _memory_has_a_folder(self) -> Self:
        if self.memory is not None and self.folder is None and self.device is None:
            raise ValueError(
                f"memory={self.memory}: needs a folder for rows that do not fit. Set "
                "tables.folder, or memory_limit.host to limit the whole process"
            )
        if self.device is not None and self.folder is not None:
            raise ValueError(
                f"device={self.device}: must be left out beside folder: tables are either on a GPU "
                "and in memory, or in files. Leave out one of them"
            )
        return self


TablesOrPlaces = Annotated[
    Annotated[Tables, Tag("(how)")] | Annotated[TablePlaces, Tag("(where)")],
    Discriminator(lambda given: "(where)" if isinstance(given, dict | TablePlaces) else "(how)"),
]
