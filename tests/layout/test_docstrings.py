"""The examples in docstrings show what they compute."""

import doctest
from importlib import import_module
from pathlib import Path

import pytest

from tests.support.often import rarely

ROOT = Path(__file__).parents[2]
FOLDERS = "datasources learner matcache mixins models optimizers".split()


def name_of(path: Path) -> str:
    """The name by which a file of the package is imported."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    own = parts if parts[0] == "blocklearn" else ("blocklearn", *parts)
    return ".".join(own).removesuffix(".__init__")


def with_examples() -> list[str]:
    """Names of the modules that have examples."""
    files = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    files += sorted((ROOT / "blocklearn").glob("*.py"))
    return [name_of(path) for path in files if ">>> " in path.read_text(encoding="utf-8")]


TRAINED = {
    "blocklearn.learner.choosing.choose",
    "blocklearn.learner.checking.check_model",
    "blocklearn.learner.estimators.linear.machines",
    "blocklearn.learner.estimators.recommenders.als",
    "blocklearn.learner.estimators.graphs.triangles",
}
"""Modules whose examples train models that other tests train: they are slow."""
QUICK = [name for name in with_examples() if name not in TRAINED]


@pytest.mark.parametrize("name", [*QUICK, *rarely(*sorted(TRAINED))])
def test_examples(name: str) -> None:
    found = doctest.testmod(import_module(name), optionflags=doctest.ELLIPSIS)
    assert found.attempted and not found.failed
