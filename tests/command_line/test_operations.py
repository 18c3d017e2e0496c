"""The examples of docs/operations.md do what they say, with the batch systems played by scripts."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from blocklearn.learner.exit_codes import ExitCode
from blocklearn.learner.watch.prometheus import FAMILIES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "operations.md").read_text()
AGAIN = {ExitCode.INTERRUPTED}
COUNTED = {ExitCode.IO, ExitCode.KILLED}  # tried again, but not for ever


def file(title: str) -> str:
    """The block of the page with this title."""
    match = re.search(rf'^```\w+ title="{re.escape(title)}"\n(.*?)^```', PAGE, re.M | re.S)
    assert match, title
    return match[1]


def test_every_exit_code_is_explained() -> None:
    table = set(map(int, re.findall(r"^\| (\d+) \|", PAGE, re.M)))
    assert table == set(map(int, ExitCode)) | {137}


# ---- Slurm ---------------------------------------------------------------------------------------


class Slurm:
    """Runs the batch script in a folder, with `learn` and `scontrol` as given."""

    def __init__(self, folder: Path, learn: str) -> None:
        self.folder = folder
        (folder / "bin").mkdir()
        for name, text in [("learn", learn), ("scontrol", 'echo "$@" >> requeued')]:
            path = folder / "bin" / name
            path.write_text(f"#!/bin/bash\n{text}\n")
            path.chmod(0o755)
        (folder / "job.sh").write_text(file("lda.sbatch"))
        environ = os.environ | {
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
            "SLURM_JOB_ID": "123",
        }
        self.process = subprocess.Popen(["bash", "job.sh"], cwd=folder, env=environ)

    def wait_for(self, name: str) -> None:
        until = time.monotonic() + 60
        while not list(self.folder.glob(name)):
            assert time.monotonic() < until and self.process.poll() is None, f"no {name}"
            time.sleep(0.02)

    @property
    def requeued(self) -> str:
        path = self.folder / "requeued"
        return path.read_text() if path.exists() else ""


@pytest.mark.parametrize("code", [0, 65, 75, 78])
def test_the_job_ends_with_the_code_of_the_run(code: int, tmp_path: Path) -> None:
    job = Slurm(tmp_path, f"exit {code}")
    assert job.process.wait(30) == code
    assert job.requeued == ("requeue 123\n" if code == 75 else "")


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGTERM])
def test_a_signal_reaches_the_run_which_takes_its_time(
    number: signal.Signals, tmp_path: Path
) -> None:
    learn = """
    trap 'touch heard' USR1 TERM
    touch begun
    while [ ! -e heard ]; do sleep 0.05; done
    sleep 0.5   # a checkpoint
    exit 75
    """
    job = Slurm(tmp_path, learn)
    job.wait_for("begun")
    job.process.send_signal(number)
    assert job.process.wait(30) == 75
    assert job.requeued == "requeue 123\n"


def test_a_signal_is_passed_on_from_the_first_moment_of_the_run(tmp_path: Path) -> None:
    learn = 'trap heard=yes USR1; kill -USR1 $PPID; until [ "$heard" ]; do :; done; exit 75'
    job = Slurm(tmp_path, learn)
    assert job.process.wait(30) == 75
    assert job.requeued == "requeue 123\n"
    # Where the shell is the faster of the two, it passes anyway: look at the order, too.
    traps, _, _ = file("lda.sbatch").partition("\nlearn ")
    assert traps.count("\ntrap ") == 2


@pytest.mark.slow
def test_the_job_goes_on_where_it_stopped(tmp_path: Path) -> None:
    """The real thing: told in the middle, requeued, run again to the end."""
    (tmp_path / "lda.yaml").write_text(
        "model: {kind: lda, topics: 10}\n"
        "data: {train: {kind: python-docs}, block_rows: 256}\n"
        "learner: {passes: 4000, seed: 1}\n"
    )
    learn = (
        f'exec "{sys.executable}" -c '
        f"\"import sys; sys.path.insert(0, '{ROOT}'); "
        'from blocklearn.learner.command_line.cli import main; main()" "$@"'
    )
    job = Slurm(tmp_path, learn)
    job.wait_for("runs/lda/checkpoints/pass-*")
    job.process.send_signal(signal.SIGUSR1)
    assert job.process.wait(60) == 75 and job.requeued == "requeue 123\n"
    newest = sorted(path.name for path in (tmp_path / "runs/lda/checkpoints").iterdir())[-1]
    passes = int(re.findall(r"\d+", newest)[0]) + 2
    text = (tmp_path / "lda.yaml").read_text().replace("4000", str(passes))
    (tmp_path / "lda.yaml").write_text(text)
    again = subprocess.run(["bash", "job.sh"], cwd=tmp_path, timeout=120, env=os.environ | {
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "SLURM_JOB_ID": "123"})  # fmt: skip
    assert again.returncode == 0 and job.requeued == "requeue 123\n"
    assert (tmp_path / "runs/lda/model.json").exists()


# ---- Kubernetes ----------------------------------------------------------------------------------


def test_rules_of_the_job_follow_the_exit_codes() -> None:
    job: Any = YAML(typ="safe").load(file("job.yaml"))
    spec = job["spec"]
    template = spec["template"]["spec"]
    (container,) = template["containers"]
    assert template["restartPolicy"] == "Never"  # which a podFailurePolicy asks for
    found: dict[str, set[int]] = {}
    for rule in spec["podFailurePolicy"]["rules"]:
        assert rule.keys() - {"action"} in ({"onExitCodes"}, {"onPodConditions"})
        if codes := rule.get("onExitCodes"):
            assert codes["containerName"] == container["name"] and codes["operator"] == "In"
            assert 0 not in codes["values"] and codes["values"] == sorted(codes["values"])
            found.setdefault(rule["action"], set()).update(codes["values"])
    assert found["Ignore"] == AGAIN
    assert found["FailJob"] == set(ExitCode) - AGAIN - COUNTED - {ExitCode.DONE}
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in template["volumes"]}


# ---- systemd -------------------------------------------------------------------------------------


def test_the_unit_follows_the_exit_codes() -> None:
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string(file("lda.service"))
    service = unit["Service"]
    never = set(map(int, service["RestartPreventExitStatus"].split()))
    assert never == set(ExitCode) - AGAIN - COUNTED - {ExitCode.DONE}
    assert set(map(int, service["RestartForceExitStatus"].split())) == AGAIN
    assert set(map(int, service["SuccessExitStatus"].split())) == AGAIN


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd")
def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    text = file("lda.service").replace("/srv/topics/venv/bin/learn", "/bin/true")
    (tmp_path / "lda.service").write_text(text.replace("/srv/topics", "/tmp"))
    found = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tmp_path / "lda.service")],
        capture_output=True, text=True,
    )  # fmt: skip
    ours = [line for line in found.stderr.splitlines() if "lda.service" in line]
    assert not [line for line in ours if "Unknown" in line or "Failed to parse" in line], ours


# ---- Prometheus ----------------------------------------------------------------------------------


def test_alerts_are_of_what_is_written() -> None:
    rules: Any = YAML(typ="safe").load(file("alerts.yaml"))
    known = {f"blocklearn_{family.name}" for family in FAMILIES}
    known |= {"blocklearn_updated_seconds", "blocklearn_finished"}
    for rule in rules["groups"][0]["rules"]:
        used = set(re.findall(r"blocklearn_\w+", rule["expr"]))
        assert used and used <= known
