"""The transposed index that a device makes is the reader's, to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.datasources import BlockShape, HostBlock
from blocklearn.learner.configuration.config import RunConfig
from blocklearn.matcache import MatCache, SparseInput
from blocklearn.matcache.containers.chunks import turned
from blocklearn.matcache.cuda import Cuda, devices
from blocklearn.matcache.cuda.driver import Driver
from blocklearn.matcache.cuda.index import sorting
from tests.cuda.test_cuda_learner import CASES, learnt, trained
from tests.support.backends import needs_compiler
from tests.support.cuda_device import HostDriver, stand_ins
from tests.support.often import first_often, rarely

pytestmark = needs_compiler


def filled(X: Any) -> HostBlock:
    """The block that has the rows of X, with its index."""
    rows, columns = X.shape
    host = HostBlock(BlockShape(rows, columns, max(1, X.nnz), rows))
    host.indptr[:], host.nnz, host.rows = X.indptr, X.nnz, rows
    host.indices[: X.nnz], host.values[: X.nnz] = X.indices, X.data
    host.transpose()
    return host


def found_on(driver: Driver, blocks: list[HostBlock], capacity: int) -> list[list[Any]]:
    """active, starts, t_rows and t_pos of each block, as a device makes them."""
    rows, columns = blocks[0].shape.rows, blocks[0].shape.columns
    found = []
    with MatCache(backend=Cuda(driver, indexes=True)) as cache:
        X = SparseInput(cache, "X", rows, columns, capacity)
        for host in blocks:
            cache.backend.begin_block()
            X.bind(indptr=host.indptr, indices=host.indices, values=host.values)
            arrays = turned(cache, X.pattern)
            turned(cache, X.pattern)
            cache.backend.end_block()
            count = int(cache.backend.read(X.pattern.counts)[1])
            ends = (count, count + 1, host.nnz, host.nnz)
            rows_of = (cache.backend.read(array)[0] for array in arrays)
            found.append([row[:end] for row, end in zip(rows_of, ends, strict=True)])
    return found


def check(driver: Driver, matrices: list[Any], capacity: int) -> None:
    blocks = [filled(X) for X in matrices]
    for host, arrays in zip(blocks, found_on(driver, blocks, capacity), strict=True):
        n, nnz = host.n_active, host.nnz
        expected = (host.active[:n], host.starts[: n + 1], host.t_rows[:nnz], host.t_pos[:nnz])
        for got, wanted in zip(arrays, expected, strict=True):
            np.testing.assert_array_equal(got, wanted)


def some(rows: int, columns: int, each: int, seed: int = 0) -> Any:
    """Few columns many times, most never, and rows of nothing."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 2 * each, rows) * (rng.random(rows) < 0.8)
    at = [np.unique((columns * rng.random(n) ** 4).astype(np.int32)) for n in lengths]
    indices = np.concatenate([*at, np.zeros(0, np.int32)])
    indptr = np.cumsum([0, *map(len, at)])
    return sp.csr_array((np.ones(indices.size, np.float32), indices, indptr), shape=(rows, columns))


def matrices(rows: int, columns: int, each: int) -> list[Any]:
    nothing = sp.csr_array((rows, columns), dtype=np.float32)
    return [some(rows, columns, each), nothing, some(rows, columns, 3 * each, 1)]


@pytest.mark.parametrize("columns", first_often([1, 16, 17, 300, 70_000, 2**31 - 1], 3))
def test_the_index_of_a_device_is_that_of_the_reader(columns: int) -> None:
    blocks = matrices(40, columns, 12)
    check(HostDriver(seed=columns), blocks, max(X.nnz for X in blocks))


@pytest.mark.parametrize("columns", [1, 17, 70_000])
def test_the_model_of_the_time_counts_these_launches(columns: int) -> None:
    X, driver = some(40, columns, 12), HostDriver()
    found_on(driver, [filled(X)], X.nnz)
    assert sum(name.startswith("index_") for name in driver.ran) == sorting(columns)[0]


@pytest.mark.parametrize("threads", [1, *rarely(64)])
def test_a_row_of_all_columns_and_a_column_of_all_rows(threads: int) -> None:
    """Then a block of one entry, fewer than there are parts."""
    rows, columns = 400, 3000
    X = sp.lil_array((rows, columns), dtype=np.float32)
    X[5], X[:, 7] = 1, 1
    one = sp.csr_array(([1.0], ([399], [2999])), shape=(rows, columns), dtype=np.float32)
    check(HostDriver(threads=threads), [sp.csr_array(X), one], rows + columns)


