"""After warm-up training allocates next to nothing: in any thread, in any language."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import allocating
from tests.support.allocating import CASES, CONTROL, IN_BYTES

SUPPORT = Path(allocating.__file__).parent
COMPILER = shutil.which("gcc") or shutil.which("cc")

pytestmark = [
    pytest.mark.slow,  # two processes that train every kind of model
    pytest.mark.skipif(
        COMPILER is None or sys.platform != "linux", reason="needs a C compiler and LD_PRELOAD"
    ),
]


@pytest.fixture(scope="module")
def counter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that counts."""
    library = tmp_path_factory.mktemp("counter") / "count_allocations.so"
    assert COMPILER is not None
    source = SUPPORT / "count_allocations.c"
    command = [COMPILER, "-O2", "-shared", "-fPIC", "-o", library, source, "-ldl"]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr[-1000:]
    return library


@pytest.fixture(scope="module", params=[1, 2], ids=["one replica", "two replicas"])
def found(request: pytest.FixtureRequest, counter: Path) -> dict[str, dict[str, Any]]:
    """What each case allocates, found by one process."""
    command = [sys.executable, "-m", "tests.support.allocating", str(request.param)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        cwd=SUPPORT.parent.parent,
        # PYTHONMALLOC: small objects of Python are allocated one by one, not as arenas.
        env=os.environ | {"LD_PRELOAD": str(counter), "PYTHONMALLOC": "malloc"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    result: dict[str, dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return result


@pytest.mark.parametrize("case", CASES)
def test_nothing_of_64_kib_is_allocated_after_the_first_pass(
    found: dict[str, dict[str, Any]], case: str
) -> None:
    assert found["large"][case] == []


@pytest.mark.parametrize("case", IN_BYTES)
def test_a_block_takes_16_kib_at_most(found: dict[str, dict[str, Any]], case: str) -> None:
    assert found["bytes"][case] <= 16 * 2**10


def test_the_counter_sees_an_array_that_lives_for_a_moment(
    found: dict[str, dict[str, Any]],
) -> None:
    (control,) = CONTROL
    large, allocated = found["large"][control], found["bytes"][control]
    assert large and all("in numpy" in lines for lines in large)
    assert allocated > 64 * 2**10
