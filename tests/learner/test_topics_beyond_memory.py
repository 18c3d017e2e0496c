"""Topics larger than the memory that a process may have: trained and read by way of files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

WORDS, TOPICS, ROOM = 200_000, 200, 120 << 20  # 160 MB of topics; bytes of further data

CHILD = f"""\
import resource, sys
import numpy as np, scipy.sparse as sp, xxhash
import blocklearn as bl

def fit(words, folder, room=None):
    rng = np.random.default_rng(0)
    X = sp.csr_array((np.ones(5120, np.float32), rng.integers(0, words, 5120),
                      20 * np.arange(257)), shape=(256, words))
    X.sum_duplicates()
    model = bl.models.LDA(topics={TOPICS}, inference="vb", inner_iterations=1)
    learner = bl.Learner(model, X, X, block_rows=64, passes=2, threads=2, table_folder=folder,
                         evaluation={{"every_blocks": 3, "keep_best": False}})
    learner.fit()
    found = xxhash.xxh3_64_hexdigest(np.ascontiguousarray(learner.parameter("lambda")))
    learner.close()
    return found, repr(learner.progress.scores)

fit(20_000, None)  # code, threads and their stacks
own = int(open("/proc/self/status").read().split("VmData:")[1].split()[0]) << 10
resource.setrlimit(resource.RLIMIT_DATA, (own + int(sys.argv[1]), -1))
print(*fit({WORDS}, sys.argv[2] or None))
"""


def child(room: int, folder: Path | str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", CHILD, str(room), str(folder)]
    one = {**os.environ, "MALLOC_ARENA_MAX": "1"}
    return subprocess.run(command, capture_output=True, text=True, env=one)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux")
def test_topics_larger_than_memory(tmp_path: Path) -> None:
    """Maps of files that are shared are no data of a process. Evaluations copy topics, too."""
    refused = child(ROOM, "")
    assert refused.returncode != 0 and "Error" in refused.stderr
    found, wanted = child(ROOM, tmp_path), child(2**34, "")
    assert found.returncode == 0, found.stderr
    assert found.stdout == wanted.stdout != ""
    assert 4 * WORDS * TOPICS > ROOM
    assert list(tmp_path.iterdir()) == []
