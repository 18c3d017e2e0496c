"""The page on installing keeps up with `pyproject.toml`, and with the README."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_all_extras_are_described() -> None:
    cells = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", PAGE.split("### Extras")[1], re.M)
    described = [name for cell in cells for name in re.findall(r"\w+", cell)]
    assert sorted(described) == sorted(PROJECT["optional-dependencies"])


def test_versions_are_those_that_pip_wants() -> None:
    least = PROJECT["requires-python"].removeprefix(">=")
    assert f"| Python | {least} or newer" in PAGE
    needs = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["gpu"]]
    assert "numba>=0.62,<0.70" in needs and "Numba (0.62 to 0.69)" in PAGE
    assert "cupy-cuda12x[ctk]>=14.1" in needs and "CuPy 14.1 or newer" in PAGE


def test_the_readme_shows_the_same_first_run() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = PAGE.split("## A first run")[1].split("```text\n")[1].split("```")[0]
    assert shown.startswith("LDA on ") and shown in readme
