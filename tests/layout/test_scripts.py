"""The shell scripts: their syntax, and what they say where no Python fits."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = [
    "scripts/learn",
    "scripts/test",
    "scripts/bench",
    "scripts/docs",
    "scripts/hdfs-up",
    ".ci/run",
]


@pytest.mark.parametrize("name", [*SCRIPTS, "scripts/environment.sh"])
def test_syntax(name: str) -> None:
    subprocess.run(["bash", "-n", str(ROOT / name)], check=True)


@pytest.mark.parametrize("name", SCRIPTS)
def test_executable(name: str) -> None:
    assert os.access(ROOT / name, os.X_OK)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository with the scripts, and a PATH of nothing but what they call."""
    (tmp_path / "scripts").mkdir()
    for name in ("learn", "environment.sh"):
        (tmp_path / "scripts" / name).write_bytes((ROOT / "scripts" / name).read_bytes())
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    (tmp_path / "bin").mkdir()
    for command in ("bash", "dirname", "cat", "cmp", "rm", "cp", "mv", "mkdir"):
        (tmp_path / "bin" / command).symlink_to(str(shutil.which(command)))
    return tmp_path


def fake(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!{shutil.which('bash')}\n{text}")
    path.chmod(0o755)


def run(clone: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", str(clone / "scripts" / "learn"), *arguments],
        env={"PATH": str(clone / "bin"), "HOME": ""},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )


def test_without_a_python_that_fits(clone: Path) -> None:
    fake(clone / "bin" / "python3", "exit 1")  # one that is too old
    result = run(clone)
    assert result.returncode == 69
    assert "Python 3.11 or newer" in result.stderr


def test_an_environment_is_made_once_and_after_changes(clone: Path) -> None:
    """With a Python that only writes down what it is asked for."""
    log, venv = clone / "log", clone / ".venv"
    inside = f'case "$*" in *"pip install"*) echo install >>{log}; [ ! -e {clone}/broken ];; esac'
    makes = f"""
case "$*" in
  *"-m venv"*)
    echo venv >>{log}; rm -rf {venv}; mkdir -p {venv}/bin
    cp {clone}/inside {venv}/bin/python; cp {clone}/learn.sh {venv}/bin/learn;;
  --version) echo Python 3.99;;
esac"""
    fake(clone / "bin" / "python3", makes)
    fake(clone / "inside", inside)
    fake(clone / "learn.sh", f'echo "$PWD: $*" >>{log}')

    def said(*arguments: str) -> list[str]:
        log.write_text("")
        result = run(clone, *arguments)
        return [*log.read_text().splitlines(), str(result.returncode)]

    (clone / "broken").touch()  # the network fails in the middle
    assert said("topics") == ["venv", "install", "69"]
    (clone / "broken").unlink()
    assert said("topics", "a b") == ["install", "/: topics a b", "0"]
    assert said("topics") == ["/: topics", "0"]
    (clone / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert said() == ["install", "/: ", "0"]
    (venv / ".installed").write_text("root /elsewhere\n[project]\nname = 'x'\n")
    assert said() == ["venv", "install", "/: ", "0"]  # the repository was moved
