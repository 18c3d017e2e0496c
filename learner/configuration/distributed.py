"""The section of a configuration on several workers."""

from typing import Self

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from ..engines.exchange import PATIENCE
from ..engines.open import EngineName
from .section import Section


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
