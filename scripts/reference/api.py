"""Reference of Python names: a package's exports as directives of mkdocstrings."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
WHOLE = dict.fromkeys(
    ("Learner", "ALS", "LDA", "ConnectedComponents", "TriangleCount"),
    "    options: {inherited_members: true}\n",
)
"""Options of classes whose base has no name of the package: its members are described there."""

ESTIMATORS = "learner.estimators"  # `blocklearn` exports its names, too


def api_page(package: str = "") -> str:
    """Return all public names of `blocklearn.PACKAGE`.

    "": those of `blocklearn` itself that have no page of their own.
    """
    path = ".".join(filter(None, ("blocklearn", package)))
    return "\n".join(f"::: {path}.{name}\n{WHOLE.get(name, '')}" for name in public_names(package))


def public_names(package: str) -> list[str]:
    """Return the names that `__init__.py` defines or imports under the same name (`X as X`)."""
    file = ROOT.joinpath("blocklearn", *package.split("."), "__init__.py")
    found = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module != ESTIMATORS:
            found += [alias.name for alias in node.names if alias.asname == alias.name]
        elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            found.append(node.name)
    return found
