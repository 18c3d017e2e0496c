"""The reference of Python names: what a package exports, each as a directive of mkdocstrings."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
ESTIMATORS = "learner.estimators"  # whose names are those of `blocklearn`, too


def api_page(package: str = "") -> str:
    """All public names of `blocklearn.PACKAGE`; "": of `blocklearn` itself, but for those that are
    on a page of their own.
    """
    path = ".".join(filter(None, ("blocklearn", package)))
    return "\n".join(f"::: {path}.{name}\n" for name in public_names(package))


def public_names(package: str) -> list[str]:
    """What `__init__.py` imports under its own name (`X as X`) or defines, in its order."""
    file = ROOT.joinpath("blocklearn", *package.split("."), "__init__.py")
    found = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module != ESTIMATORS:
            found += [alias.name for alias in node.names if alias.asname == alias.name]
        elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            found.append(node.name)
    return found
