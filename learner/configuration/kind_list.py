"""List the kinds that configurations can name: `learn kinds`."""

from collections.abc import Iterator

from .class_names import registered
from .kinds import GROUPS


def kind_lines() -> Iterator[str]:
    """Yield a line for each kind: group, kind, and what it is or which package has it."""
    for group, (_, kinds) in GROUPS.items():
        for kind, cls in kinds.items():
            yield _line(group, kind, (cls.__doc__ or "").partition("\n")[0])
        for entry in registered(group):
            package = entry.dist
            origin = f" of {package.name} {package.version}" if package is not None else ""
            yield _line(group, entry.name, f"{entry.module}:{entry.attr}{origin}")


def _line(group: str, kind: str, about: str) -> str:
    return f"{group:<11} {kind:<20} {about}".rstrip()
