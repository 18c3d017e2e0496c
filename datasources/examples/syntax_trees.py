"""Syntax trees of Python's standard library, and the docstrings in them.

`two_readers.py` runs this file as a program: it reads names of files, and writes their docstrings.
It starts in 20 ms, as it imports no other module of this package.
"""

import ast
import gc
import marshal
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path


def syntax_tree(path: Path) -> ast.Module | None:
    """Return the syntax tree of a Python file; None if it cannot be read as Python.

    Such a file is a template, or may be read by an administrator only. Python's collector of
    garbage stays off meanwhile: it would look at the nodes again and again, and free none.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in strings of the library
            return ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, OSError):
        return None
    finally:
        if collects:
            gc.enable()


def docstrings(path: Path, module: str) -> Iterator[tuple[str, str, str]]:
    """Yield `(qualified name, kind, docstring)` of everything in a module."""
    tree = syntax_tree(path)
    if tree is None:
        return
    pending: list[tuple[str, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]]
    pending = [(module, tree)]
    while pending:
        name, node = pending.pop()
        docstring = ast.get_docstring(node, clean=False)
        if docstring:
            kind = {ast.Module: "module", ast.ClassDef: "class"}.get(type(node), "function")
            yield name, kind, docstring
        inner = [
            (f"{name}.{child.name}", child)
            for child in node.body
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        ]
        pending.extend(reversed(inner))


if __name__ == "__main__":
    files = marshal.load(sys.stdin.buffer)
    found = [list(docstrings(Path(path), module)) for path, module in files]
    marshal.dump(found, sys.stdout.buffer)
