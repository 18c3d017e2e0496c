"""Check that all workers train the same model in the same way."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ..errors import ConfigError
from ..figures import counted
from .crew import Crew


def check_alike(crew: Crew, card: Mapping[str, Any]) -> None:
    """Raise ConfigError on all workers if their cards differ.

    card: settings and sizes of this worker, by name, for JSON.
    """
    first, *others = crew.gather(dict(card))
    problems = [
        f"{place}={own} on worker {rank}, but {told} on worker 0: must be the same on all workers. "
        "Give all the same configuration, data and version of blocklearn."
        for rank, found in enumerate(others, 1)
        for name, value in first.items()
        for place, own, told in _differences(name, found.get(name), value)
    ]
    if problems:
        raise ConfigError(problems)


def _differences(name: str, own: Any, first: Any) -> Iterator[tuple[str, str, str]]:
    """Yield the names of values that differ within `name`, and the two values as JSON."""
    if isinstance(own, dict) and isinstance(first, dict) and own.keys() == first.keys():
        for key, value in first.items():
            yield from _differences(f"{name}.{key}", own[key], value)
        return
    texts = json.dumps(own), json.dumps(first)
    if texts[0] != texts[1]:
        yield name, *texts


def check_same_data(crew: Crew, prints: Mapping[str, str | None]) -> None:
    """Raise ConfigError on all workers if their data differ. prints: fingerprints, by key."""
    check_alike(crew, {f"{key}.fingerprint": value for key, value in prints.items()})


def check_share(workers: int, blocks: int) -> None:
    """Raise ConfigError if a worker would have no block of a pass. blocks: of a pass."""
    if blocks < workers:
        raise ConfigError(
            [
                f"{workers} workers for {counted(blocks, 'block')} of a pass: each must have one "
                "at least. Start fewer workers, or lower block_rows, that of `learn convert` for "
                "a block dataset."
            ]
        )
