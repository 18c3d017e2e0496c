"""List the public names of a package."""

from collections.abc import Mapping
from types import ModuleType
from typing import Any


def exported(names: Mapping[str, Any]) -> list[str]:
    """Return the names that a package defines or imports, without modules and private ones.

    names: `globals()` of the package's `__init__.py`, at its end.

    >>> exported({"Model": int, "_Model": int, "sys": __import__("sys")})
    ['Model']
    """
    return sorted(
        name
        for name, value in names.items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    )
