"""One case: a sample, what is done to it, and the verdict on what the product makes of it."""

import contextlib
import io
import re
import shutil
import tempfile
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from blocklearn.learner.exit_codes import exit_code, message
from tests.mutations.damage import choose
from tests.mutations.facts import Facts, differ, finite
from tests.mutations.independent import unpack
from tests.mutations.known import known
from tests.mutations.readers import Refused
from tests.mutations.samples import Sample, samples

GOOD = ("refused", "as written", "right", "known")
"""Verdicts that are no faults: a documented error; what was written before the damage; what the
damaged file says to an independent reader; a fault that `known.py` lists.
"""

REFUSALS = {65, 66, 78}
"""Exit codes of bad data, missing files and wrong configurations."""

MOST_BYTES = 256 << 20
"""Memory that a file of some kilobytes may take."""

LONGEST_MESSAGE = 4000  # characters


class Case(NamedTuple):
    """The sample, the file that is changed, its new contents (None: it is gone), and how."""

    sample: Sample
    file: str
    data: bytes | None
    damages: tuple[str, ...]


class Verdict(NamedTuple):
    """kind: one of `GOOD`, or the fault. peak: bytes of memory that the reading took."""

    number: int
    kind: str
    sample: str
    file: str
    damages: tuple[str, ...]
    detail: str = ""
    peak: int = 0


def make(seed: int, number: int) -> Case:
    """Case `number` of a seed: the same wherever it is made."""
    rng = np.random.default_rng([seed, number])
    every = samples()
    sample = every[number % len(every)]
    others = [*sample.files.values(), *every[int(rng.integers(len(every)))].files.values()]
    file = choose(rng, list(sample.damaged or sample.files))
    data, names = sample.files[file], []
    if len(sample.files) > 1 and rng.integers(100) == 0:
        return Case(sample, file, None, ("unlink",))
    for _ in range(int(rng.choice([1, 1, 1, 2, 3]))):
        damage = choose(rng, sample.damages_of(file))
        with contextlib.suppress(Exception):  # it finds nothing that it could change
            data = damage(rng, data, choose(rng, others))
            names.append(damage.__name__)
    return Case(sample, file, data, tuple(names))


def judge(case: Case, number: int, folder: Path, read: Callable[[], None]) -> Verdict:
    """The verdict on a case, in an empty `folder`; `read` is called when the product is done."""
    case.sample.write(folder)
    path = folder / case.file
    if case.data is None:
        path.unlink()
    else:
        path.write_bytes(case.data)
    before = resident()
    kind, detail = verdict(case.sample, folder, read)
    peak = max(0, most_resident() - before)
    if kind in GOOD and peak > MOST_BYTES:
        kind, detail = "bomb", f"{peak >> 20} MB for a file of {len(case.data or b'')} bytes"
    if kind not in GOOD and (name := known(kind, detail, unpacked(path))):
        kind, detail = "known", name
    return Verdict(number, kind, case.sample.name, case.file, case.damages, detail, peak)


def unpacked(path: Path) -> bytes:
    """What is in a file, as far as it can be unpacked."""
    try:
        return unpack(path)
    except Exception:
        return path.read_bytes() if path.exists() else b""


def verdict(sample: Sample, folder: Path, read: Callable[[], None]) -> tuple[str, str]:
    """Its kind, and what there is to say."""
    out, err = io.StringIO(), io.StringIO()
    try:
        with (
            warnings.catch_warnings(record=True) as warned,
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            warnings.simplefilter("always")
            found = sample.read(folder)
    except Refused as error:
        return said(sample, folder, err.getvalue()) or ("refused", str(error))
    except BaseException as error:
        code = exit_code(error)
        if code in REFUSALS:
            return said(sample, folder, message(error)) or ("refused", type(error).__name__)
        if isinstance(error, MemoryError):
            return "bomb", short(error)
        return "internal" if code == 70 else f"exit code {code}", short(error) + err.getvalue()[
            -600:
        ]
    read()
    if warned:
        return "warning", str(warned[0].message)
    if not finite(found):
        return "not finite", repr(found)[:300]
    if sample.expected is None:
        wrong = differ(found, good(sample))
        return ("wrong", wrong) if wrong else ("as written", "")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = sample.expected(folder)
    except Exception as error:
        return "undue", f"read, but an independent reading fails: {error!r}"[:500]
    wrong = differ(found, expected)
    return ("wrong", wrong) if wrong else ("right", "")


def said(sample: Sample, folder: Path, text: str) -> tuple[str, str] | None:
    """What is wrong with a message, if anything."""
    if "Traceback" in text:
        return "traceback", text[-1500:]
    if not sample.silent and str(folder) not in text:
        return "message", f"names no file: {text[:500]}"
    if re.search(r"[\x00-\x08\x0b-\x1f\x7f\x80-\x9f]", text):
        return "message", f"control characters: {text[:500]!r}"
    if len(text) > LONGEST_MESSAGE:
        return "message", f"{len(text)} characters: {text[:500]}"
    return None


def short(error: BaseException) -> str:
    """Type, text and the last lines of the traceback."""
    frames = traceback.extract_tb(error.__traceback__)[-4:]
    places = " < ".join(f"{Path(f.filename).name}:{f.lineno}" for f in reversed(frames))
    return f"{type(error).__name__}: {str(error)[:400]} ({places})"


def good(sample: Sample) -> Facts:
    """What a sample says undamaged."""
    if sample.name not in _good:
        with (
            tempfile.TemporaryDirectory() as folder,
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            sample.write(Path(folder))
            _good[sample.name] = sample.read(Path(folder))
    return _good[sample.name]


_good: dict[str, Facts] = {}


def resident() -> int:
    """Bytes in memory now, from where `most_resident` counts."""
    Path("/proc/self/clear_refs").write_text("5")
    return status("VmRSS")


def most_resident() -> int:
    """Bytes in memory at most since `resident`."""
    return status("VmHWM")


def status(name: str) -> int:
    """Bytes of a line of /proc/self/status."""
    text = Path("/proc/self/status").read_text()
    return int(re.search(rf"{name}:\s+(\d+)", text)[1]) << 10  # type: ignore[index]


def clear(folder: Path) -> None:
    """Leave nothing in it."""
    shutil.rmtree(folder)
    folder.mkdir()
