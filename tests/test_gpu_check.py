"""The scripts that need a GPU, on a stand-in for one; no figure is tested."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from blocklearn.matcache.cuda import devices
from scripts.benchmarks.__main__ import main as bench
from scripts.gpu_check.__main__ import main
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
