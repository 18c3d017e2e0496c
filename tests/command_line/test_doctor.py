"""`learn doctor`: what it finds, what it takes for a fault, and that its self test can fail."""

from __future__ import annotations

import ctypes
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import blocklearn as bl
from blocklearn.learner.installation import surroundings
from blocklearn.learner.installation.accelerators import find_driver
from blocklearn.learner.installation.self_test import Result, self_test
from blocklearn.learner.installation.surroundings import Finding
from blocklearn.matcache.cuda import devices
from tests.support.learn_command import Learn


@pytest.fixture
def doctor(command: Learn, monkeypatch: pytest.MonkeyPatch) -> Learn:
    monkeypatch.setattr(
        "blocklearn.learner.installation.doctor.limits",
        lambda: {"sgemm_gflops": 1.0, "copy_gb_per_s": 2.0},
    )
    return partial(command, "doctor")


def test_all_is_well_here(doctor: Learn, tmp_path: Path) -> None:
    code, out, _ = doctor()
    assert (code, out.splitlines()[-1]) == (0, "all is well")
    for section in ("versions", "processors", "memory", "accelerators", "file systems", "folders",
                    "self test"):  # fmt: skip
        assert section in out.splitlines()
    assert re.search(rf"^  numpy +{re.escape(np.__version__)}$", out, re.M)
    assert re.search(rf"^  blocklearn +{re.escape(bl.__version__)}$", out, re.M)
    assert re.search(r"^  threads +\d+, the least of: processors \d+", out, re.M)
    assert re.search(r"^  BLAS +openblas ", out, re.M)
    assert re.search(r"^  topic model +perplexity 19.6", out, re.M)
    assert list(tmp_path.iterdir()) == []


def test_as_json(doctor: Learn, tmp_path: Path) -> None:
    (tmp_path / "data.bin").write_bytes(bytes(3000))
    code, out, _ = doctor("--json", "--fs", str(tmp_path), "--fs", str(tmp_path / "none"))
    found = json.loads(out)
    assert code == 69 and found["good"] is False
    faults = [f for f in found["findings"] if f["level"] == "fault"]
    (fault,) = faults
    assert fault["section"] == "places" and fault["subject"] == str(tmp_path / "none")
    texts = [f["text"] for f in found["findings"] if f["subject"] == str(tmp_path)]
    assert texts[0] == "LocalFiles: folder" and re.match(
        r"3.0 kB of .*data.bin in \d+ ms", texts[1]
    )


@pytest.fixture(scope="module")
def results() -> list[Result]:
    return list(self_test())


def test_the_self_test_knows_what_is_right(results: list[Result]) -> None:
    assert [result.name for result in results] == ["topic model", "linear model", "factorisation"]
    assert all(result.good for result in results)
    wrong = results[0]._replace(value=1.05 * results[0].value)
    assert not wrong.good and not results[0]._replace(same_bits=False).good


@pytest.mark.parametrize(
    "spoil, text",
    [
        ({"value": 99.0}, "but 19.67 is right: this installation computes wrongly"),
        ({"same_bits": False}, "other bits with other numbers of threads"),
    ],
)
def test_wrong_numbers_are_a_fault(
    doctor: Learn, results: list[Result], spoil: dict[str, Any], text: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(
        "blocklearn.learner.installation.doctor.self_test",
        lambda: iter([results[0]._replace(**spoil)]),
    )
    code, out, _ = doctor()
    assert code == 69 and text in out and out.splitlines()[-1] == "faults: 1, marked with !"


def test_a_kernel_that_computes_wrongly_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The self test runs the real thing: with another optimizer's steps its figures differ."""
    from blocklearn.models import GLM

    monkeypatch.setattr(GLM, "score", lambda self, block: {"log_loss": bl.Sum(1.0, 1.0)})
    assert [result.good for result in self_test()] == [True, False, True]


# ---- what is around ------------------------------------------------------------------------------


def levels(findings: Iterator[Finding]) -> dict[str, str]:
    return {finding.subject: finding.level for finding in findings}


def test_a_missing_library_is_a_fault_and_an_extra_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    version = surroundings._version
    monkeypatch.setattr(
        surroundings,
        "_version",
        lambda name: None if name in ("numba", "fsspec") else version(name),
    )
    found = levels(surroundings.versions())
    assert (found["numba"], found["fsspec"], found["numpy"]) == ("fault", "note", "ok")
    assert not found.keys() & {"pytest", "mkdocs-material", "cupy-cuda12x", "cupy-cuda13x"}


def test_a_cache_that_cannot_be_written_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BLOCKLEARN_CACHE", str(tmp_path / "c"))
    assert levels(surroundings.folders())["kernels"] == "ok"
    (tmp_path / "file").touch()
    monkeypatch.setenv("BLOCKLEARN_CACHE", str(tmp_path / "file"))
    assert levels(surroundings.folders())["kernels"] == "note"


def test_drivers_of_hdfs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr(surroundings, "libhdfs_is_set_up", lambda: False)
    assert levels(surroundings.file_systems())["hdfs://"] == "note"
    monkeypatch.setattr(surroundings, "libhdfs_is_set_up", lambda: True)
    assert levels(surroundings.file_systems())["hdfs://"] == "ok"


def test_nobody_says_how_much_memory_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surroundings, "memory_limits", dict)
    assert levels(surroundings.memory()) == {"memory": "note"}


