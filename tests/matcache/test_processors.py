"""Limits on processors that batch systems and containers set."""

from __future__ import annotations

from pathlib import Path

import pytest

from blocklearn.matcache.cpu.processors import _allowed, available_threads


@pytest.mark.parametrize(
    "environ, threads",
    [
        ({"OMP_NUM_THREADS": "1"}, 1),
        ({"OMP_NUM_THREADS": "1,2"}, 1),
        ({"SLURM_CPUS_PER_TASK": "1"}, 1),
        ({"OMP_NUM_THREADS": "many", "SLURM_CPUS_PER_TASK": ""}, _allowed()),
        ({"OMP_NUM_THREADS": "0"}, _allowed()),
        ({"OMP_NUM_THREADS": "100000"}, _allowed()),
    ],
)
def test_variables(environ: dict[str, str], threads: int, tmp_path: Path) -> None:
    assert available_threads(environ, tmp_path) == threads


@pytest.mark.parametrize(
    "files, threads",
    [
        ({"cpu.max": "max 100000"}, _allowed()),
        ({"cpu.max": "100000 100000"}, 1),
        ({"cpu.max": "50000 100000"}, 1),
        ({"cpu.max": "12000000 100000"}, min(120, _allowed())),
        ({"cpu.max": "garbage"}, _allowed()),
        ({"cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000"}, _allowed()),
        ({"cpu.cfs_quota_us": "100000", "cpu.cfs_period_us": "100000"}, 1),
    ],
)
def test_quotas(files: dict[str, str], threads: int, tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text + "\n")
    assert available_threads({}, tmp_path) == threads
