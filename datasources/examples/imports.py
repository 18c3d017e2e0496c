"""Example graph: which modules of Python's standard library import which."""

import ast
from collections.abc import Container, Iterator
from pathlib import Path
from sysconfig import get_path

from ..errors import DataError
from ..text.corpus import Corpus, count_words
from .corpus_cache import cached
from .library_files import SKIPPED, library_files, module_name
from .syntax_trees import syntax_tree

FORMAT = 1  # raise it when the code below makes something else of the same files


def python_imports(cache_dir: Path | None = None) -> Corpus:
    """Count the imports of the running Python's standard library.

    Rows and columns are the same modules, those with a Python file, in the same order. Entry (i, j)
    is 1 if module i imports module j, or a name from it; imports within functions count, too.

    - cache_dir: folder where the graph is kept; None: the user's cache folder, see `corpus_cache`.

    Raises `DataError` if the standard library has no source files.
    """
    root = Path(get_path("stdlib"))
    key = f"{FORMAT} {root} {sorted(SKIPPED)}"
    return cached("python-imports", key, lambda: read_imports(root), cache_dir)


def read_imports(root: Path) -> Corpus:
    """Find the imports of all modules under `root`."""
    modules = {module_name(path): path for path in library_files(root)}
    if not modules:
        raise DataError(
            f"python-imports: no Python files under {root}; this Python comes without the source "
            "of its standard library. Install it, or train on a file."
        )
    found = [(name, sorted(imported(root, modules[name], modules))) for name in modules]
    return count_words(found).over(list(modules))


def imported(root: Path, path: Path, modules: Container[str]) -> set[str]:
    """Return the modules that the file `path` under `root` imports, without itself."""
    tree = syntax_tree(root / path)
    if tree is None:
        return set()
    name = module_name(path)
    package = [*name.split("."), *["__init__"] * (path.name == "__init__.py")]
    return {found for full in names_in(tree, package) if (found := known(full, modules))} - {name}


def names_in(tree: ast.Module, package: list[str]) -> Iterator[str]:
    """Yield the full names that imports name. package: parts of the file's own name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            place = [*(package[: -node.level] if node.level else []), *filter(None, [node.module])]
            yield from (".".join([*place, alias.name]) for alias in node.names)


def known(full: str, modules: Container[str]) -> str:
    """Return the longest beginning of a dotted name that is a module; empty if none is.

    >>> known("os.path.join", {"os", "os.path"}), known("sys", {"os"})
    ('os.path', '')
    """
    while full and full not in modules:
        full = full.rpartition(".")[0]
    return full
