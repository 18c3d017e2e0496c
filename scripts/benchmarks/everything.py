"""Compare with every installed package on all data of a folder, in one command.

    scripts/bench all --data DIR --out report/

Each folder in DIR is a data set. Its files decide which benchmarks run on it:

    docword.npz              lda: word counts [documents x words], SciPy CSR
    docword.npz and y.npy    glm: one target of 0 and 1 for each document
    X.npz and Y.npz          glm: features and many targets, SciPy CSR
    ratings.npz              als: arrays user, item, rating

`read`, `kernels` and `allocation` follow, on the first docword.npz. Without DIR all tasks use data
that come with the package. Every benchmark runs in a process of its own and writes OUT/NAME.json.
OUT/report.md, with the tables of all tasks, is rewritten after each.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType

from .machine import describe, limits
from .process import ROOT
from .report import Report

PACKAGES = ("lda", "glm", "als")  # tasks whose peers are packages


@dataclass
class Part:
    """A benchmark on some data: the task's `arguments`, its report, and that as text."""

    name: str
    task: str
    arguments: list[str]
    report: Report | None = None
    text: str = ""
    failed: str = ""  # why there is no report
    seconds: float | None = None  # total, preparations and scoring included


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--data", type=Path, metavar="DIR", help="a folder of data sets")
    parser.add_argument("--out", type=Path, required=True, help="a folder for the report")
    parser.add_argument("--only", metavar="a,b", help="names of benchmarks: lda-NAME, glm-NAME, "
                        "als-NAME for the data set NAME, read, kernels, allocation")  # fmt: skip
    parser.add_argument("--peers", default="all", help="a,b | none | all")
    parser.add_argument("--with", action="append", default=[], dest="more", metavar="'TASK ...'",
                        help="further arguments of a task, or of one benchmark: --with "
                        "'als --rounds 1' --with 'als-NAME --reg 0.1'")  # fmt: skip
    parser.add_argument("--keep", action="store_true", help="do not repeat benchmarks that have "
                        "left their JSON in OUT before")  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="tiny: a test, no figures")


def run(args: argparse.Namespace, tasks: Mapping[str, ModuleType]) -> int:
    """Run every benchmark; return 1 if one of them, or a peer in it, stopped with an error.

    Raises:
        ValueError: a name is unknown; raised before anything runs.
    """
    found, unused = parts(args.data)
    if args.only is not None:
        names = args.only.split(",")
        if unknown := set(names) - {part.name for part in found}:
            there = ", ".join(part.name for part in found)
            raise ValueError(f"--only {args.only}: no {min(unknown)}; there are {there}.")
        found = [part for part in found if part.name in names]
    more = further(args.more, [*tasks, *(part.name for part in found)])
    for part in found:
        for name in dict.fromkeys([part.task, part.name]):
            part.arguments += more.get(name, [])
        part.arguments += [*peers(args.peers, part.task, tasks), *["--quick"] * args.quick]
    args.out.mkdir(parents=True, exist_ok=True)
    print("measuring the machine ...", file=sys.stderr, flush=True)
    about = [
        f"{datetime.now(UTC).isoformat(timespec='minutes')}, made by "
        f"`scripts/bench {shlex.join(sys.argv[1:])}`. Systems run one after the other.\n",
        *(f"- {name}: {value}" for name, value in (describe() | limits(quick=args.quick)).items()),
        *(f"- no benchmark is for the data in {folder}" for folder in unused),
    ]
    for number, part in enumerate(found, 1):
        measure(part, args.out, tasks[part.task], keep=args.keep)
        write(args.out / "report.md", about, found[:number])
    print(f"the report is in {args.out / 'report.md'}")
    return int(any(p.failed or p.report is None or p.report.failed for p in found))


def parts(data: Path | None) -> tuple[list[Part], list[str]]:
    """Return the benchmarks for a folder, and names of its folders that have none."""
    if data is None:
        return [Part(task, task, []) for task in (*PACKAGES, "read", "kernels", "allocation")], []
    if not data.is_dir():
        raise ValueError(f"--data {data}: no such folder.")
    found: list[Part] = []
    unused = []
    for folder in sorted(path for path in data.iterdir() if path.is_dir()):
        own = list(of_folder(folder))
        found += own
        if not own:
            unused.append(folder.name)
    if not found:
        raise ValueError(f"--data {data}: no folder in it has docword.npz, X.npz and Y.npz, or "
                         "ratings.npz.")  # fmt: skip
    found.sort(key=lambda part: PACKAGES.index(part.task))
    first = next((part.arguments for part in found if part.task == "lda"), [])
    return found + [
        Part(task, task, [*first]) for task in ("read", "kernels", "allocation")
    ], unused


