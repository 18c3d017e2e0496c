"""The scripts that need a GPU, on a stand-in for one; no figure is tested."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from blocklearn.matcache.cuda import devices
from scripts.benchmarks.__main__ import main as bench
from scripts.gpu_check.__main__ import main
from scripts.gpu_check.measure import agreement
from tests import cuda_host
from tests.cuda_device import HostDriver

SCRIPT = Path(__file__).parents[1] / "scripts" / "gpu-check"


def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    if not cuda_host.available():
        pytest.skip("no g++ on this machine")
    monkeypatch.setattr(devices, "open_driver", lambda number: HostDriver())
    monkeypatch.setattr(devices, "count", lambda: 1)


def test_the_script() -> None:
    subprocess.run(["bash", "-n", str(SCRIPT)], check=True)
    assert os.access(SCRIPT, os.X_OK)


def test_without_a_device(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(devices, "count", lambda: 0)
    assert main([]) == 2
    assert "CuPy sees no CUDA device" in capsys.readouterr().err


@pytest.mark.slow
def test_tests_that_need_a_device_are_skipped_without_one() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-m", "gpu", "tests/test_gpu.py"]
    done = subprocess.run(
        command,
        cwd=SCRIPT.parents[1],
        env=os.environ | {"CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "CuPy sees no CUDA device" in done.stdout
    assert " passed" not in done.stdout


@pytest.mark.slow
def test_one_table_at_the_end(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in(monkeypatch)
    file = tmp_path / "gpu.json"
    assert main(["--quick", "--no-tests", "--json", str(file)]) == 0
    rows = {row["name"]: row for row in json.loads(file.read_text())}
    printed = capsys.readouterr().out
    assert all(name in printed for name in rows)
    for name in ("SGEMM", "SPMV", "sort of rows of 256", "log(exp(x))"):
        assert rows[name]["seconds"] > 0 < rows[name]["cpu"]
    measured = [name for name, row in rows.items() if row["seconds"]]
    for start in ("LDA E-step", "LDA training", "GLM, 1 targets", "GLM, 3 targets", "ALS, rank 4"):
        assert any(name.startswith(start) for name in measured)
    assert not any(row["note"].startswith("failed") for row in rows.values())


ALONE = """
import sys
missing = "xxhash threadpoolctl pydantic ruamel rich typer pytest hypothesis cupy torch"
sys.modules |= dict.fromkeys([*missing.split(), "pyarrow", "sklearn"])
from blocklearn.matcache.cuda import devices
from scripts.gpu_check.__main__ import main
devices.count = lambda: 1
if "open" in sys.argv:
    from tests.cuda_device import HostDriver
    devices.open_driver = lambda number: HostDriver()
    sys.exit(main(["--quick", "--json", sys.argv[2]]))
"""


def alone(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run in a process that has NumPy, SciPy and Numba only."""
    command = [sys.executable, "-W", "error", "-c", ALONE, *map(str, arguments)]
    root = Path(__file__).parents[1]
    return subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)


def test_the_script_needs_few_packages() -> None:
    alone()


@pytest.mark.slow
def test_with_few_packages_the_matrix_layer_is_measured(tmp_path: Path) -> None:
    if not cuda_host.available():
        pytest.skip("no g++ on this machine")
    done = alone("open", tmp_path / "gpu.json")
    assert "threadpoolctl is not installed: the last bits" in done.stderr
    rows = {row["name"]: row for row in json.loads((tmp_path / "gpu.json").read_text())}
    assert rows["tests"]["note"] == "not run: pytest is not installed"
    assert rows["trainings"]["note"].startswith("not run: ")
    assert rows["the same: PyTorch, eager"]["note"].startswith("not installed: ")
    for name, row in rows.items():
        if name.startswith(("ALS, 3 steps", "GLM, gradient")):
            assert row["note"].startswith("differs from the CPU by")
    for name in ("SGEMM", "sort of rows of 256", "random numbers"):
        assert rows[name]["note"] == "same bits as on the CPU"
    assert sum(name.startswith(("ALS", "GLM")) for name in rows) == 5
    assert rows["LDA E-step, K = 8"]["note"].startswith("differs from the CPU by")


def test_numbers_that_differ_from_the_cpus_are_a_failure() -> None:
    numbers = np.arange(5.0)
    assert agreement(numbers, numbers) == "same bits as on the CPU"
    assert agreement(numbers + 0.0004, numbers) == "differs from the CPU by 0.0001 of the largest"
    assert agreement(numbers + 0.4, numbers).startswith("failed: ")
    assert agreement(np.where(numbers == 2, np.nan, numbers), numbers).startswith("failed: ")


def test_a_section_that_fails_does_not_end_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in(monkeypatch)

    def broken(scale: object) -> object:
        raise ArithmeticError("no good")
        yield

    monkeypatch.setattr("scripts.gpu_check.__main__.SECTIONS", {"first": broken, "second": broken})
    assert main(["--quick", "--no-tests"]) == 1
    assert capsys.readouterr().out.count("failed: ArithmeticError: no good") == 2


@pytest.mark.slow
def test_bench_launch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stand_in(monkeypatch)
    file = tmp_path / "launch.json"
    assert bench(["launch", "--quick", "--json", str(file)]) == 0
    for row in json.loads(file.read_text())["rows"]:
        assert row["seconds"] > 0
        graphs = row["system"] == "graphs"
        assert (row["quality"]["launches"] < 1) == graphs
        assert (row["quality"]["graphs"] >= 1) == graphs
