"""Choose the device and the threads of each replica."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from blocklearn.datasources import DataSource, MatrixSource
from blocklearn.matcache import DeviceError, resolve

IndexSetting = Literal["auto", "host", "device"]
"""Who makes the transposed index of blocks; "auto": see `index_choice`."""


class Kept(NamedTuple):
    """What may stay in the memory of a device, from pass to pass: states of rows, and data.

    training: the training data, by side.
    eval: the data for scores.
    rows: whether all rows of the training data may lie there, since several passes visit them.
    most: the bytes that may be taken there; "auto": half of what the plan leaves free.
    sharing: replicas on the device.
    """

    training: Sequence[DataSource] = ()
    eval: DataSource | None = None
    rows: bool = False
    most: int | Literal["auto"] = "auto"
    sharing: int = 1

    def limit(self, left: int) -> int:
        """Return the most bytes that one replica may reserve. left: free beside its plan."""
        most = max(left, 0) // 2 if self.most == "auto" else self.most
        return most // self.sharing


def fixed_bytes(source: DataSource | None, *, indexed: bool, nnz: int) -> int:
    """Return the bytes on a device of the blocks that a source gives unchanged in each pass.

    indexed: with their transposed index.
    nnz: non-zeros that there is room for in a block.
    """
    if not isinstance(source, MatrixSource):
        return 0
    return source.fixed_bytes(indexed=indexed, nnz=nnz)


def one_each(device: str | Sequence[str], replicas: int | Literal["auto"]) -> list[str]:
    """Return the device of each replica, by its full name.

    replicas: "auto": one for each device of a list, or for each CUDA device where `device` is cuda
        or auto and CuPy sees several; else one.

    Raises:
        DeviceError: the number of devices differs from that of replicas.

    >>> one_each("cpu", 2), one_each(["cuda:1", "cuda"], 2)
    (['cpu', 'cpu'], ['cuda:1', 'cuda:0'])
    >>> one_each("cuda:1", "auto"), one_each(["cuda:1", "cuda"], "auto")
    (['cuda:1'], ['cuda:1', 'cuda:0'])
    """
    if isinstance(device, str):
        if replicas == "auto":
            several = _cuda_devices() if device in ("auto", "cuda") else 1
            return [f"cuda:{n}" for n in range(several)] if several > 1 else [resolve(device)]
        return [resolve(device)] * replicas
    if replicas not in ("auto", len(device)):
        raise DeviceError(
            f"{len(device)} devices for {replicas} replicas; give one for each, or a single name."
        )
    found = [resolve(name) for name in device]
    if 0 < found.count("cpu") < len(found):
        raise DeviceError(f"{', '.join(found)}: must be all on the CPU or all on GPUs.")
    return found


def _cuda_devices() -> int:
    from blocklearn.matcache.cuda import devices

    return devices.count()
