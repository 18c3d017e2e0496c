"""Run the parts of `scripts/gpu-check` as processes, each with a time limit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

from .measure import Row

SECTION = (sys.executable, "-P", "-m", "scripts.gpu_check.section")
GRACE = 3.0  # seconds that a process gets to end
# These need only CuPy, NumPy, SciPy and Numba:
ALONE = ["tests/cuda/test_cuda_kernels.py", "tests/cuda/test_gpu.py"]
OTHERS = ("hypothesis", "pyarrow", "pydantic", "rich", "ruamel.yaml", "threadpoolctl", "xxhash")


def section(name: str, seconds: float, *, quick: bool) -> list[Row]:
    """Return the rows that a section measured in `seconds`, and its failure, if any."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "rows")
        command = [*SECTION, name, str(file), str(time.monotonic() + seconds - GRACE)]
        code = _run([*command, *(["--quick"] if quick else [])], seconds)
        lines = file.read_text().splitlines() if file.exists() else []
    found = [Row(**json.loads(line)) for line in lines]
    if code is None:
        found.append(Row(name, note=f"failed: it hung, and was ended after {seconds:.0f} seconds"))
    elif code:
        found.append(Row(name, note=f"failed: the process ended with {_said(code)}"))
    return found


def tests(seconds: float) -> Row:
    """Run `pytest -m gpu` with the installed packages."""
    if not installed("pytest"):
        return Row("tests", note="not run: pytest is not installed")
    every = sorted(Path("tests").rglob("test_*.py"))
    files = [str(path) for path in every if "mark.gpu" in path.read_text()]
    left_out = ""
    if missing := [name for name in OTHERS if not installed(name)]:
        files, left_out = ALONE, f"; of the matrix layer only, without {', '.join(missing)}"
    options = ["-v", "-m", "gpu", "-W", "ignore"]
    with tempfile.TemporaryFile("w+") as output:
        begun = time.monotonic()
        command = [sys.executable, "-u", "-m", "pytest", *options, *files]
        code = _run(command, seconds, stdout=output)
        spent = time.monotonic() - begun
        output.seek(0)
        said = output.read().strip()
    last = (said.splitlines() or ["nothing"])[-1]
    if code != 0:
        print(said[-8000:])
    if code is None:
        return Row("tests", spent, note=f"failed: not done after {seconds:.0f} s, last: {last}")
    outcome = "failed" if code else "passed"
    return Row("tests", spent, note=f"{outcome}: {last.strip('= ')}{left_out}")


def installed(name: str) -> bool:
    """Return whether a module can be imported."""
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # its package is missing
        return False


def _run(command: list[str], seconds: float, stdout: object = None) -> int | None:
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


def _said(code: int) -> str:
    return f"exit code {code}" if code > 0 else signal.Signals(-code).name
