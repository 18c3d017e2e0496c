"""Two threads that read one source get right numbers, as training and its scores do."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from blocklearn.datasources import DataSource, HostBlock, Reading
from blocklearn.datasources.hugectr import HugeCTRNorm
from tests.learner.test_resume import sources
from tests.support.hugectr_files import write_norm

PASSES = 3


def digest(source: DataSource, pass_: int, index: int, block: HostBlock) -> str:
    source.read(pass_, index, block)
    numbers = block.dense[: block.rows] if source.shape.dense else block.values[: block.nnz]
    places = [] if source.shape.dense else block.indices[: block.nnz].tolist()
    rows = block.row_ids[: block.rows].tolist()
    return str((rows, places, numbers.tolist(), block.targets[: block.rows].tolist()))


def check(source: DataSource) -> None:
    wanted = [(pass_, index) for pass_ in range(PASSES) for index in range(source.blocks)]
    block = HostBlock(source.shape)
    expected = {key: digest(source, *key, block) for key in wanted}

    def read(seed: int) -> bool:
        mine, rng = HostBlock(source.shape), np.random.default_rng(seed)
        order = [wanted[n] for n in rng.permutation(len(wanted))] + wanted
        return all(digest(source, *key, mine) == expected[key] for key in order)

    with ThreadPoolExecutor(3) as pool:
        assert all(pool.map(read, range(3)))


def test_every_source_of_rows(tmp_path: Path) -> None:
    for _, source in sources(tmp_path):
        check(source)


def test_binary_files(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    keys = [[rng.integers(0, 50, rng.integers(0, 9)) for _ in range(400)] for _ in range(2)]
    labels, dense = rng.random((400, 1)), rng.random((400, 3))
    write_norm(tmp_path / "list.txt", labels, dense, keys, files=2)
    data = HugeCTRNorm(path=tmp_path / "list.txt", vocabulary_size=50)
    check(data.open_source(Reading(block_rows=16, shuffle="blocks")))
