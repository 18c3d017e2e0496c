"""Imports among modules as links between pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from blocklearn.datasources import DataError
from blocklearn.datasources.examples import imports
from blocklearn.datasources.examples.imports import python_imports, read_imports
from tests.support.few_modules import few_modules

FILES = {
    "os.py": "import sys, os.path\nfrom pack import inner as mine\n",
    "pack/__init__.py": "from . import inner, missing\nfrom .inner import f\n",
    "pack/inner.py": "def f():\n    from ..os import x\n    import pack.inner, pack.other as o\n",
    "pack/other.py": "from . import inner\nfrom .inner import f\nimport os\n",
    "old.py": "print 'hello'\n",
    "test/test_os.py": "import os\n",
}  # fmt: skip


def test_links_lead_to_the_modules_that_are_imported(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    found = read_imports(tmp_path)
    assert found.documents == list(found.vocabulary) == "old os pack pack.inner pack.other".split()
    rows, columns = found.counts.nonzero()
    links = {(found.documents[i], found.vocabulary[j]) for i, j in zip(rows, columns, strict=True)}
    assert links == {
        ("os", "pack.inner"),
        ("pack", "pack.inner"),
        ("pack.inner", "pack.other"),
        ("pack.inner", "os"),
        ("pack.other", "pack.inner"),
        ("pack.other", "os"),
    }
    assert set(found.counts.data) == {1.0}


def test_a_library_without_sources_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no Python files under"):
        read_imports(tmp_path)


def test_the_library_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = few_modules(tmp_path / "library", "glob.py", "json")
    monkeypatch.setattr(imports, "get_path", lambda name: str(few))
    found = python_imports(tmp_path / "cache")
    assert found.documents == list(found.vocabulary)
    assert "glob" in found.documents
    assert found.counts[found.documents.index("json"), found.documents.index("json.decoder")] == 1
