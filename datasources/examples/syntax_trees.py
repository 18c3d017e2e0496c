"""Syntax trees of Python's standard library."""

import ast
import gc
import warnings
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
