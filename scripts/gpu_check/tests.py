"""Run `pytest -m gpu`: each file in a process of its own, several at a time.

An illegal address spoils its whole process on a card, so a file that fails takes no other along.
Compiling kernels takes most of the time, on the host's cores.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from . import apart
from .row import Row

# These need only CuPy, NumPy, SciPy and Numba:
ALONE = ["tests/cuda/test_cuda_kernels.py", "tests/cuda/test_gpu.py"]
OTHERS = ("hypothesis", "pyarrow", "pydantic", "rich", "ruamel.yaml", "threadpoolctl", "xxhash")
AT_A_TIME = 8  # processes: each has a context on the card, of some hundred MB
NONE_CHOSEN = 5  # pytest's exit code where no test of a file is marked


def rows(seconds: float) -> list[Row]:
    """Return a row for each file of tests, with the installed packages."""
    if not installed("pytest"):
        return [Row("tests", note="not run: pytest is not installed")]
    until = time.monotonic() + seconds
    missing = [name for name in OTHERS if not installed(name)]
    files = ALONE if missing else files_with_tests()
    with ThreadPoolExecutor(min(AT_A_TIME, os.cpu_count() or 1)) as pool:
        found = list(pool.map(partial(of_file, until=until), files))
    if missing:
        without = ", ".join(missing)
        found.append(Row("tests", note=f"only of the matrix layer, without {without}"))
    return found


def files_with_tests() -> list[str]:
    """Return the files that mark a test `gpu`."""
    every = sorted(Path("tests").rglob("test_*.py"))
    return [str(path) for path in every if "mark.gpu" in path.read_text()]


def of_file(file: str, until: float) -> Row:
    """Run the tests of a file until time.monotonic() is `until`."""
    seconds = max(1.0, until - time.monotonic())
    command = [sys.executable, "-u", "-m", "pytest", "-v", "-m", "gpu", "-W", "ignore", file]
    with tempfile.TemporaryFile("w+") as output:
        begun = time.monotonic()
        code = apart.run(command, seconds, stdout=output)
        spent = time.monotonic() - begun
        output.seek(0)
        said = output.read().strip()
    last = (said.splitlines() or ["nothing"])[-1].strip("= ")
    if code not in (0, NONE_CHOSEN):
        print(said[-8000:], file=sys.stderr)
    if code is None:
        note = f"failed: not done after {seconds:.0f} s, last: {last}"
    else:
        note = f"{'failed' if code not in (0, NONE_CHOSEN) else 'passed'}: {last}"
    return Row(file, spent, note=note)


def installed(name: str) -> bool:
    """Return whether a module can be imported."""
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # its package is missing
        return False