# ---- devices -------------------------------------------------------------------------------------

DRIVER = """
#include <stddef.h>
#include <string.h>
int cuInit(unsigned f) { return CODE; }
int cuDriverGetVersion(int *v) { *v = 12080; return 0; }
int cuDeviceGetCount(int *n) { *n = 2; return 0; }
int cuDeviceGet(int *d, int i) { *d = i; return 0; }
int cuDeviceGetName(char *s, int n, int d) { strncpy(s, d ? "B" : "A", n); return 0; }
int cuDeviceTotalMem_v2(size_t *s, int d) { *s = (size_t)(d + 1) << 34; return 0; }
"""


def driver(folder: Path, code: int) -> str:
    """A library with the driver's functions."""
    library = folder / f"driver{code}.so"
    try:
        subprocess.run(
            ["cc", "-shared", "-fPIC", f"-DCODE={code}", "-x", "c", "-", "-o", str(library)],
            input=DRIVER, text=True, check=True, capture_output=True,
        )  # fmt: skip
    except FileNotFoundError:
        pytest.skip("needs a C compiler")
    return str(library)


def test_devices_of_a_driver(tmp_path: Path) -> None:
    found = find_driver(driver(tmp_path, 0))
    assert found.version == "12.8" and found.devices == [("A", 2**34), ("B", 2**35)]


def test_why_there_is_no_device(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="cannot open shared object"):
        find_driver("libnothing.so")
    with pytest.raises(OSError, match=r"cuInit failed: no device \(100\)"):
        find_driver(driver(tmp_path, 100))


def test_a_device_without_cupy_is_noted_and_a_broken_one_is_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = driver(tmp_path, 0)
    monkeypatch.setattr(surroundings, "find_driver", lambda: find_driver(library))
    monkeypatch.setattr(surroundings, "_version", lambda name: None)
    found = levels(surroundings.accelerators())
    assert found == {"NVIDIA driver": "ok", "device 0": "ok", "device 1": "ok", "CuPy": "note"}
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        monkeypatch.setattr(surroundings, "_version", lambda name: "14.0")
        assert levels(surroundings.accelerators())["CuPy"] == "fault"  # it has no driver


@pytest.mark.parametrize("version, text", [(22703, "2.27.3"), (None, "none, replicas merge by")])
def test_what_several_devices_are_merged_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int | None, text: str
) -> None:
    there = driver(tmp_path, 0)
    monkeypatch.setattr(surroundings, "find_driver", lambda: find_driver(there))
    monkeypatch.setattr(surroundings, "_version", lambda name: "14.1")
    monkeypatch.setitem(sys.modules, "cupy", np)  # which has arange, too
    library = None if version is None else SimpleNamespace(get_version=lambda: version)
    monkeypatch.setattr(devices, "nccl", lambda: library)
    (finding,) = (f for f in surroundings.accelerators() if f.subject == "NCCL")
    assert finding.level == "ok" and finding.text.startswith(text)


def test_no_driver_is_no_fault() -> None:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        (finding,) = surroundings.accelerators()
        assert finding.level == "ok" and finding.text.startswith("none: libcuda.so.1")
