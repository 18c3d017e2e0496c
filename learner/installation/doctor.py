"""`learn doctor`: check that an installation is complete, works, and how fast it is."""

from __future__ import annotations

import json
import platform
import sys
import time
from collections.abc import Iterable, Iterator

from blocklearn.datasources.secrets import hidden

from ..exit_codes import ExitCode
from ..figures import number
from ..terminal import say, show_text
from . import surroundings
from .machine import limits
from .self_test import self_test
from .surroundings import Finding

MARKS = {"ok": " ", "note": "-", "fault": "!"}


def examine(urls: Iterable[str] = ()) -> Iterator[tuple[str, Finding]]:
    """Yield sections and findings as they are found.

    urls: places of files to try.
    """
    sections = {
        "versions": surroundings.versions,
        "processors": surroundings.processors,
        "memory": surroundings.memory,
        "accelerators": surroundings.accelerators,
        "file systems": surroundings.file_systems,
        "folders": surroundings.folders,
        "self test": checks,
    }
    for name, find in sections.items():
        for finding in find():
            yield name, finding
    for url in urls:
        for finding in surroundings.place(url):
            yield "places", finding


def checks() -> Iterator[Finding]:
    """Train with known results, and measure the speed of one thread."""
    begun = time.perf_counter()
    for result in self_test():
        text = f"{result.figure} {number(result.value)}"
        if result.good:
            yield Finding(result.name, text)
        elif not result.same_bits:
            yield Finding(result.name, f"{text}, other bits with other numbers of threads", "fault")
        else:
            expected = f"{text}, but {number(result.expected)} is right"
            yield Finding(result.name, f"{expected}: this installation computes wrongly", "fault")
    speeds = limits()
    yield Finding("one thread", f"{speeds['sgemm_gflops']} gflops of SGEMM")
    yield Finding("memory", f"{speeds['copy_gb_per_s']} GB/s of copying, reads and writes together")
    yield Finding("this test", f"{time.perf_counter() - begun:.1f} s")


def print_report(urls: Iterable[str], as_json: bool) -> ExitCode:
    """Print the findings; return 69 if there are faults."""
    found = []
    section = ""
    for name, given in examine(urls):
        finding = given._replace(subject=hidden(given.subject), text=hidden(given.text))
        found.append({"section": name, **finding._asdict()})
        if as_json:
            continue
        if name != section:
            say(name, sys.stdout)
            section = name
        say(f"{MARKS[finding.level]} {finding.subject:<20}  {finding.text}", sys.stdout)
    faults = [f for f in found if f["level"] == "fault"]
    if as_json:
        good = {"good": not faults, "machine": platform.node(), "findings": found}
        show_text(json.dumps(good, indent=2, ensure_ascii=False))
    else:
        print(f"faults: {len(faults)}, marked with !" if faults else "all is well")
    return ExitCode.UNAVAILABLE if faults else ExitCode.DONE
