"""Random damage to block datasets: an error, or the same numbers; never a crash or other ones."""

import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from blocklearn.datasources import BlockSource, DataError, HostBlock, row_names, target_names
from tests.support.block_datasets import Data, arrays, counts, folders, labelled, write
from tests.support.often import rarely

FEW, MANY = 300, 10_000


def everything(paths: list[Path], verify: Any) -> list[Any]:
    """All that a dataset says."""
    found: list[Any] = []
    source = BlockSource(paths, verify=verify)
    for side in (source, *([source.transposed()] if hasattr(source, "transposed") else [])):
        with side:
            block = HostBlock(side.shape)
            for index in range(side.blocks):
                side.read(0, index, block)
                block.transpose()
                found += arrays(block)
            found += [side.shape, side.fingerprint]
            found += [list(names) for names in (side.names, row_names(side)) if names is not None]
    return [*found, list(target_names(source) or ()), source.label_sums(), source.value_sums()]


def damage(rng: random.Random, data: bytes) -> bytes:
    """`data` with something wrong."""
    changed = bytearray(data)
    size = len(changed)
    at = rng.randrange(size)
    length = min(size - at, rng.choice([1, 1, 2, 4, 8, 64, 1000]))
    match rng.randrange(8):
        case 0:
            changed[at] ^= 1 << rng.randrange(8)
        case 1:
            changed[at : at + length] = rng.randbytes(length)
        case 2:
            changed[at : at + length] = rng.choice([b"\0", b"\xff", b"\x7f", b" "]) * length
        case 3:
            del changed[at:]
        case 4:
            del changed[at : at + length]
        case 5:
            changed[at:at] = rng.randbytes(length)
        case 6:  # two places exchanged
            other = rng.randrange(size)
            changed[at], changed[other] = changed[other], changed[at]
        case 7:  # a piece copied to another place
            other = rng.randrange(size)
            changed[other : other + length] = changed[at : at + length]
    return bytes(changed)


def fuzz(tmp_path: Path, mutations: int, seed: int, verify: Any) -> int:
    """How many of the damaged datasets were refused."""
    rng = random.Random(seed)
    datasets = {
        "raw": (labelled(9), {"codec": "raw", "names": [f"c{i}" for i in range(11)]}),
        "lz4": (labelled(9), {"codec": "lz4", "both_orientations": True}),
        "dense": (labelled(9, 1, dense=True), {"codec": "raw"}),
        "dense lz4": (labelled(9, dense=True), {"codec": "lz4"}),
        "large": (Data(counts(60, 40)), {"codec": "lz4", "block_rows": 30}),
    }
    refused = 0
    for number, (name, (data, settings)) in enumerate(datasets.items()):
        paths = folders(tmp_path / name, 1 + number % 2)
        write(data, paths, **settings)  # type: ignore[arg-type]
        expected = everything(paths, verify)
        files = sorted(path for folder in paths for path in folder.iterdir())
        for _ in range(mutations // len(datasets)):
            path = rng.choice(files)
            whole = path.read_bytes()
            if rng.random() < 0.01:
                path.unlink()
            else:
                path.write_bytes(damage(rng, whole))
            try:
                found = everything(paths, verify)
            except (DataError, FileNotFoundError):
                refused += 1
            else:
                assert not verify or found == expected, (path.name, "says something else")
            path.write_bytes(whole)
        assert everything(paths, verify) == expected
        shutil.rmtree(tmp_path / name)
    return refused


@pytest.mark.parametrize("verify", [True, False, *rarely("always")])
def test_some_damage(tmp_path: Path, verify: Any) -> None:
    """Without digests other numbers are possible, but none that no block may hold."""
    refused = fuzz(tmp_path, FEW, 0, verify)
    assert refused > FEW / 3


@pytest.mark.slow
@pytest.mark.parametrize("verify", [True, False])
def test_much_damage(tmp_path: Path, verify: bool) -> None:
    refused = fuzz(tmp_path, MANY, 1, verify)
    assert refused > MANY / 3
