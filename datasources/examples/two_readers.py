"""Reads the docstrings of many Python files in two processes, in half of the time of one."""

import marshal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from blocklearn.matcache.threads import starting

from . import syntax_trees
from .syntax_trees import docstrings

File = tuple[Path, str]  # a file, and the dotted name of its module
Docstring = tuple[str, str, str]  # see `docstrings`


def docstrings_of(files: Sequence[File]) -> Iterator[Docstring]:
    """Yield what `docstrings` yields for each file, in order.

    A second process reads every other file. If it fails, this one reads them all.
    """
    with (
        starting("blocklearn-docstrings"),
        ThreadPoolExecutor(1, "blocklearn-docstrings") as waiting,
    ):
        other = waiting.submit(_read_elsewhere, files[1::2])
        mine = _read(files[::2])
        others = other.result() or _read(files[1::2])
    for number in range(len(files)):
        yield from (mine, others)[number % 2][number // 2]


def _read(files: Sequence[File]) -> list[list[Docstring]]:
    return [list(docstrings(*file)) for file in files]


def _read_elsewhere(files: Sequence[File]) -> list[list[Docstring]] | None:
    """Return what is in each file, read by another process; None if it failed."""
    command = [sys.executable, "-I", "-S", syntax_trees.__file__]
    names = marshal.dumps([(str(path), module) for path, module in files])
    try:
        done = subprocess.run(command, input=names, capture_output=True, check=True)
        found: list[list[Docstring]] = marshal.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, EOFError, ValueError, TypeError):
        return None
    return found
