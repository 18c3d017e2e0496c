"""Files of Numba's cache on disk: those that a crash left damaged are removed before they are read.

Numba puts files in place whole, but does not wait until their contents are on the disk. After a
loss of power one may be empty, cut off or full of zeros; Numba would fail to read it, each time.
"""

from __future__ import annotations

import pickletools
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def remove_damaged(functions: Iterable[Any]) -> list[Path]:
    """Remove the damaged cache files of the modules of compiled functions; Numba compiles anew.

    Returns the files that were removed.
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
                    pass  # Numba, too, goes on without a file that it may not read
    return removed


def is_whole(data: bytes) -> bool:
    """Whether the bytes are pickles from beginning to end. Nothing of them is run.

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
