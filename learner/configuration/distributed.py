"""The section of a configuration on several workers."""

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

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
        description="of a cluster of Ray that this machine is a part of, such as 10.0.0.1:6379 or "
        "auto; null: that of RAY_ADDRESS, else a cluster of this machine, started for the run",
    )
    max_failures: NonNegativeInt = Field(
        3,
        description="how often a run starts again from its newest checkpoint when a worker of Ray "
        "is lost",
    )
    patience_seconds: PositiveFloat = Field(
        PATIENCE,
        description="seconds that a worker waits for another before it gives up: more than the "
        "longest evaluation or checkpoint takes",
    )
