"""Implicit feedback that every machine with Python has: which function of its standard library
calls what, and how often.
"""

import ast
import builtins
import warnings
from collections.abc import Iterator
from pathlib import Path
from sysconfig import get_path

import numpy as np

from ..errors import DataError
from ..text.corpus import Corpus, count_words
from .corpus_cache import cached
from .docstrings import SKIPPED, module_name

FORMAT = 1  # raise it when the code below makes something else of the same files
BUILTINS = frozenset(dir(builtins))
Function = ast.FunctionDef | ast.AsyncFunctionDef


def python_calls(
    cache_dir: Path | None = None, *, min_functions: int = 5, min_names: int = 3
) -> Corpus:
    """Calls in the functions of the running Python's standard library.

    A row is a function or method ("shutil.copytree"), a column a name that is called, with its
    module as far as the file's imports tell it ("os.path.join", "len"); methods of objects whose
    class is not known begin with a dot (".append"). Counted is how often. Left out are names that
    fewer than `min_functions` functions call, and then functions that call fewer than `min_names`
    of the rest. The counts are kept in `cache_dir` (default: the user's cache folder, see
    `corpus_cache`).

    Raises `DataError` where the standard library has no source files.
    """
    root = Path(get_path("stdlib"))
    key = f"{FORMAT} {root} {sorted(SKIPPED)}"
    corpus = cached("python-calls", key, lambda: read_calls(root), cache_dir)
    corpus = corpus.limit(min_df=min_functions)
    return corpus.rows(np.flatnonzero(np.diff(corpus.counts.indptr) >= min_names))


def read_calls(root: Path) -> Corpus:
    """Calls of all functions under the folder `root`; of several of one name the first one's."""
    found: dict[str, list[str]] = {}
    for path in sorted(root.rglob("*.py")):
        if SKIPPED.isdisjoint(path.relative_to(root).parts):
            for name, calls in calls_in(path, module_name(path.relative_to(root))):
                found.setdefault(name, calls)
    if not found:
        raise DataError(
            f"python-calls: no functions in the Python files under {root}; this Python comes "
            "without the source of its standard library. Install it, or train on a file."
        )
    return count_words(found.items())


def calls_in(path: Path, module: str) -> Iterator[tuple[str, list[str]]]:
    """`(qualified name, names called)` of all functions and methods, also of nested ones."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # old escapes in strings: not our code
        try:
            tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError, OSError):
            return  # a template, or a file that only an administrator may read
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
    """What is in `node`; functions and classes in it, but not what is in these."""
    pending = list(ast.iter_child_nodes(node))
    while pending:
        child = pending.pop()
        yield child
        if not isinstance(child, Function | ast.ClassDef):
            pending.extend(ast.iter_child_nodes(child))


def names_known(tree: ast.Module, module: str) -> dict[str, str]:
    """What a file's names stand for: its imports, wherever they are, and what it defines itself."""
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
    """The name of what is called; None for what has none, such as the result of another call."""
    parts: list[str] = []
    while isinstance(called, ast.Attribute):
        parts.append(called.attr)
        called = called.value
    if isinstance(called, ast.Name) and called.id in known:
        return ".".join([known[called.id], *reversed(parts)])
    return f".{parts[0]}" if parts else None
