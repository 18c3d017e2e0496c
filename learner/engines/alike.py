"""Check that all workers train the same model in the same way."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..errors import ConfigError
from ..figures import counted
from .crew import Crew


def check_alike(crew: Crew, card: Mapping[str, Any]) -> None:
    """Raise ConfigError on all workers if their cards differ.

    card: settings and sizes of this worker, by name, for JSON.
    """
    texts = {name: json.dumps(value, sort_keys=True) for name, value in card.items()}
    first, *others = crew.gather(texts)
    problems = [
        f"{name}={found.get(name)} on worker {rank}, but {value} on worker 0: must be the same on "
        "all workers. Give all the same configuration, data and version of blocklearn."
        for rank, found in enumerate(others, 1)
        for name, value in first.items()
        if found.get(name) != value
    ]
    if problems:
        raise ConfigError(problems)


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
