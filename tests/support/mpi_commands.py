"""A worker of MPI, for tests: runs commands of `learn` one after another, until one fails.

mpiexec -n 2 python -m tests.support.mpi_commands '[["predict", "model", ...], ...]'
"""

from __future__ import annotations

import json
import sys

from blocklearn.learner.command_line.cli import main

if __name__ == "__main__":
    for arguments in json.loads(sys.argv[1]):
        try:
            main(arguments)
        except SystemExit as end:
            if end.code:
                raise
