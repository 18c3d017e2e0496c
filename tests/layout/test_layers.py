"""Imports point one way: between the folders, and between the rooms of each folder."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

FOLDERS = {
    "matcache": 0, "datasources": 1, "mixins": 1, "optimizers": 1, "models": 2, "learner": 3,
}  # fmt: skip
"""The floor of each folder: imports point to lower floors only."""


def imports(path: Path) -> list[tuple[int, str]]:
    """Line and absolute module of every import in `path`, also type-only ones and in functions."""
    here = ["blocklearn", *path.relative_to(ROOT).with_suffix("").parts]
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = here[: len(here) - node.level] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            found += [(node.lineno, f"{module}.{alias.name}") for alias in node.names]
    return found


def sources(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


@pytest.mark.parametrize("folder", FOLDERS)
def test_imports_between_folders_point_down(folder: str) -> None:
    climbing = [
        f"{path.relative_to(ROOT)}:{line} imports {module}"
        for path in sources(folder)
        for line, module in imports(path)
        if module.startswith("blocklearn.")
        and (other := module.split(".")[1]) != folder
        and FOLDERS.get(other, 0 if other == "fields" else 9) >= FOLDERS[folder]
        and other != "fields"
    ]
    assert climbing == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_imports_are_relative_within_a_folder_and_absolute_between_folders(folder: str) -> None:
    wrong = []
    for path in sources(folder):
        depth = len(path.relative_to(ROOT / folder).parts)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ImportFrom):
                continue
            own = (node.module or "").startswith(f"blocklearn.{folder}")
            if (node.level == 0 and own) or node.level > depth:
                wrong.append(f"{path.relative_to(ROOT)}:{node.lineno} {ast.unparse(node)}")
    assert wrong == []


def test_what_all_folders_may_import_imports_none_of_them() -> None:
    for module in ("fields.py",):
        found = imports(ROOT / "blocklearn" / module)
        assert not [name for _, name in found if name.startswith("blocklearn")]
