"""`docs/design.md`, CONTRIBUTING.md and comments name the rooms and files that exist."""

import re
from functools import cache

import pytest

from tests.layout.test_layers import ROOMS, ROOT

DESIGN = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
ROOM_TABLES = {
    "matcache": "### 3.2 The rooms of the matrix layer",
    "datasources": "## 4. Data",
    "models": "### 5.4 The rooms of `models/`",
    "optimizers": "### 5.5 The rooms of `optimizers/`",
    "learner": "## 6. Learner",
}
"""The heading above the table of the rooms of a folder."""

WITHIN = ("hooks", "checkpoints")  # one room with `learner`


def first_table(heading: str) -> list[list[str]]:
    """The rows of the first table below a heading, without its head."""
    below = DESIGN.split(f"\n{heading}\n")[1].split("\n|", 1)[1].split("\n\n")[0]
    return [line.split(" | ") for line in below.splitlines()[2:]]


def names_in(text: str) -> list[str]:
    """The rooms that a cell of a table names."""
    return [name.removesuffix("/").removesuffix(".py") for name in re.findall(r"`([^`]+)`", text)]


@pytest.mark.parametrize("folder", ROOM_TABLES)
def test_rooms_are_listed_in_their_order(folder: str) -> None:
    listed = [name for row in first_table(ROOM_TABLES[folder]) for name in names_in(row[0])]
    inner = [name.removeprefix("training/") for name in listed if "/" in name]
    assert inner == [name for name in ROOMS["learner/training"].split() if name in inner]
    outer = [name for name in listed if "/" not in name and name not in WITHIN]
    assert outer == ROOMS[folder].split()


def named_files(text: str) -> list[str]:
    """Files that a text names, without those of patterns and of examples (NAME)."""
    found = re.findall(r"`([a-z][\w/.-]*\.(?:py|cu|cuh))`", text)
    return sorted({name for name in found if "NAME" not in name})


@cache
def sources() -> list[str]:
    """All files that pages may name."""
    folders = [*ROOMS, "mixins", "blocklearn", "tests", "scripts"]
    found = (path for folder in folders for path in (ROOT / folder).rglob("*.*"))
    return [f"/{path.relative_to(ROOT).as_posix()}" for path in found]


@pytest.mark.parametrize(
    "where",
    ["docs/design.md", "CONTRIBUTING.md", *ROOMS, "mixins", "blocklearn", "scripts"],
)
def test_files_exist(where: str) -> None:
    place = ROOT / where
    texts = sorted(place.rglob("*.py")) if place.is_dir() else [place]
    unknown = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in texts
        for name in named_files(path.read_text(encoding="utf-8"))
        if not any(file.endswith(f"/{name}") for file in sources())
    ]
    assert unknown == []


def test_what_to_look_at_first_is_in_the_folder() -> None:
    table = CONTRIBUTING.split("## Where things are")[1].split("\n\n")[1]
    lacking = []
    for line in table.splitlines()[2:]:
        folder, _, first = line.strip("| ").split(" | ")
        for name in re.findall(r"`([\w./]+\.\w+)`", first):
            if not any((ROOT / base / name).exists() for base in (folder.strip("`"), "")):
                lacking.append(f"{folder}: {name}")
    assert lacking == []
