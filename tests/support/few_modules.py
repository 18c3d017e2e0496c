"""A standard library of few modules: to read the whole one takes seconds."""

from pathlib import Path
from shutil import copy, copytree
from sysconfig import get_path


def few_modules(folder: Path, *names: str) -> Path:
    """Make a folder with copies of these files and packages of the library, and return it."""
    folder.mkdir()
    for name in names:
        path = Path(get_path("stdlib"), name)
        (copytree if path.is_dir() else copy)(path, folder / name)
    return folder
