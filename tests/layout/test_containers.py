"""The Dockerfiles fit the package: its extras, its Python, its command."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.support.page_blocks import ROOT

FILES = sorted((ROOT / "scripts/containers").glob("*.Dockerfile"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_there_is_one_for_cpus_and_one_for_gpus() -> None:
    assert [file.name for file in FILES] == ["cpu.Dockerfile", "gpu.Dockerfile"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_it_installs_this_package(file: Path) -> None:
    text = file.read_text()
    (extras,) = re.findall(r"^ARG EXTRAS=(.*)$", text, re.M)
    assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"])
    least = tuple(map(int, re.findall(r"\d+", PROJECT["requires-python"])))
    for version in re.findall(r"^FROM python:(\d+)\.(\d+)-slim", text, re.M):
        assert tuple(map(int, version)) >= least
    (command,) = re.findall(r'^ENTRYPOINT \["(.*)"\]$', text, re.M)
    assert command in PROJECT["scripts"]
    assert f"--file scripts/containers/{file.name} " in text
