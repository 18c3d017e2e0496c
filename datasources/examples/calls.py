"""Example of implicit feedback: calls in Python's standard library."""

import ast
import builtins
from collections.abc import Iterator
from pathlib import Path
from sysconfig import get_path

import numpy as np

from ..errors import DataError
from ..text.corpus import Corpus, count_words
from .corpus_cache import cached
from .library_files import SKIPPED, library_files, module_name
from .syntax_trees import syntax_tree

FORMAT = 1  # raise it when the code below makes something else of the same files
BUILTINS = frozenset(dir(builtins))
Function = ast.FunctionDef | ast.AsyncFunctionDef


def python_calls(
    cache_dir: Path | None = None, *, min_functions: int = 5, min_names: int = 3
) -> Corpus:
    """Count the calls in the functions of the running Python's standard library.

    A row is a function or method ("shutil.copytree"). A column is a name that is called, with its
    module as far as the file's imports show it ("os.path.join", "len"). Methods of objects of an
    unknown class begin with a dot (".append"). An entry is the number of calls.

    - cache_dir: folder where the counts are kept; None: the user's cache folder, see
      `corpus_cache`.
    - min_functions: names that fewer functions call are left out.
    - min_names: functions that then call fewer of the remaining names are left out.

    Raises `DataError` if the standard library has no source files.
    """
    root = Path(get_path("stdlib"))
    key = f"{FORMAT} {root} {sorted(SKIPPED)}"
    corpus = cached("python-calls", key, lambda: read_calls(root), cache_dir)
    corpus = corpus.limit(min_df=min_functions)
    return corpus.rows(np.flatnonzero(np.diff(corpus.counts.indptr) >= min_names))


def read_calls(root: Path) -> Corpus:
    """Count calls of all functions under `root`; of equal names the first counts."""
    found: dict[str, list[str]] = {}
    for path in library_files(root):
        for name, calls in calls_in(root / path, module_name(path)):
            found.setdefault(name, calls)
    if not found:
        raise DataError(
            f"python-calls: no functions in the Python files under {root}; this Python comes "
            "without the source of its standard library. Install it, or train on a file."
        )
    return count_words(found.items())


def calls_in(path: Path, module: str) -> Iterator[tuple[str, list[str]]]:
    """Yield `(qualified name, names called)` of all functions, nested ones too."""
    tree = syntax_tree(path)
    if tree is None:
        return
    known = names_known(tree, module)
    pending: list[tuple[str, ast.AST]] = [(module, tree)]
    while pending:
        name, node = pending.pop()
        calls: list[str] = []
        for child in own_nodes(node):
            if isinstance(child, Function | ast.ClassDef):
                pending.append((f"{name}.{child.name}", child))
            elif isinstance(child, ast.Call) and (called := name_of(child.func, known)):
                calls.append(called)
        if isinstance(node, Function):
            yield name, calls


def own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes in `node`, without the contents of inner functions and classes."""
    pending = list(ast.iter_child_nodes(node))
    while pending:
        child = pending.pop()
        yield child
        if not isinstance(child, Function | ast.ClassDef):
            pending.extend(ast.iter_child_nodes(child))


def names_known(tree: ast.Module, module: str) -> dict[str, str]:
    """Return full names of a file's names: builtins, imports and definitions."""
    known = {name: name for name in BUILTINS}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.partition(".")[0]
                known[alias.asname or first] = alias.name if alias.asname else first
        elif isinstance(node, ast.ImportFrom):
            package = module.split(".")[: -node.level] if node.level else []
            place = ".".join([*package, *filter(None, [node.module])])
            for alias in node.names:
                known[alias.asname or alias.name] = f"{place}.{alias.name}"
    for node in tree.body:
        if isinstance(node, Function | ast.ClassDef):
            known[node.name] = f"{module}.{node.name}"
    return known


def name_of(called: ast.expr, known: dict[str, str]) -> str | None:
    """Return the name of a called expression; None if it has no name."""
    parts: list[str] = []
    while isinstance(called, ast.Attribute):
        parts.append(called.attr)
        called = called.value
    if isinstance(called, ast.Name) and called.id in known:
        return ".".join([known[called.id], *reversed(parts)])
    return f".{parts[0]}" if parts else None
