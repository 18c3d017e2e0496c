"""A short run of the mutation tester, and what it must be able to see."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.mutations import independent
from tests.mutations.case import GOOD, LONGEST_MESSAGE, Verdict, clear, judge, make, verdict
from tests.mutations.facts import Facts, differ
from tests.mutations.packing import pack
from tests.mutations.runner import Worker, run
from tests.mutations.samples import SVM, Sample, samples

SEED = 14
CASES = 2048
"""Some fifteen for each sample: a minute on a quiet processor."""

ROOT = Path(__file__).parents[2]


def test_a_case_is_the_same_wherever_it_is_made() -> None:
    for number in range(0, 400, 7):
        one, other = make(SEED, number), make(SEED, number)
        assert (one.file, one.data, one.damages) == (other.file, other.data, other.damages)
    kinds = {make(SEED, number).data for number in range(0, 20 * len(samples()), len(samples()))}
    assert len(kinds) > 15


def test_there_are_samples_of_every_kind_of_file() -> None:
    ends = {
        suffix for sample in samples() for name in sample.files for suffix in Path(name).suffixes
    }
    assert ends >= {
        ".svm", ".csv", ".mtx", ".txt", ".jsonl", ".vw", ".npz", ".npy", ".smat", ".fmat", ".bin",
        ".data", ".parquet", ".arrow", ".json", ".safetensors", ".yaml", ".gz", ".bz2", ".xz",
        ".zst", ".lz4",
    }  # fmt: skip


def no_sample(read: object) -> Sample:
    return Sample("made up", {"a.svm": SVM}, read, lambda f: independent.libsvm(f / "a.svm"))  # type: ignore[arg-type]


def judged(tmp_path: Path, read: object) -> str:
    sample = no_sample(read)
    sample.write(tmp_path)
    return verdict(sample, tmp_path, lambda: None)[0]


def failing(error: BaseException) -> object:
    def read(folder: Path) -> Facts:
        raise error

    return read


def test_every_fault_is_seen(tmp_path: Path) -> None:
    """A reader that is right passes; one that is wrong in any way does not."""
    from blocklearn.datasources import DataError

    right = independent.libsvm
    assert judged(tmp_path, lambda folder: right(folder / "a.svm")) == "right"
    assert judged(tmp_path, failing(DataError(f"{tmp_path}/a.svm:1: no"))) == "refused"
    assert judged(tmp_path, failing(DataError("a file: no"))) == "message"
    assert judged(tmp_path, failing(DataError(f"{tmp_path}" + " x" * LONGEST_MESSAGE))) == "message"
    assert judged(tmp_path, failing(KeyError("x"))) == "internal"
    assert judged(tmp_path, failing(MemoryError())) == "bomb"
    assert judged(tmp_path, failing(OSError(5, "disk"))) == "exit code 74"
    wrong = {"rows": 5, "columns": 6, "entries": [(0, 0, 0.25)]}
    assert judged(tmp_path, lambda folder: wrong) == "wrong"
    wild = {"rows": 5, "columns": 6, "entries": [(0, 0, float("nan"))]}
    assert judged(tmp_path, lambda folder: wild) == "not finite"
    found = right(tmp_path / "a.svm")
    (tmp_path / "a.svm").write_bytes(b"no numbers")
    sample = no_sample(lambda folder: found)
    assert verdict(sample, tmp_path, lambda: None)[0] == "undue"


def test_numbers_that_differ_in_a_bit_are_not_the_same() -> None:
    one = {"entries": [(0, 1, float(np.float32(0.1)))], "rows": 1}
    assert differ(one, {"entries": [(0, 1, float(np.float32(0.1)))]}) is None
    assert differ(one, {"entries": [(0, 1, float(np.float32(0.1001)))]}) is not None
    assert differ(one, {"entries": [(0, 2, float(np.float32(0.1)))]}) is not None
    assert differ({}, one) is not None


@pytest.mark.parametrize("suffix", ["", ".gz", ".bz2", ".xz", ".zst", ".lz4"])
def test_what_is_packed_is_unpacked(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    path.write_bytes(pack(SVM * 100, suffix))
    assert independent.unpack(path) == SVM * 100


@pytest.mark.parametrize("sample", samples()[::9], ids=lambda sample: sample.name)
def test_undamaged_samples_are_read_as_an_independent_reader_does(
    tmp_path: Path, sample: Sample
) -> None:
    sample.write(tmp_path)
    assert verdict(sample, tmp_path, lambda: None)[0] in ("right", "as written")


def test_one_case_by_its_number(tmp_path: Path) -> None:
    case = make(SEED, 40)
    found = judge(case, 40, tmp_path, lambda: None)
    assert found.kind in GOOD and (found.number, found.sample) == (40, case.sample.name)
    name = case.file
    assert (tmp_path / name).read_bytes() == case.data


def test_two_cases_of_each_sample(tmp_path: Path) -> None:
    """In this process; `test_damaged_input_of_every_kind` has limits of time and memory."""
    faults = []
    for number in range(2 * len(samples())):
        clear(tmp_path)
        found = judge(make(SEED, number), number, tmp_path, lambda: None)
        if found.kind not in GOOD:
            faults.append(found)
    assert not faults, "\n".join(map(str, faults))


@pytest.mark.slow
def test_workers_that_die_and_hang_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that ended is started anew and runs the next case."""
    with Worker(SEED) as worker:
        assert worker.judge(0).kind in GOOD
        assert worker._process is not None
        worker._process.kill()
        worker._process.wait()
        dead = worker.judge(1)
        assert (dead.kind, dead.detail) == ("crash", "exit -9")
        assert worker.judge(2).kind in GOOD
        monkeypatch.setattr("tests.mutations.runner.PATIENCE", 2.0)
        worker._process.send_signal(19)  # stopped: it will never answer
        assert worker.judge(3).kind == "hang"


@pytest.mark.slow
def test_damaged_input_of_every_kind() -> None:
    """No crash, no hang, no bomb, no internal mistake, no damaged number that is accepted."""
    faults: list[Verdict] = []
    kinds = set()
    for found in run(SEED, range(CASES), workers=2):
        kinds.add(found.kind)
        if found.kind not in GOOD:
            faults.append(found)
    assert not faults, "\n".join(map(str, sorted(faults)))
    assert kinds >= {"refused", "right", "as written"}


@pytest.mark.slow
def test_the_command() -> None:
    command = [sys.executable, "-m", "tests.mutations", "--cases", "3", "--seed", "14"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "| all | 3 |" in done.stdout and "most memory of a case" in done.stdout
