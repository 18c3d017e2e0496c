"""List the leaves of a configuration."""

from collections.abc import Iterator, Mapping
from typing import Any


def flat(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield `("model.topics", 40)`, ... for every leaf; lists are leaves."""
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
