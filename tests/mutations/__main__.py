"""`python -m tests.mutations --cases 100000 --seed 1`: see the package."""

import argparse
import contextlib
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path

from tests.mutations.case import GOOD, Verdict, judge, make
from tests.mutations.runner import run


def lines(verdicts: list[Verdict]) -> list[str]:
    """A table of verdicts by the first word of the samples' names, and every fault."""
    table: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for found in verdicts:
        table[found.sample][found.kind] += 1
        table["all"][found.kind] += 1
    kinds = sorted(table["all"], key=lambda kind: (kind not in GOOD, kind))
    out = ["| sample | cases | " + " | ".join(kinds) + " |", "|---" * (2 + len(kinds)) + "|"]
    for name, counts in table.items():
        cells = [str(counts[kind]) for kind in kinds]
        out.append(f"| {name} | {counts.total()} | " + " | ".join(cells) + " |")
    most = max((found.peak for found in verdicts), default=0)
    out.append(f"most memory of a case: {most >> 20} MB")
    faults = sorted(found for found in verdicts if found.kind not in GOOD)
    return out + [
        f"{f.number}: {f.kind}: {f.sample}: {f.file} ({', '.join(f.damages)}): {f.detail}"
        for f in faults
    ]


def main() -> int:
    """The exit status: 1 where there are faults."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutations")
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--case", type=int, help="this case alone, in this process")
    parser.add_argument(
        "--keep",
        type=Path,
        help="with --case: empty folder that keeps its files; else a new temporary one",
    )
    given = parser.parse_args()
    if given.case is not None:
        folder = given.keep or Path(tempfile.mkdtemp(prefix=f"case-{given.seed}-{given.case}-"))
        folder.mkdir(parents=True, exist_ok=True)
        found = judge(make(given.seed, given.case), given.case, folder.absolute(), lambda: None)
        print(found)
        return found.kind not in GOOD
    for stop in (signal.SIGINT, signal.SIGTERM):  # the table of what was done until then
        signal.signal(stop, signal.default_int_handler)
    begun, verdicts = time.monotonic(), []
    with contextlib.suppress(KeyboardInterrupt):
        cases = range(given.first, given.first + given.cases)
        for found in run(given.seed, cases, given.workers):
            verdicts.append(found)
            if found.kind not in GOOD:
                print(found, file=sys.stderr, flush=True)
            if len(verdicts) % 1000 == 0:
                done = f"{len(verdicts)} cases, {time.monotonic() - begun:.0f} s"
                print(done, file=sys.stderr, flush=True)
    print(*lines(sorted(verdicts)), sep="\n")
    return int(not verdicts or any(found.kind not in GOOD for found in verdicts))


if __name__ == "__main__":
    sys.exit(main())
