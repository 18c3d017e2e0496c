"""A limit on the address space (`ulimit -v`) that leaves no room for threads ends a run at once."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from blocklearn.learner.command_line import cli
from blocklearn.learner.command_line.cli import main
from blocklearn.learner.exit_codes import ExitCode

LONG = 300  # seconds, on a busy machine; a hang would last for ever

CHILD = """
import resource, sys, threading
from blocklearn.learner.command_line import cli
from blocklearn.learner.command_line.cli import main
from blocklearn.learner.memory import PROC, _address_space

def learn(out):
    try:
        main(["--config", sys.argv[1], "--out", f"{sys.argv[2]}/{out}", "--quiet"])
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0

assert learn("free") == 0  # and kernels are compiled
room, stack = int(sys.argv[3]) << 20, 1 << 28
threading.stack_size(stack)  # one thread takes more than all the room
limit = _address_space(PROC) + room
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
sys.exit(learn("limited"))
"""


def test_a_limit_that_the_libraries_exceed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They end the process, or their errors say nothing of the limit."""
    limit = 200 << 20
    monkeypatch.setattr(resource, "getrlimit", lambda what: (limit, limit))
    with pytest.raises(SystemExit) as stop:
        main(["topics", "nowhere"])
    assert stop.value.code == ExitCode.OUT_OF_MEMORY
    assert "learn: ulimit -v is 204,800 KiB, and the libraries take" in capsys.readouterr().err
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    assert stop.value.code == ExitCode.DONE
    limit = 600 << 20  # on machines with many processors they need more
    told = "ulimit -v is 614,400 KiB"

    def fail(**options: object) -> None:
        raise MemoryError

    monkeypatch.setattr(cli, "app", fail)
    with pytest.raises(SystemExit) as stop:
        main(["topics", "nowhere"])
    assert stop.value.code == ExitCode.OUT_OF_MEMORY
    assert f"learn: out of memory\n{told}" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "blocklearn.learner.exit_codes", None)
    with pytest.raises(SystemExit) as stop:
        main(["topics", "nowhere"])
    assert stop.value.code == ExitCode.OUT_OF_MEMORY
    assert f"learn: {told}" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("room", [16, 128], ids=["no memory", "no threads"])
def test_a_limit_without_room_for_threads_ends_with_a_message(tmp_path: Path, room: int) -> None:
    """The limit follows the size of the process itself, whatever is loaded into it.

    room: mebibytes above that size.
    """
    counts = np.random.default_rng(0).poisson(1.0, (200, 6)).astype(np.float32)
    sp.save_npz(tmp_path / "x.npz", sp.csr_array(counts))
    config = tmp_path / "c.yaml"
    config.write_text(
        f"model: {{kind: nmf, components: 2}}\n"
        f"data: {{train: {{kind: file, path: {tmp_path}/x.npz}}, block_rows: 20}}\n"
        "learner: {passes: 3, threads: 2}\n"
    )
    child = [sys.executable, "-c", CHILD, config, tmp_path, str(room)]
    done = subprocess.run(child, capture_output=True, text=True, timeout=LONG, check=False)
    assert done.returncode == ExitCode.OUT_OF_MEMORY, done.stderr[-2000:]
    assert "ulimit" in done.stderr and "Traceback" not in done.stderr
    if room == 128:
        assert "thread" in done.stderr
