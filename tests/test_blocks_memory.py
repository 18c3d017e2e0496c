"""Training from a dataset that is much larger than the memory that a process may have."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from blocklearn.datasources import BlockWriter

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="counts memory as Linux does")
LIMIT = 384 << 20  # bytes; Python, NumPy and what they load take 240 MB of it
ROWS, LENGTH, COLUMNS = 4096, 64, 20_000

PROGRAM = """
import json, resource, sys
import blocklearn as bl
from blocklearn.learner.memory import resident_bytes

class Watch(bl.Hook):
    found = []
    def pass_end(self, learner, progress):
        self.found.append(resident_bytes())

resource.setrlimit(resource.RLIMIT_DATA, (int(sys.argv[2]),) * 2)
source = bl.datasources.BlockSource([sys.argv[1]], shuffle="blocks")
watch = Watch()
bl.Learner(bl.models.GLM(), train=source, passes=3, threads=1, hooks=[watch]).fit()
print(json.dumps(watch.found))
"""


def write(folder: Path, least: int) -> int:
    """Blocks of random numbers, `least` bytes or a little more; how many bytes they are."""
    rng, size = np.random.default_rng(0), 0
    width = COLUMNS // LENGTH
    indices = rng.integers(0, width, (ROWS, LENGTH), np.int32) + np.arange(LENGTH) * width
    with BlockWriter([folder], block_rows=ROWS, codec="raw", columns=COLUMNS) as writer:
        while size < least:
            writer.append(
                indptr=np.arange(ROWS + 1) * LENGTH,
                indices=indices.astype(np.int32).reshape(-1),
                values=rng.normal(size=ROWS * LENGTH).astype(np.float32),
                targets=rng.integers(0, 2, (ROWS, 1)).astype(np.float32),
            )
            size += ROWS * LENGTH * 8
        writer.finish()
    return sum(file.stat().st_size for file in folder.iterdir())


@pytest.mark.slow
def test_memory_stays_flat_on_a_dataset_five_times_its_limit(tmp_path: Path) -> None:
    """`ulimit -d` (what a process allocates; files that the system caches do not count) would end
    a run that keeps blocks, and the resident bytes after each pass are the same.
    """
    assert write(tmp_path / "data", 5 * LIMIT) >= 5 * LIMIT
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, tmp_path / "data", str(LIMIT)],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    resident = json.loads(done.stdout)
    assert len(resident) == 3
    assert max(resident) < LIMIT
    assert max(resident) - min(resident) < 8 << 20, resident
