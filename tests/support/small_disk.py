"""A disk of a few MB, for tests of full ones: a tmpfs in a mount namespace of its own."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

OWN = ["unshare", "--mount", "--map-root-user", "sh", "-c"]
MOUNT = 'mount -t tmpfs -o size="$0" none "$1" && shift && exec "$@"'


def run_on_small_disk(
    place: Path, size: int, code: str, *arguments: str
) -> subprocess.CompletedProcess[str]:
    """Run Python code in a process to which the folder `place` is a disk of `size` bytes.

    It begins empty, and is gone with the process. Skips the test where none can be mounted.
    """
    mounted = [*OWN, MOUNT, str(size), str(place)]
    if not shutil.which("unshare") or subprocess.run([*mounted, "true"]).returncode:
        pytest.skip("no tmpfs can be mounted here")
    command = [*mounted, sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True)
