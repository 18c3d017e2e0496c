"""Remove files of Numba's disk cache that a crash left damaged.

Numba replaces files as a whole, but does not wait until their contents are on disk. After a power
cut a file may be empty, cut off or full of zeros. Numba would then fail to read it each time.
"""

from __future__ import annotations

import pickletools
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def remove_damaged(functions: Iterable[Any]) -> list[Path]:
    """Remove damaged cache files of the modules of compiled functions; return them.

    Numba then compiles these functions anew.
    """
    places = {
        (str(f.stats.cache_path), Path(f.py_func.__code__.co_filename).stem)
        for f in functions
        if getattr(getattr(f, "stats", None), "cache_path", None)
    }
    removed: list[Path] = []
    for folder, module in sorted(places):
        for pattern in (f"{module}.*.nbi", f"{module}.*.nbc"):
            for path in Path(folder).glob(pattern):
                try:
                    if not is_whole(path.read_bytes()):
                        path.unlink()
                        removed.append(path)
                except OSError:
                    pass  # Numba also ignores files that it may not read
    return removed


def is_whole(data: bytes) -> bool:
    """Return whether the bytes are complete pickles, without running them.

    >>> import pickle
    >>> whole = pickle.dumps("0.60") + pickle.dumps({"key": bytes(1000)})
    >>> is_whole(whole), is_whole(whole[:-9]), is_whole(b""), is_whole(bytes(64))
    (True, False, False, False)
    """
    if not data:
        return False
    at = 0
    while at < len(data):
        try:
            for operation, _, place in pickletools.genops(data[at:]):
                last = (operation.name, place)
        except (ValueError, EOFError, UnicodeDecodeError):
            return False
        if last[0] != "STOP" or last[1] is None:
            return False
        at += last[1] + 1
    return True
