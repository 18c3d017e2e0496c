"""The code in the documentation runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = ["README.md", "docs/custom-model.md"]


@pytest.mark.parametrize("page", PAGES)
def test_python_blocks_of_a_page_run(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All Python blocks of a page, in order, as one program in an empty folder."""
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.M | re.S)
    assert blocks, f"{page} has no Python code"
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "page.py"
    file.write_text("\n".join(blocks))
    exec(compile(file.read_text(), str(file), "exec"), {"__name__": "page"})
