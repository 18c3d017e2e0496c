"""How a run is carried out: the settings that every layer of it reads, checked once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from blocklearn.matcache import Tables, available_threads

from .checks import check_whole
from .devices import IndexSetting, one_each


@dataclass(frozen=True)
class Execution:
    """Settings of a `Learner` that say how its updates run; see there.

    devices: of each replica, by its full name.
    """

    devices: Sequence[str]
    seed: int
    threads: int | None
    index: IndexSetting
    tables: Tables
    device_blocks: int | Literal["auto"]
    sync_every: int
    sync_weight: float

    @classmethod
    def on(
        cls, device: str | Sequence[str], replicas: int | Literal["auto"], **settings: Any
    ) -> Execution:
        """Return the settings, with a device for each replica.

        Raises:
            ValueError: a setting is out of its range.
            DeviceError: there is no such device, or there are not as many as replicas.
        """
        if replicas != "auto":
            check_whole("replicas", replicas)
        cls([], **settings)  # wrong settings are told before devices are looked for
        return cls(one_each(device, replicas), **settings)

    def __post_init__(self) -> None:
        check_whole("sync_every", self.sync_every)
        check_whole("seed", self.seed, least=0)
        if self.seed >= 2**63:
            raise ValueError(f"Learner: seed={self.seed}: must be below 2**63.")
        if self.threads is not None:
            remedy = " Write threads=None to use all that there are."
            check_whole("threads", self.threads, remedy=remedy)
        if self.device_blocks != "auto":
            remedy = " Write 'auto' for what fits."
            check_whole("device_blocks", self.device_blocks, least=0, remedy=remedy)
        weight = self.sync_weight
        if not 0.0 < weight <= 1.0:
            raise ValueError(f"Learner: sync_weight={weight}: must be above 0, and at most 1.")
        for name, text, known in [
            ("tables", self.tables, get_args(Tables)),
            ("index", self.index, get_args(IndexSetting)),
        ]:
            if text not in known:
                raise ValueError(f"Learner: {name}={text!r}: must be one of {known}.")

    @property
    def replicas(self) -> int:
        """The number of replicas."""
        return len(self.devices)

    @property
    def on_gpu(self) -> bool:
        """Whether the replicas are on GPUs."""
        return self.devices[0] != "cpu"

    @property
    def threads_each(self) -> int | None:
        """The threads of each replica; None: all that the process may use."""
        if self.replicas == 1:
            return self.threads
        return max(1, (self.threads or available_threads()) // self.replicas)

    def decisive(self) -> dict[str, Any]:
        """Return the settings that decide the result, but for the devices."""
        names = ("seed", "replicas", "sync_every", "sync_weight", "tables")
        return {name: getattr(self, name) for name in names}