def of_folder(folder: Path) -> Iterator[Part]:
    """Yield the benchmarks for one data set."""
    counts, target = folder / "docword.npz", folder / "y.npy"
    X, Y, ratings = (folder / name for name in ("X.npz", "Y.npz", "ratings.npz"))
    if counts.exists():
        yield Part(f"lda-{folder.name}", "lda", ["--data", str(counts)])
        if target.exists():
            arguments = ["--data", str(counts), "--target", str(target)]
            yield Part(f"glm-{folder.name}", "glm", arguments)
    if X.exists() and Y.exists() and not target.exists():
        yield Part(f"glm-{folder.name}", "glm", ["--data", str(X), "--target", str(Y)])
    if ratings.exists():
        yield Part(f"als-{folder.name}", "als", ["--data", str(ratings)])


def further(texts: list[str], names: list[str]) -> dict[str, list[str]]:
    """Return the arguments of `--with` by the name that they belong to, one of `names`."""
    found: dict[str, list[str]] = {}
    for text in texts:
        name, *arguments = shlex.split(text) or [""]
        if name not in names:
            there = ", ".join(dict.fromkeys(names))
            raise ValueError(f"--with {text!r}: it begins with one of {there}.")
        found.setdefault(name, []).extend(arguments)
    return found


def peers(text: str, task: str, tasks: Mapping[str, ModuleType]) -> list[str]:
    """Return a task's share of `--peers` as an argument; kernels by hand always run."""
    if task not in PACKAGES or text in ("all", "none"):
        return ["--peers", text] if task in PACKAGES else []
    known = {name for name in PACKAGES for name in tasks[name].PEER_NAMES}
    if unknown := set(text.split(",")) - known:
        there = ", ".join(sorted(known))
        raise ValueError(f"--peers {text}: no {min(unknown)} here; there are {there}.")
    own = [name for name in text.split(",") if name in tasks[task].PEER_NAMES]
    return ["--peers", ",".join(own) or "none"]


def measure(part: Part, out: Path, task: ModuleType, *, keep: bool) -> None:
    """Run a benchmark in a process of its own and read its report."""
    file = out / f"{part.name}.json"
    if not (keep and file.exists()):
        file.unlink(missing_ok=True)
        print(f"== {part.name}", file=sys.stderr, flush=True)
        start = time.perf_counter()
        part.failed = process(part, file)
        part.seconds = time.perf_counter() - start
    if file.exists():
        part.report, part.failed = Report.read(file), ""
        part.text = task.show(part.report)


def process(part: Part, file: Path) -> str:
    """Run a benchmark that writes its JSON to `file`.

    Its errors are shown as they come; the end of them is returned.
    """
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-P", "-m", "scripts.benchmarks", part.task, *part.arguments]
    last: deque[str] = deque(maxlen=8)
    with subprocess.Popen(
        [*command, "--json", str(file.absolute())],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"PYTHONPATH": path},
    ) as running:  # fmt: skip
        assert running.stderr is not None
        for line in running.stderr:
            print(line, end="", file=sys.stderr, flush=True)
            last.append(line)
    return "".join(last).strip() or f"exit code {running.returncode}"


def write(file: Path, about: Sequence[str], parts: Sequence[Part]) -> None:
    """Write the report: what it is about, then a section for each benchmark."""
    file.write_text("\n".join(["# Benchmarks", "", *about, *map(section, parts)]) + "\n")


def section(part: Part) -> str:
    """Return a benchmark as its command and its tables, or why it stopped."""
    took = "" if part.seconds is None else f"; {part.seconds:.0f} s in all"
    lines = [
        f"\n## {part.name}\n",
        f"`scripts/bench {shlex.join([part.task, *part.arguments])}`{took}",
    ]
    if part.report is None:
        return "\n".join([*lines, f"Did not run to its end: {last_line(part.failed)}"])
    missing, failed = part.report.missing, part.report.failed
    lines += [f"- not installed: {', '.join(missing)}"] if missing else []
    lines += [f"- {system} stopped: {last_line(why)}" for system, why in failed.items()]
    return "\n".join([*lines, f"\n```text\n{part.text}\n```"])


def last_line(text: str) -> str:
    """Return the last line that is not blank.

    >>> last_line("Traceback\\nOSError: gone\\n")
    'OSError: gone'
    """
    return next((line for line in reversed(text.splitlines()) if line.strip()), "no message")
