"""Old habits of wording do not come back into docstrings, comments and messages."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = (
    "blocklearn",
    "datasources",
    "learner",
    "matcache",
    "mixins",
    "models",
    "optimizers",
    "scripts",
    "tests",
)
HABITS = re.compile(
    r"\b(nobody|whoever|somebody|goes on|gone on|but it is (at|one|above)|it is at least)\b"
    r"|\b(what|something|nothing) is there\b",
    re.IGNORECASE,
)
QUOTED = {
    ROOT / "datasources" / "text" / "words.py",  # a list of English words
    Path(__file__),
}


@pytest.mark.parametrize("folder", FOLDERS)
def test_sentences_name_their_subject(folder: str) -> None:
    """CONTRIBUTING.md has the rules: say None, the caller, unknown, exists, resumes, must be."""
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in sorted((ROOT / folder).glob("*.py" if folder == "blocklearn" else "**/*.py"))
        if path not in QUOTED
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if HABITS.search(line)
    ]
    assert found == []


@pytest.mark.parametrize("sentence", ["Nobody knows it.", "passes=0, but it is at least 1."])
def test_an_old_habit_is_found(sentence: str) -> None:
    assert HABITS.search(sentence)
