"""Model code reads like the paper: what its signatures say, and how long they may be."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "models").rglob("*.py"))
MOST_PARAMETERS = 6  # without self and cls
LINES = 22  # of the class in docs/custom-model.md, without empty ones


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    given = function.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    return [arg.arg for arg in every if arg is not None and arg.arg not in ("self", "cls")]


def test_the_models_are_found() -> None:
    found = {path.relative_to(ROOT / "models").as_posix() for path in FILES}
    assert {"als/rows.py", "glm/model.py", "lda/model.py", "nmf/rules.py"} <= found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_annotations_say_what_a_thing_is(path: Path) -> None:
    """`Sparse`, `Rows` and the others of matcache/notation/annotations.py; never `Any`."""
    names = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Name)]
    assert [f"{path.name}:{name.lineno}" for name in names if name.id == "Any"] == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_functions_take_few_parameters(path: Path) -> None:
    tree = ast.parse(path.read_text())
    long = {f.name: parameters(f) for f in functions(tree) if len(parameters(f)) > MOST_PARAMETERS}
    assert long == {}


def test_the_example_of_a_model_is_short_and_needs_no_scratch() -> None:
    page = (ROOT / "docs" / "custom-model.md").read_text()
    code = page.split("class KMeans", 1)[1].split("```", 1)[0]
    lines = [line for line in code.splitlines() if line.strip()]
    assert "def predict" in code and len(lines) <= LINES
    assert "scratch" not in code and "row_ids" not in code
