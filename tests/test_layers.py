"""Imports between the folders point one way, as docs/design.md draws them."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LAYER = {"matcache": 0, "datasources": 1, "mixins": 1, "optimizers": 1, "models": 2, "learner": 3}


def imports(path: Path) -> list[tuple[int, str]]:
    """Line and folder of every import in `path` that leaves the layer it is in."""
    found = []
    depth = len(path.relative_to(ROOT).parts)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level == depth:
            names = [node.module] if node.module else [alias.name for alias in node.names]
            found += [(node.lineno, name.split(".")[0]) for name in names]
    return found


@pytest.mark.parametrize("folder", LAYER)
def test_imports_point_down(folder: str) -> None:
    climbing = [
        f"{path.relative_to(ROOT)}:{line} imports {other}"
        for path in (ROOT / folder).rglob("*.py")
        for line, other in imports(path)
        if LAYER.get(other, 0) >= LAYER[folder]
    ]
    assert climbing == []


def test_what_all_folders_may_import_imports_none_of_them() -> None:
    tree = ast.parse((ROOT / "blocklearn" / "fields.py").read_text(encoding="utf-8"))
    found = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert not [node.module for node in found if node.level or "blocklearn" in str(node.module)]


@pytest.mark.parametrize("folder", LAYER)
def test_imports_inside_the_package_are_relative(folder: str) -> None:
    absolute = []
    for path in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            absolute += [f"{path}:{n}" for n in names if n.split(".")[0] in {*LAYER, "blocklearn"}]
    assert absolute == []
