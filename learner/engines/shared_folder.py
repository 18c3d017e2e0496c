"""Find out whether all workers see a folder of the one that leads."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from .crew import Crew


def seen_by_all(crew: Crew, folder: Path | None) -> Path | None:
    """Return the folder of the leader, if all workers see the file that it makes there.

    folder: of the leader; None: it has none. The others give None.
    """
    token = f"seen-{secrets.token_hex(8)}"
    if folder is not None:
        (folder / token).touch()
    try:
        path = crew.told(None if folder is None else str(folder.absolute() / token))
        seen = crew.gather(path is not None and os.path.exists(path))
    finally:
        if folder is not None:
            (folder / token).unlink(missing_ok=True)
    return Path(path).parent if all(seen) else None
