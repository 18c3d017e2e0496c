"""The repository layout and the import names must tell the same story."""

import ast
import importlib
import pkgutil
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
SETUP = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
FOLDERS = {n: f for n, f in SETUP["package-dir"].items() if "." in n}


def test_every_package_is_listed() -> None:
    if not (ROOT / "learner").exists():
        pytest.skip("the tests of an installed wheel: its sources are not here")
    found = {"blocklearn"}
    for name, folder in FOLDERS.items():
        for init in (ROOT / folder).rglob("__init__.py"):
            found.add(".".join([name, *init.parent.relative_to(ROOT / folder).parts]))
    assert found == set(SETUP["packages"])


@pytest.mark.parametrize("name, folder", FOLDERS.items())
def test_link_matches_mapping(name: str, folder: str) -> None:
    link = ROOT / "blocklearn" / name.split(".")[1]
    if not link.is_symlink():
        pytest.skip("checked out without symbolic links (Windows)")
    assert link.resolve() == ROOT / folder


@pytest.mark.parametrize("name", SETUP["packages"])
def test_a_package_lists_the_names_that_it_hands_on(name: str) -> None:
    """So that `help` and `import *` have them, and no others."""
    package = importlib.import_module(name)
    assert package.__file__ is not None
    tree = ast.parse(Path(package.__file__).read_text(encoding="utf-8"))
    lines = [line for node in tree.body if isinstance(node, ast.If) for line in node.body]
    names = [n.asname or n.name for i in lines if isinstance(i, ast.ImportFrom) for n in i.names]
    handed = {found for found in names if not isinstance(getattr(package, found), ModuleType)}
    if handed:
        assert handed <= set(package.__all__)
        modules = {each.name for each in pkgutil.iter_modules(package.__path__)}
        within = [
            n.name for i in lines if isinstance(i, ast.ImportFrom) and i.module for n in i.names
        ]
        assert not {*within} & modules, "a module that is imported hides what has its name"