@pytest.mark.parametrize("threads", [64, pytest.param(256, marks=pytest.mark.slow)])
def test_with_all_threads_of_a_block(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """So few parts that each has several tiles."""
    parts = 4
    monkeypatch.setattr("blocklearn.matcache.cuda.index.PARTS", parts)
    monkeypatch.setattr("blocklearn.matcache.cuda.index.index_source", fewer(parts))
    X = some(300, 5000, threads * 8 * parts * 2 // 300)
    check(HostDriver(threads=threads), [X], X.nnz)


@pytest.mark.parametrize("entries", first_often([7, 8, 9, 4087, 4088, 4095, 4096, 4097, 8200], 4))
def test_blocks_that_fill_tiles_or_all_parts(entries: int) -> None:
    """A tile is 8 entries of a block with one thread; 512 parts have a tile each, or more."""
    rng = np.random.default_rng(entries)
    lengths = np.bincount(rng.integers(0, 50, entries), minlength=50)
    indices = np.concatenate([np.sort(rng.choice(70_000, n, replace=False)) for n in lengths])
    indptr = np.cumsum([0, *lengths])
    X = sp.csr_array((np.ones(entries, np.float32), indices, indptr), shape=(50, 70_000))
    check(HostDriver(), [X], entries)


def fewer(parts: int) -> Any:
    """The text, with other parts."""
    from blocklearn.matcache.cuda.kernels import index_source

    def source(position: str) -> str:
        text = index_source(position)
        assert "#define PARTS 512" in text
        return text.replace("#define PARTS 512", f"#define PARTS {parts}")

    return source


def test_positions_beyond_32_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    from blocklearn.matcache.containers.slots import PatternSlot

    monkeypatch.setattr(PatternSlot, "position_type", property(lambda pattern: np.int64))
    X = some(40, 300, 12)
    (arrays,) = found_on(HostDriver(), [filled(X)], X.nnz)
    assert arrays[3].dtype == np.int64
    np.testing.assert_array_equal(arrays[3], filled(X).t_pos[: X.nnz])


def test_room_grows_with_the_blocks() -> None:
    small, large = some(40, 300, 3), some(40, 300, 30)
    check(HostDriver(), [small, large, small], small.nnz)


@pytest.mark.gpu
@pytest.mark.parametrize("columns", [16, 5000, 2**31 - 1])
def test_the_index_of_a_real_device(columns: int) -> None:
    blocks = matrices(3000, columns, 400)
    check(devices.open_driver(0), blocks, max(X.nnz for X in blocks))


@pytest.mark.parametrize("name", ["nmf", *rarely("lda", "glm, by row")])
def test_training_has_the_same_bits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    drivers = stand_ins(monkeypatch)
    host, device = (trained(name, "cuda", index=index) for index in ("host", "device"))
    assert device.team is not None and host.team is not None
    team, stats = device.team, device.team.first.cache.stats()
    assert drivers[1].allocations == 1
    assert stats.allocations_after_warmup == 0
    assert drivers[1].replayed > 0
    built = "index_rows" in drivers[1].launched
    assert built == bool(host.team.first.intakes[0].indexed_for)  # those that read it
    assert not team.first.intakes[0].indexed_for
    assert "index_rows" not in drivers[0].launched
    assert device.plan().total < host.plan().total  # of the host
    expected = learnt(name, host)
    for what, numbers in learnt(name, device).items():
        np.testing.assert_array_equal(numbers, expected[what], err_msg=what)
    host.close()
    device.close()


def test_on_the_cpu_it_does_not_matter() -> None:
    one, other = (trained("nmf", "cpu", passes=1, index=index) for index in ("host", "device"))
    np.testing.assert_array_equal(one.parameter("H"), other.parameter("H"))
    assert other.team is not None
    assert other.team.first.intakes[0].indexed_for


def test_who_makes_it_is_configured() -> None:
    given = {
        "model": {"kind": "nmf", "components": 3},
        "data": {"train": {"kind": "python-docs"}},
        "learner": {"index": "device"},
    }
    config = RunConfig.model_validate(given)
    assert config.learner.index == "device"
    model, data, _ = CASES["nmf"]()
    with pytest.raises(ValueError, match="index='gpu': must be one of"):
        bl.Learner(model, data, index="gpu")  # type: ignore[arg-type]
