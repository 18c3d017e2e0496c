"""Load the classes that a configuration or a command names: `kmeans.py:KMeans`.

Importing runs code. Only texts that the user gives to a run or to an option come here; a model
folder, a checkpoint, a run folder or a dataset never does.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from inspect import isabstract
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from pydantic import BaseModel
from xxhash import xxh3_128_hexdigest

from blocklearn.synonyms import nearest

Base = TypeVar("Base", bound=BaseModel)

FORM = "FILE.py:CLASS or package.module:CLASS"

LOADED: dict[str, None] = {}
"""Names of the classes that this process has loaded, in order: an error may be theirs."""


class ClassNameError(ValueError):
    """A name of a class that cannot be loaded; the message begins with a rule."""


@dataclass(frozen=True)
class ClassName:
    """The name of a class, and the Python file or module that it is in.

    Attributes:
        module: the absolute path of a file, or the dotted name of a module.
        name: the name of the class.
    """

    module: str
    name: str

    def __str__(self) -> str:
        """`/home/me/kmeans.py:KMeans`, `my_package.models:KMeans`."""
        return f"{self.module}:{self.name}"

    @property
    def in_file(self) -> bool:
        """Whether `module` is the path of a file."""
        return self.module.endswith(".py")


def class_name(text: str, group: str, folder: Path) -> ClassName | None:
    """Return the class that `text` names; None: it has no colon and no package registers it.

    text: FILE.py:CLASS, package.module:CLASS, or the name of an entry point.
    group: of entry points, such as "models".
    folder: of relative paths.

    Raises:
        ClassNameError: a part of `text` is empty, or several packages register it.
    """
    module, colon, name = text.rpartition(":")
    if not colon:
        return _registered(text, group)
    if not module or not name.isidentifier():
        raise ClassNameError(f"must be {FORM}.")
    if module.endswith(".py"):
        module = str((folder / module).resolve())
    return ClassName(module, name)


def registered(group: str) -> list[EntryPoint]:
    """Return the entry points of the group `blocklearn.GROUP`, by name. Imports none of them."""
    return sorted(entry_points(group=f"blocklearn.{group}"))


def _registered(name: str, group: str) -> ClassName | None:
    found = {(entry.module, entry.attr) for entry in registered(group) if entry.name == name}
    if len(found) > 1:
        listed = " and ".join(sorted(":".join(each) for each in found))
        raise ClassNameError(f"must be registered by one package, but is by {listed}. Name one.")
    return next((ClassName(*each) for each in found), None)


def load_class(named: ClassName, base: type[Base]) -> tuple[type[Base], str]:
    """Import a class; return it, and the XXH3 digest (128 bits) of the file that it is in.

    base: the class that it must be a subclass of.

    Raises:
        ClassNameError: there is no such file, module or class, its import fails, or the class is
            not a complete subclass of `base`.
    """
    module, digest = _of_file(Path(named.module)) if named.in_file else _of_package(named.module)
    found = vars(module).get(named.name)
    a_base = f"a subclass of blocklearn's {base.__name__}"
    if found is None:
        known = list(_subclasses(module, base))
        near = nearest(named.name, known)
        hint = f" Did you mean {near!r}?" if near else ""
        raise ClassNameError(f"must be in {named.module}, which has no {named.name}.{hint}")
    if not (isinstance(found, type) and issubclass(found, base)):
        raise ClassNameError(f"must be {a_base}.")
    if isabstract(found):
        lacking = ", ".join(sorted(found.__abstractmethods__))
        raise ClassNameError(f"must be {a_base} with all of its methods. Define {lacking}.")
    LOADED[str(named)] = None
    return found, digest


def _subclasses(module: ModuleType, base: type) -> Iterator[str]:
    for name, value in vars(module).items():
        if isinstance(value, type) and issubclass(value, base) and value is not base:
            yield name


def _of_file(path: Path) -> tuple[ModuleType, str]:
    """Run a Python file as a module of its own, once for each content."""
    try:
        source = path.read_bytes()
    except OSError as error:
        raise ClassNameError(
            f"must name a file that can be read: {path}: {error.strerror}."
        ) from error
    name = f"{path.stem}_{xxh3_128_hexdigest(bytes(path) + source)}"
    if name not in sys.modules:
        module = ModuleType(name)
        module.__file__ = str(path)
        sys.modules[name] = module  # pydantic looks up annotations there
        try:
            exec(compile(source, str(path), "exec", dont_inherit=True), vars(module))
        except (Exception, SystemExit) as error:
            del sys.modules[name]
            raise ClassNameError(_failure(error, str(path))) from error
    return sys.modules[name], xxh3_128_hexdigest(source)


def _of_package(name: str) -> tuple[ModuleType, str]:
    try:
        module = import_module(name)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and f"{name}.".startswith(f"{error.name}."):
            raise ClassNameError(
                f"must name a module that is installed; there is no {error.name}. Install its "
                "package, or name a file: FILE.py:CLASS."
            ) from error
        raise ClassNameError(_failure(error, name)) from error
    file = getattr(module, "__file__", None)
    return module, "" if file is None else xxh3_128_hexdigest(Path(file).read_bytes())


def _failure(error: BaseException, module: str) -> str:
    """Return the last line of the error, and the last line of `module` that led to it."""
    if isinstance(error, SyntaxError) and error.filename:
        place = f"{error.filename}:{error.lineno}"
    else:
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if frame.filename == module] or frames[-1:]
        place = f"{own[-1].filename}:{own[-1].lineno}"
    said = traceback.format_exception_only(error)[-1].strip()
    return f"must name a module that can be imported. {place}: {said}"


def without_folder(kind: Any) -> Any:
    """Return a kind with the name of its file alone: `kmeans.py:KMeans`; others as they are.

    Runs are the same if their files are, wherever these lie.
    """
    if not isinstance(kind, str) or ".py:" not in kind:
        return kind
    file, _, name = kind.rpartition(":")
    return f"{Path(file).name}:{name}"
