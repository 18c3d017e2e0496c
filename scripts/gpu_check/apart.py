"""Run the parts of `scripts/gpu-check` as processes, each with a time limit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from .row import Row

SECTION = (sys.executable, "-P", "-m", "scripts.gpu_check.section")
GRACE = 3.0  # seconds that a process gets to end


def section(name: str, seconds: float, *, quick: bool) -> list[Row]:
    """Return the rows that a section measured in `seconds`, and its failure, if any."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "rows")
        command = [*SECTION, name, str(file), str(time.monotonic() + seconds - GRACE)]
        code = run([*command, *(["--quick"] if quick else [])], seconds)
        lines = file.read_text().splitlines() if file.exists() else []
    found = [Row(**json.loads(line)) for line in lines]
    if code is None:
        found.append(Row(name, note=f"failed: it hung, and was ended after {seconds:.0f} seconds"))
    elif code:
        found.append(Row(name, note=f"failed: the process ended with {said(code)}"))
    return found


def run(command: list[str], seconds: float, stdout: object = None) -> int | None:
    """Return a command's exit code; None: it and its children had to be ended."""
    process = subprocess.Popen(command, stdout=stdout, start_new_session=True)  # type: ignore[call-overload]
    try:
        return int(process.wait(seconds))
    except subprocess.TimeoutExpired:
        return None
    finally:  # the child ends with us, also after an error
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def said(code: int) -> str:
    return f"exit code {code}" if code > 0 else signal.Signals(-code).name
