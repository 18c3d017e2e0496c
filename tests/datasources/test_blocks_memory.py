"""Training from a dataset that is much larger than the memory that a process may have."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from blocklearn.datasources import BlockWriter

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="counts memory as Linux does")
ROOM = 48 << 20  # bytes that the process may have beyond what a training on one block has left it
POOL = {"ARROW_DEFAULT_MEMORY_POOL": "system"}
"""Arrow's own allocator, mimalloc, asks for a gigabyte of addresses, of which it uses little, and
where a limit forbids that, it takes new ones for ever.
"""
SURROUNDINGS = POOL | {"MALLOC_ARENA_MAX": "1"}  # no 64 MB of addresses for each thread
ROWS, LENGTH, COLUMNS = 4096, 64, 20_000

PROGRAM = """
import json, resource, sys
import blocklearn as bl
from blocklearn.learner.memory import resident_bytes

class Watch(bl.Hook):
    def __init__(self):
        self.found = []
    def pass_end(self, learner, progress):
        self.found.append(resident_bytes())

def train(path, form):
    if form == "parquet":
        words = bl.datasources.Sparse("indices", "values", 20_000)
        source = bl.datasources.ParquetSource(path, words, targets=["y"], block_rows=4096,
                                              shuffle="blocks")
    else:
        source = bl.datasources.BlockSource([path], shuffle="blocks")
    watch = Watch()
    bl.Learner(bl.models.GLM(), train=source, passes=3, threads=1, hooks=[watch]).fit()
    return watch.found

few, many, room, form = sys.argv[1:]
train(few, form)  # code, threads and their stacks
own = int(open("/proc/self/status").read().split("VmData:")[1].split()[0]) << 10
resource.setrlimit(resource.RLIMIT_DATA, (own + int(room),) * 2)
print(json.dumps(train(many, form)))
"""


def random_blocks(least: int) -> Iterator[dict[str, Any]]:
    """Arrays of blocks whose indices and values are `least` bytes or a little more."""
    rng, width = np.random.default_rng(0), COLUMNS // LENGTH
    indices = rng.integers(0, width, (ROWS, LENGTH), np.int32) + np.arange(LENGTH) * width
    for _ in range(-(-least // (ROWS * LENGTH * 8))):
        yield {
            "indptr": np.arange(ROWS + 1) * LENGTH,
            "indices": indices.astype(np.int32).reshape(-1),
            "values": rng.normal(size=ROWS * LENGTH).astype(np.float32),
            "targets": rng.integers(0, 2, (ROWS, 1)).astype(np.float32),
        }


def write_blocks(folder: Path, least: int, codec: Any) -> None:
    """Blocks of random numbers."""
    with BlockWriter([folder], block_rows=ROWS, codec=codec, columns=COLUMNS) as writer:
        for block in random_blocks(least):
            writer.append(**block)
        writer.finish()


def write_parquet(path: Path, least: int) -> None:
    """The same, a row group for a block."""
    path.mkdir()
    writer = None
    for block in random_blocks(least):
        columns = {
            name: pa.ListArray.from_arrays(pa.array(block["indptr"], pa.int32()), block[name])
            for name in ("indices", "values")
        }
        table = pa.table(columns | {"y": block["targets"][:, 0]})
        if writer is None:
            writer = parquet.ParquetWriter(
                path / "a.parquet", table.schema, compression="none", use_dictionary=False
            )
        writer.write_table(table)
    assert writer is not None
    writer.close()


@pytest.mark.slow
@pytest.mark.parametrize("form", ["raw", "lz4", "parquet"])
def test_memory_stays_flat_on_data_five_times_its_room(tmp_path: Path, form: str) -> None:
    """`ulimit -d` (what a process allocates; files that the system caches do not count) would end
    a run that keeps blocks, and the resident bytes after each pass are the same.
    """
    few, many = tmp_path / "few", tmp_path / "many"
    for data, least in ((few, 1), (many, 5 * ROOM + (2 << 20))):  # LZ4 saves a little
        if form == "parquet":
            write_parquet(data, least)
        else:
            write_blocks(data, least, form)
    assert sum(file.stat().st_size for file in many.iterdir()) >= 5 * ROOM
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, few, many, str(ROOM), form],
        capture_output=True, text=True, timeout=300, env=os.environ | SURROUNDINGS,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    resident = json.loads(done.stdout)
    assert len(resident) == 3
    assert max(resident) - min(resident) < 8 << 20, resident
