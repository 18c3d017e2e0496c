"""A child process that judges case after case: `python -m tests.mutations.worker SEED BYTES`.

It reads numbers of cases, a line each, and answers with a line of JSON each; before the independent
reading begins it says "read". BYTES: memory it may take from its start on. What kills it, or keeps
it, is for `runner.py` to see.
"""

import faulthandler
import json
import os
import resource
import sys
import tempfile
from pathlib import Path

from tests.mutations.case import clear, good, judge, make, status
from tests.mutations.samples import samples


def main(seed: int, memory: int) -> None:
    """Until there are no more numbers."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what the product prints is not an answer
    faulthandler.enable()
    for sample in samples():  # what is compiled and kept does not count
        good(sample)
    size = status("VmSize")
    resource.setrlimit(resource.RLIMIT_AS, (size + memory, size + memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 28, 1 << 28))
    print("ready", file=answers)
    with tempfile.TemporaryDirectory(prefix="mutations-") as name:
        folder = Path(name) / "case"
        folder.mkdir()
        for line in sys.stdin:
            case = make(seed, int(line))
            found = judge(case, int(line), folder, lambda: print("read", file=answers))
            print(json.dumps(found._replace(detail=ascii(found.detail)[:2000])), file=answers)
            clear(folder)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
