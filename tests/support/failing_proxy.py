"""A process with a proxy that fails: some calls of Arrow hold the lock that one here would need.

python -m tests.support.failing_proxy ADDRESS FAULT EVERY

It prints its address, and when its input ends, how many requests have failed.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.stores import Between
from tests.support.web_servers import serving

ROOT = Path(__file__).parents[2]


class Failing:
    """A proxy in another process. failed: how many requests have failed, once it has ended."""

    def __init__(self, address: str) -> None:
        self.address, self.failed = address, 0


@contextmanager
def failing(address: str, fault: str, every: int) -> Iterator[Failing]:
    """Run a proxy in front of a server in a `with` statement; see `Between`."""
    command = [sys.executable, "-m", "tests.support.failing_proxy", address, fault, str(every)]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        found = Failing(process.stdout.readline().strip())
        try:
            yield found
        finally:
            process.stdin.close()
            found.failed = int(process.stdout.readline() or 0)


if __name__ == "__main__":
    between = Between(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    with serving(between) as server:
        print(server.address, flush=True)
        sys.stdin.read()
    print(between.failed, flush=True)
