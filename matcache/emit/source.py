"""Generated source: its lines, and files for Numba's disk cache."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

FORMAT = 1  # raise it when helpers of generated text change


def cache_folder() -> Path:
    """Return where compiled kernels are kept: $BLOCKLEARN_CACHE, or the user's cache."""
    if own := os.environ.get("BLOCKLEARN_CACHE"):
        base = Path(own)
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "blocklearn"
    return base / f"kernels-{FORMAT}-numba-{version('numba')}"


def load_source(text: str, fingerprint: str) -> ModuleType:
    """Import generated source from a file whose name depends on it and `fingerprint`.

    fingerprint: identifies the helpers that the source calls, so that changed helpers lead to
    another file.
    """
    digest = hashlib.blake2b((text + fingerprint).encode(), digest_size=16).hexdigest()
    name = f"blocklearn_kernel_{digest}"
    path = kernel_folder() / f"{name}.py"
    if not _holds(path, text):
        write_whole(path, text.encode())
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # Numba's cache looks the module up by its name
    try:
        spec.loader.exec_module(module)
    except (EOFError, ValueError, TypeError):  # Python's cached bytecode, not the text, is damaged
        Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)
        spec.loader.exec_module(module)
    return module


def _holds(path: Path, text: str) -> bool:
    """Return whether the file exists and is complete: a crash may have cut it."""
    try:
        return path.read_bytes() == text.encode()
    except FileNotFoundError:
        return False


def write_whole(path: Path, content: bytes) -> None:
    """Write the whole file or nothing. If the machine stops meanwhile, it may be cut."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(temporary, path)  # another process may have written the same bytes
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def kernel_folder() -> Path:
    """Return `cache_folder`, made if necessary; if not writable, a temporary folder."""
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    except OSError:
        pass
    # Code is run from here, so the folder must be ours: any user may have made this name.
    own = os.getuid() if hasattr(os, "getuid") else 0
    base = Path(tempfile.gettempdir()) / f"blocklearn-{own}"
    base.mkdir(exist_ok=True, mode=0o700)
    if base.stat().st_uid != own or base.is_symlink():
        base = Path(tempfile.mkdtemp(prefix="blocklearn-"))
    folder = base / folder.name
    folder.mkdir(exist_ok=True, mode=0o700)
    return folder


class Writer:
    """Collects lines; `block()` indents what is written inside it."""

    def __init__(self) -> None:
        """Start without lines."""
        self._lines: list[str] = []
        self._depth = 0

    def raw(self, text: str) -> None:
        """Add text that is already laid out."""
        self._lines.append(text.rstrip("\n"))

    def line(self, text: str) -> None:
        """Add one line at the present depth."""
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, opening: str = "", closing: str = "") -> Iterator[None]:
        """Indent lines; `opening` and `closing` are for languages with braces."""
        if opening:
            self.line(opening)
        self._depth += 1
        yield
        self._depth -= 1
        if closing:
            self.line(closing)

    def text(self) -> str:
        """Return all lines as text."""
        return "\n".join(self._lines) + "\n"
