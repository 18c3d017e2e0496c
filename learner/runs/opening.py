"""Open the data of a run; worker 0 reads rows into memory, and hands them to the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from blocklearn.datasources import DataKind, Holdout, MatrixSource

from ..configuration.config import RunConfig
from ..engines.alike import check_alike
from ..engines.crew import Crew
from ..engines.shared_folder import seen_by_all
from ..files.row_folder import RowFolder
from .advice import warn_of_copies
from .handing import hand_over, taken_over
from .inputs import (
    EVAL,
    TRAIN,
    Sources,
    kinds_of,
    of_length,
    open_data,
    require_files,
    settled,
    with_kinds,
)

Opened = tuple[RunConfig, Sources]
"""The configuration, with the settings that data and devices decide, and the open data."""


def open_together(
    config: RunConfig,
    crew: Crew,
    rows: RowFolder | None = None,
    begun: Mapping[str, Any] | None = None,
) -> Opened:
    """Settle the configuration and open the data. All workers call this.

    Raises as `settled` and `open_data`.

    rows: the folder of worker 0 for what it hands to the others.
    begun: see `of_length`.
    """
    kinds = kinds_of(config.data)
    if crew.size > 1:
        check_alike(
            crew, {name: [type(kind).__name__, kind.reads_whole] for name, kind in kinds.items()}
        )
    if crew.size == 1 or not any(kind.reads_whole for kind in kinds.values()):
        return _alone(config, begun)
    if rows is not None:
        rows.take()
    if seen_by_all(crew, None if rows is None else rows.path) is None:
        if rows is not None:
            rows.release()
            warn_of_copies(config, crew.size, f"not all see the run folder {rows.path.parent}")
        return _alone(config, begun)
    return _taken_over(config, crew) if rows is None else _handed(config, crew, rows, begun)


def _alone(config: RunConfig, begun: Mapping[str, Any] | None = None) -> Opened:
    """Open the data without the others."""
    config = settled(config, begun)
    return config, open_data(config)


def _handed(
    config: RunConfig, crew: Crew, rows: RowFolder, begun: Mapping[str, Any] | None
) -> Opened:
    """Open the data, and hand to the others what is read into memory."""
    config, (train, eval) = _alone(config, begun)
    kinds = kinds_of(config.data)
    whole = {name for name, kind in kinds.items() if kind.reads_whole}
    if TRAIN in whole and isinstance(config.data.eval, Holdout):
        whole.add(EVAL)
    sources = {
        name: source
        for name, source in ((TRAIN, train), (EVAL, eval))
        if name in whole and type(source) is MatrixSource
    }
    if len(sources) < len(whole):  # those of a user's own kind
        crew.told(None)
        warn_of_copies(config, crew.size, "its source is no MatrixSource")
        return config, (train, eval)
    two_sided = 1 in config.model.row_states.values()
    found = hand_over(
        crew,
        rows,
        sources,
        turned=[TRAIN] if two_sided else [],  # scores take rows only
        beside={name: kinds[name].model_dump(mode="json") for name in sources if name in kinds},
    )
    return config, (found.get(TRAIN, train), found.get(EVAL, eval))


def _taken_over(config: RunConfig, crew: Crew) -> Opened:
    """Open the data; worker 0 hands over those that it reads into memory."""
    told = crew.told()
    if told is None:
        return _alone(config)
    sources, settled_kinds = taken_over(told), told["beside"]
    kinds, found = kinds_of(config.data), dict[str, DataKind]()
    require_files({name: kind for name, kind in kinds.items() if name not in sources})
    for name, kind in kinds.items():  # that of training first
        given = settled_kinds.get(name)
        found[name] = (
            kind.settled(found.get(TRAIN)) if given is None else type(kind).model_validate(given)
        )
    config = with_kinds(of_length(config), found[TRAIN], found.get(EVAL, config.data.eval))
    return config, open_data(config, sources)
