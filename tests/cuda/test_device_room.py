"""What does not fit on a device is refused before files are made, with what to lower."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from blocklearn.learner.command_line.cli import main
from blocklearn.matcache.cuda import devices
from tests.support.backends import needs_compiler
from tests.support.cuda_device import HostDriver

pytestmark = needs_compiler

CONFIG = """
model: {kind: nmf, components: 3}
data: {train: {kind: file, path: counts.npz}, block_rows: 30}
learner: {device: cuda, threads: 1}
"""


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    """Bytes of the devices that are not usual."""
    found: dict[int, int] = {}

    def open_driver(number: int) -> HostDriver:
        return HostDriver(memory=found.get(number, 1 << 30), number=number)

    monkeypatch.setattr(devices, "open_driver", open_driver)
    monkeypatch.setattr(devices, "nccl", lambda: None)
    return found


@pytest.fixture
def learn(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    memory: dict[int, int],
) -> Any:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    sp.save_npz("counts.npz", sp.csr_array(rng.poisson(0.3, (130, 30)).astype(np.float32)))
    Path("nmf.yaml").write_text(CONFIG)

    def run(*settings: str, dry: bool = True) -> tuple[int, str, str]:
        options = [part for setting in settings for part in ("--set", setting)]
        with pytest.raises(SystemExit) as stop:
            main(["--config", "nmf.yaml", *options, *(["--dry-run"] if dry else [])])
        captured = capsys.readouterr()
        assert isinstance(stop.value.code, int)
        return stop.value.code, captured.out, captured.err

    return run


@pytest.mark.slow
def test_the_page_of_a_run_has_both_plans(learn: Any) -> None:
    assert learn("out=run", dry=False)[0] == 0
    with pytest.raises(SystemExit):
        main(["report", "run"])
    page = Path("run/report.html").read_text()
    assert page.index(">planned<") < page.index("planned on the device of each replica")
    assert "pinned, for copies" in page and "room for dense products" in page


def on_device(out: str) -> int:
    return int(re.search(r"([\d,]+) bytes  on the device", out)[1].replace(",", ""))  # type: ignore[index]


def test_a_dry_run_says_who_makes_the_index(learn: Any) -> None:
    line = "the index of blocks is made by the {} (learner.index: {}); a pass, calculated: at least"
    assert line.format("host", "auto") in learn()[1]  # so few numbers do not pay for launches
    assert line.format("device", "device") in learn("learner.index=device")[1]
    assert "index of blocks" not in learn("data.shuffle=blocks", "learner.passes=2")[1]


def test_a_limit_of_ones_own(learn: Any) -> None:
    code, out, _ = learn()
    needed = on_device(learn("learner.device_blocks=0")[1])
    assert on_device(out) > needed  # by the rows of W
    assert code == 0 and f"{1 << 30:,} bytes  free on cuda:0\n" in out
    assert re.search(r"a pass on one H200, calculated: at least [\d.]+ .s for .* moved and ", out)
    assert "calculated" not in learn("learner.device=cpu")[1]
    code, out, _ = learn(f"learner.memory_limit.device={needed}")
    assert (
        code == 0 and f"{needed:,} bytes  allowed by learner.memory_limit.device on cuda:0\n" in out
    )
    before = set(Path().rglob("*"))
    for dry in (True, False):
        code, _, err = learn(f"learner.memory_limit.device={needed - 1}", dry=dry)
        assert code == 71 and set(Path().rglob("*")) == before
        assert re.search(
            r"training needs [\d.]+ M?k?B of the memory of cuda:0, and [\d.]+ M?k?B are allowed by "
            r"learner.memory_limit.device. Largest:",
            err,
        )
        assert "data.block_rows: 30\n" in err


def test_blocks_stay_in_what_a_limit_leaves(learn: Any) -> None:
    """Where a limit is set, blocks stay on the device only if a setting says so."""
    same = ("data.shuffle=blocks", "learner.passes=2")
    needed = on_device(learn(*same, "learner.device_blocks=0")[1])
    assert on_device(learn(*same)[1]) > needed + 16 * 1000  # of some thousand non-zeros
    limit = f"learner.memory_limit.device={needed + 1000}"
    code, out, _ = learn(*same, limit)
    assert code == 0 and on_device(out) == needed
    code, out, _ = learn(*same, limit, "learner.device_blocks=900")
    assert code == 0 and on_device(out) == needed + 900
    code, _, err = learn(*same, limit, "learner.device_blocks=1MB")
    assert code == 71 and "  learner.device_blocks: 1000000\n" in err


@pytest.mark.slow
def test_replicas_share_the_limit_of_their_device(learn: Any) -> None:
    both = "learner.replicas=2", "learner.devices=[cuda:0, cuda:0]"
    needed = on_device(learn(*both)[1])
    assert learn(*both, f"learner.memory_limit.device={2 * needed}")[0] == 0
    code, _, err = learn(*both, f"learner.memory_limit.device={2 * needed - 2}")
    assert code == 71 and "of the memory of cuda:0 for each of its replicas, and" in err
    apart = "learner.replicas=2", "learner.devices=[cuda:0, cuda:1]"
    assert learn(*apart, f"learner.memory_limit.device={needed}")[0] == 0


def test_devices_of_different_size(learn: Any, memory: dict[int, int]) -> None:
    """Each is looked at with the number of its replicas; the tightest one is named."""
    three = "learner.replicas=3", "learner.devices=[cuda:0, cuda:1, cuda:0]"
    memory[0], memory[1] = 900_000_000, 500_000_000
    code, out, _ = learn(*three)
    assert code == 0
    assert "450,000,000 bytes  free on cuda:0, for each of its 2 replicas\n" in out
    assert "500,000,000 bytes  free on cuda:1\n" in out
    code, out, _ = learn(*three, "learner.memory_limit.device=600MB")
    assert "300,000,000 bytes  allowed by learner.memory_limit.device on cuda:0, for each" in out
    assert "500,000,000 bytes  free on cuda:1\n" in out
    memory[1] = 20_000
    code, _, err = learn(*three)
    assert code == 71 and "of the memory of cuda:1, and 20.0 kB are free" in err
    memory[0], memory[1] = 40_000, 30_000
    code, _, err = learn(*three)
    assert code == 71 and "memory of cuda:0 for each of its replicas, and 20.0 kB are free" in err
