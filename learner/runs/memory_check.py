"""Check that training may begin and fits in memory; if not, say which settings to lower."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from blocklearn.matcache.errors import MemoryPlanError

from ..configuration.config import RunConfig
from ..figures import size
from ..memory import ADDRESSES, memory_limits, resident_bytes
from ..recommendation.ranking_evaluation import ranking_of
from ..training.plans.plan import OF_BLOCKS, ON_HOST, Plan, Planned

NAMED = 5  # arrays that a message lists
BIASES = 2  # numbers that a model may keep in addition to the configured ones


def check_room(plan: Plan, config: RunConfig) -> None:
    """Raise `MemoryPlanError` if `plan` needs more memory than is available."""
    _check_rows(plan, config)
    tightest = min(device_rooms(plan, config), key=lambda room: room.left, default=None)
    needed = _needed(plan, config)
    if tightest is not None and needed > tightest.left:
        rows = [row for row in plan.rows if row.device]
        each = " for each of its replicas" if tightest.replicas > 1 else ""
        lines = [
            f"training needs {size(needed)} of the memory of {tightest.device}{each}, and "
            f"{size(tightest.left)} are {tightest.limit}. Largest:",
            *array_lines(sorted(rows, key=lambda row: -row.nbytes)[:NAMED]),
            "Settings to lower, with the memory that depends on each:",
            *_settings(growing(rows, config, lambda row: row.nbytes)),
        ]
        if config.learner.places.device is None:
            lines.append(
                "learner.tables: {device: SIZE} leaves the rest of tables with a row for each "
                "column of the data on the host."
            )
        raise MemoryPlanError("\n".join(lines))
    lack = lack_of(plan, config, {})
    if lack is None:
        return
    lines = [
        f"training needs {size(lack.needed)} of memory, and {size(lack.left)} are {lack.limit}. "
        "Largest:"
    ]
    lines += array_lines(sorted(plan.rows, key=lambda row: -lack.of(row))[:NAMED])
    lines.append("Settings to lower, with the memory that depends on each:")
    lines += _settings(growing(plan.rows, config, lack.of))
    if plan.rows_in_memory and not lack.maps:
        lines.append(
            "learner.row_folder: DIR keeps the state of rows in files. DIR must be on a disk: the "
            "run folder is in memory, too."
        )
    if config.learner.places.folder is None and not lack.maps:
        lines.append(
            "learner.table_folder: DIR keeps tables of the data's columns in files (sparse data "
            "and optimizers that step by block)."
        )
    raise MemoryPlanError("\n".join(lines))


def _check_rows(plan: Plan, config: RunConfig) -> None:
    """Raise `MemoryPlanError` if `tables.memory` cannot hold the rows of tables that it must."""
    memory = config.learner.places.memory
    if memory is None:
        return
    on_host = sum(row.held for row in plan.rows if row.name.endswith(ON_HOST))
    if on_host > memory:
        raise MemoryPlanError(
            f"learner.tables.memory: {size(memory)}: the rows of tables that do not fit into "
            f"tables.device need {size(on_host)}. Raise one of the two, or make the model smaller."
        )
    needed = sum(row.held for row in plan.rows if row.name == OF_BLOCKS)
    if needed > memory:
        raise MemoryPlanError(
            f"learner.tables.memory: {size(memory)}: must hold the rows of tables that two blocks "
            f"read, {size(needed)} at most. Set more, or a smaller data.block_rows "
            f"({config.data.block_rows})."
        )


class Lack(NamedTuple):
    """Memory that does not suffice.

    needed: bytes that training takes. left: fewer bytes that this process may still take.
    limit: the name of what limits them.
    """

    needed: int
    left: int
    limit: str

    @property
    def maps(self) -> bool:
        """Whether files that are mapped into memory count, too."""
        return self.limit == ADDRESSES

    def of(self, row: Planned) -> int:
        """Return the bytes of an array that count."""
        return row.mapped if self.maps else row.held


def lack_of(plan: Plan, config: RunConfig, sharing: Mapping[str, int]) -> Lack | None:
    """Return the memory that `plan` lacks most; None: it suffices.

    sharing: how many workers have the memory of a limit together, by its name; else one has all.
    """
    found = []
    for name, left in _limits(config).items():
        workers = sharing.get(name, 1)
        limit = f"{name} for each of {workers} workers" if workers > 1 else name
        lack = Lack(0, left // workers, limit)
        found.append(lack._replace(needed=sum(map(lack.of, plan.rows))))
    most = max(found, key=lambda lack: lack.needed - lack.left, default=None)
    return None if most is None or most.needed <= most.left else most


def room(config: RunConfig) -> tuple[int, str] | None:
    """Return the bytes this process may still take, and the name of the limit.

    None: no limit is known.
    """
    return min(((left, name) for name, left in _limits(config).items()), default=None)


def _limits(config: RunConfig) -> dict[str, int]:
    limits = memory_limits()
    own = config.learner.memory_limit.host
    if own is not None:
        limits["left of learner.memory_limit.host"] = max(0, own - resident_bytes())
    return limits


def _needed(plan: Plan, config: RunConfig) -> int:
    """Return the device bytes that a replica must have: blocks stay in what is left by themselves.

    Those of a chosen size are needed, too.
    """
    found = config.learner.device_blocks == "auto"
    return sum(row.nbytes for row in plan.rows if row.device and not (found and row.of == "kept"))


class RoomOfReplica(NamedTuple):
    """The device bytes that each replica on a device may take, and the name of their limit.

    replicas: on the device.
    """

    device: str
    replicas: int
    left: int
    limit: str


def device_rooms(plan: Plan, config: RunConfig) -> Iterator[RoomOfReplica]:
    """Yield the room on each device of the replicas; none if they are on the CPU."""
    own = config.learner.memory_limit.device
    for device, replicas, free in plan.devices:
        limited = own is not None and own < free
        limit = "allowed by learner.memory_limit.device" if limited else "free"
        left = own if limited and own is not None else free
        yield RoomOfReplica(device, replicas, left // replicas, limit)


def array_lines(rows: Sequence[Planned]) -> Iterator[str]:
    """Yield one line per array: its bytes, name, dtype and shape."""
    for row in rows:
        dimensions = " x ".join(f"{length:,}" for length in row.shape) or "1"
        count = f"{row.copies} x {row.nbytes:,}" if row.copies > 1 else f"{row.nbytes:,}"
        where = ", in a file" if row.in_file else f", on {row.device}" if row.device else ""
        yield f"{count:>18} bytes  {row.name}: {row.dtype} {dimensions}{where}"


def _settings(found: list[tuple[str, int]]) -> list[str]:
    return [f"{size(count):>24}  {setting}" for setting, count in found]


def growing(
    rows: Sequence[Planned], config: RunConfig, of: Callable[[Planned], int]
) -> list[tuple[str, int]]:
    """Return settings that memory grows with, and bytes for each, largest first.

    of: returns the bytes of an array that count.
    """
    held: dict[str, int] = {}
    for row in rows:
        for setting in settings_of(row, config):
            held[setting] = held.get(setting, 0) + of(row)
    return sorted(((s, n) for s, n in held.items() if n), key=lambda item: -item[1])


def settings_of(row: Planned, config: RunConfig) -> Iterator[str]:
    """Yield the settings that determine the size of an array, with their values.

    Settings of the model are recognised by their values among the array's dimensions.
    """
    if row.of == "hooks":
        yield from _settings_of_lists(row, config)
    if row.of == "block":
        yield f"data.block_rows: {config.data.block_rows}"
    elif row.of == "kept":
        if row.device and config.learner.device_blocks != "auto":
            yield f"learner.device_blocks: {config.learner.device_blocks}"
    else:
        for name in type(config.model).model_fields:
            value = getattr(config.model, name)
            counts = type(value) is int and value > 1
            if counts and any(value <= length <= value + BIASES for length in row.shape):
                yield f"model.{name}: {value}"
    if row.copies > 1:
        yield f"learner.replicas: {row.copies}"


def _settings_of_lists(row: Planned, config: RunConfig) -> Iterator[str]:
    ranking = ranking_of(config)
    if ranking is None:
        return
    yield f"learner.ranking.users: {ranking.users}"
    if ranking.top > 1 and ranking.top in row.shape:
        yield f"learner.ranking.top: {ranking.top}"
