"""The CUDA backend on a stand-in for a device: order of copies and kernels, graphs, the plan."""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from blocklearn.matcache import (
    MatCache,
    MemoryPlanError,
    MissingKernelError,
    Rowwise,
    SparseInput,
    argsort,
    colsum,
    copy,
    from_array,
    from_sparse,
    named,
    scalar,
    sort,
    total,
)
from blocklearn.matcache.containers.dispatch import _launches
from blocklearn.matcache.containers.launching import launch
from blocklearn.matcache.cpu import launches as cpu_launches
from blocklearn.matcache.cuda import Cuda
from blocklearn.matcache.cuda.kernels import IN_MEMORY, IN_SHARED, library_source, where_counts
from blocklearn.matcache.notation.elementwise import ELEMENTWISE
from blocklearn.matcache.notation.operand import apply
from blocklearn.matcache.operations.sampling import sample_topics
from tests.support.backends import needs_compiler
from tests.support.cubin import ARCHITECTURES, nvrtc, resources
from tests.support.cuda_device import HostDriver

pytestmark = needs_compiler


@pytest.fixture
def driver() -> HostDriver:
    return HostDriver(seed=7)


@pytest.fixture
def cache(driver: HostDriver) -> Iterator[MatCache]:
    with MatCache(backend=Cuda(driver)) as found:
        yield found


def numbers(*shape: int, dtype: Any = np.float32) -> Any:
    return np.random.default_rng(0).normal(size=shape).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1, 255, 70_001])
def test_numbers_that_are_not_finite_are_found(cache: MatCache, dtype: Any, size: int) -> None:
    backend, A = cache.backend, named(cache, "A", (size, 1), dtype)
    for bad in (np.nan, np.inf, -np.inf, np.finfo(dtype).max):
        for at in {0, size // 2, size - 1}:
            array = np.zeros((size, 1), dtype)
            array[at] = bad
            A.set(array)
            assert backend.finite(A.slot.data()) == bool(np.isfinite(bad))
    assert backend.finite(A.slot.data()[:0])


def test_dense_operations_match_numpy(cache: MatCache) -> None:
    a, b = numbers(9, 5), numbers(5, 3)
    A, B = from_array(cache, a), from_array(cache, b)
    np.testing.assert_allclose((A @ B).numpy(), a @ b, rtol=1e-5)
    np.testing.assert_allclose((A.T @ A).numpy(), a.T @ a, rtol=1e-5)
    np.testing.assert_allclose((B @ B.T).numpy(), b @ b.T, rtol=1e-5)
    np.testing.assert_array_equal(A.T.numpy(), a.T)
    np.testing.assert_array_equal(A[[3, 1], [4, 0]].numpy(), a[[3, 1]][:, [4, 0]])
    np.testing.assert_allclose(colsum(A * 2.0).numpy()[0], 2 * a.sum(axis=0), rtol=1e-5)
    assert float(total(A)) == pytest.approx(a.sum(dtype=np.float64), rel=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_functions_are_exact_and_undefined_where_they_are(cache: MatCache, dtype: Any) -> None:
    names = [name for name, op in ELEMENTWISE.items() if op.arity == 1]
    x = np.geomspace(1e-3, 60, 200, dtype=dtype)[None]
    some = Rowwise(lambda a: tuple(apply(name, a) for name in names))
    for name, got in zip(names, some(from_array(cache, x)), strict=True):
        wanted = ELEMENTWISE[name].define(x.astype(np.float64))
        eps = 60 * np.finfo(dtype).eps
        np.testing.assert_allclose(got.numpy(), wanted, rtol=eps, atol=eps, err_msg=name)
    below = from_array(cache, np.array([[-1.0, -np.inf, -2.5, np.nan]], dtype))
    for name in ("sqrt", "log", "lgamma", "digamma", "exppsi"):
        assert np.isnan(apply(name, below).numpy()).all(), name


def test_sums_of_nothing(cache: MatCache) -> None:
    assert colsum(from_array(cache, np.zeros((3, 0)))).numpy().shape == (1, 0)
    assert float(total(from_array(cache, np.zeros((0, 3))))) == 0.0


def test_rows_are_sorted_with_nan_last(cache: MatCache) -> None:
    a = np.array([[3.0, np.nan, 1.0, 1.0], [2.0, -np.inf, 0.0, np.nan]])
    np.testing.assert_array_equal(sort(from_array(cache, a)).numpy(), np.sort(a, axis=1))
    keys = np.round(np.repeat(a, 300, axis=1)).astype(np.float32)
    keys[0, 5], keys[1, 7] = np.nan, -0.0
    order = argsort(from_array(cache, keys)).numpy()
    np.testing.assert_array_equal(order, np.argsort(keys, axis=1, kind="stable"))


def test_positions_out_of_range_are_found(cache: MatCache) -> None:
    A, places = from_array(cache, numbers(4, 2)), from_array(cache, np.array([[1, 4]]))
    with pytest.raises(IndexError, match="position 4 on axis 0"):
        A[places].numpy()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_products_match_scipy(cache: MatCache, dtype: Any) -> None:
    x = sp.random(20, 30, 0.2, format="csr", random_state=0, dtype=dtype)
    t, w = numbers(20, 7, dtype=dtype), numbers(30, 4, dtype=dtype)
    X = from_sparse(cache, x)
    np.testing.assert_allclose((X.T @ from_array(cache, t)).numpy(), x.T @ t, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose((X @ from_array(cache, w)).numpy(), x @ w, rtol=1e-4, atol=1e-5)


def test_numbers_of_another_type_are_read_as_they_are(cache: MatCache) -> None:
    A, ids = from_array(cache, numbers(3, 2)), from_array(cache, np.array([[5], [6], [7]]))
    half = scalar(cache, 0.5)
    expected = A.numpy() * 0.5 + np.array([[5], [6], [7]])
    np.testing.assert_allclose((A * half + ids).numpy(), expected, rtol=1e-6)


def test_every_operation_has_a_kernel_on_every_kind_of_backend() -> None:
    kinds: dict[str, set[str]] = {}
    assert cpu_launches  # those of devices come with the backend; these, with a first matrix
    for operation, kind in _launches:
        kinds.setdefault(operation, set()).add(kind)
    assert {"rowwise", "dense", "top_products", "row_steps"} <= kinds.keys()
    assert {frozenset(found) for found in kinds.values()} == {frozenset({"cpu", "cuda"})}


def test_an_operation_without_a_kernel_says_so(cache: MatCache) -> None:
    with pytest.raises(MissingKernelError, match="no kernel for device: cuda"):
        launch(cache, "an operation of the next century")


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("types", [("float",) * 3, ("double",) * 3, ("i64", "float", "double")])
def test_kernels_of_the_backend_compile(types: tuple[str, ...], architecture: str) -> None:
    cubin = nvrtc(library_source(*types), architecture)
    for name, needs in resources(cubin).items():
        assert needs.frame == 0, name  # nothing spilled


# ------------------------------------------------------------------ memory


def test_a_plan_that_does_not_fit_is_refused() -> None:
    with MatCache(backend=Cuda(HostDriver(memory=1000)), reserving=True) as cache:
        named(cache, "large", (100, 100))
        with pytest.raises(MemoryPlanError, match=r"needs 40,192 bytes of .*, and 1,000 of its"):
            cache.commit()


def test_one_allocation_holds_the_plan(driver: HostDriver) -> None:
    with MatCache(backend=Cuda(driver), reserving=True) as cache:
        A = named(cache, "A", (10, 10))
        B = copy(A * 2.0).mat()
        assert driver.allocations == 0
        cache.commit()
        np.testing.assert_array_equal(named(cache, "A", (10, 10)).numpy(), 0.0)
        cache.freeze()
        named(cache, "A", (10, 10)).set(1.0)
        np.testing.assert_array_equal(copy(named(cache, "A", (10, 10)) * 2.0).numpy(), 2.0)
        assert driver.allocations == 1
        assert B.shape == (10, 10)


def test_a_forgotten_cache_gives_its_memory_back(driver: HostDriver) -> None:
    cache = MatCache(backend=Cuda(driver))
    from_array(cache, numbers(3, 3))
    assert driver.limits().free < driver.memory
    del cache
    gc.collect()
    assert driver.limits().free == driver.memory


# ------------------------------------------------------------------ blocks, order, graphs


class Blocks:
    """Sparse blocks through one container, each multiplied with a table and added up."""

    def __init__(self, cache: MatCache, columns: int = 12, rows: int = 8) -> None:
        self.cache = cache
        self.input = SparseInput(cache, "X", rows, columns, rows * columns)
        self.numbers = numbers(rows, 3)
        self.table = from_array(cache, self.numbers, "table")
        self.sums = named(cache, "sums", (columns, 3))
        self.weight = scalar(cache, 0.0, "weight")

        self.expected = np.zeros((columns, 3))

    def run(
        self, number: int, *, late: bool = False, begun: Callable[[], None] = lambda: None
    ) -> None:
        """late: what is computed of the block is computed when it has ended. begun: is called when
        it has begun.
        """
        rng = np.random.default_rng(number)
        x = sp.random(8, 12, 0.3, format="csr", random_state=rng, dtype=np.float32)
        backend = self.cache.backend
        backend.begin_block()
        begun()
        csc = sp.csc_array((np.arange(x.nnz), x.indices, x.indptr), shape=(12, 8)).tocsr()
        counts = np.diff(csc.indptr)
        active = np.flatnonzero(counts).astype(np.int32)
        indices, values = x.indices.astype(np.int32), x.data.copy()
        X = self.input.bind(
            indptr=x.indptr.astype(np.int64),
            indices=indices,
            values=values,
            active=active,
            active_count=active.size,
            starts=np.concatenate([[0], np.cumsum(counts[active])]).astype(np.int64),
            t_rows=csc.indices.astype(np.int32),
            t_pos=csc.data.astype(np.int32),
        )
        self.weight.set(1.0 + number)
        if late:
            backend.end_block()
        self.sums <<= self.sums + self.weight * (X.T @ self.table)
        if not late:
            backend.end_block()
        indices[:], values[:] = -1, np.nan  # from here on the host's arrays are the reader's again
        self.expected += (1.0 + number) * (x.T @ self.numbers)


@pytest.mark.parametrize("graphs", [True, False])
def test_blocks_are_computed_in_order(graphs: bool) -> None:
    driver = HostDriver(seed=3)
    with MatCache(backend=Cuda(driver, graphs=graphs)) as cache:
        blocks = Blocks(cache)
        for number in range(12):
            blocks.run(number)
        np.testing.assert_allclose(blocks.sums.numpy(), blocks.expected, rtol=1e-4)
        assert (driver.graphs > 0) == graphs
        if graphs:
            assert driver.graphs == 2  # one for each buffer
            assert driver.replayed >= 8


def test_dense_products_are_computed_in_order(cache: MatCache) -> None:
    """Each needs what came before it in its block, and the block before."""
    left, right = numbers(40, 40) / 8, numbers(40, 24)
    A, B, C = from_array(cache, left), from_array(cache, right), named(cache, "C", (40, 24))
    weight, expected = scalar(cache, 0.0, "weight"), np.zeros((40, 24))
    for number in range(12):
        cache.backend.begin_block()
        weight.set(1.0 + number)
        C <<= weight * (A.T @ (0.5 * C + B))
        C <<= (C @ B.T) @ B * 0.01
        cache.backend.end_block()
        expected = (1.0 + number) * left.T @ (0.5 * expected + right)
        expected = expected @ right.T @ right * 0.01
    scale = np.abs(expected).max()
    np.testing.assert_allclose(C.numpy(), expected, rtol=1e-3, atol=1e-3 * scale)
    assert cache.backend.launcher.replays >= 8


def test_the_next_block_is_copied_while_one_is_computed(cache: MatCache) -> None:
    blocks, gate = Blocks(cache), threading.Event()
    for number in range(4):
        blocks.run(number)
    cache.backend.drain()
    compute = cache.backend.compute
    # These return although no kernel can run: only copies are waited for.
    blocks.run(4, begun=lambda: compute.always(lambda: assert_(gate.wait(30))))
    blocks.run(5)
    assert not gate.is_set()
    gate.set()
    np.testing.assert_allclose(blocks.sums.numpy(), blocks.expected, rtol=1e-4)


def assert_(what: bool) -> None:
    assert what


def test_numbers_baked_into_an_update_end_graphs_with_one_line(
    cache: MatCache, driver: HostDriver, caplog: pytest.LogCaptureFixture
) -> None:
    A = from_array(cache, numbers(4, 4))
    caplog.set_level(logging.WARNING, "blocklearn.cuda")
    cache.enabled = False
    for number in range(40):
        cache.backend.begin_block()
        for _ in range(3):
            A <<= A * (1.0 + number / 1e6)  # a new constant every time
        cache.backend.end_block()
    (record,) = caplog.records
    assert "test_cuda_device.py" in record.getMessage()
    assert driver.graphs == 0


def test_what_is_computed_after_a_block_still_has_its_arrays() -> None:
    for seed in range(5):
        with MatCache(backend=Cuda(HostDriver(seed=seed))) as cache:
            blocks = Blocks(cache)
            for number in range(12):
                blocks.run(number, late=True)
            np.testing.assert_allclose(blocks.sums.numpy(), blocks.expected, rtol=1e-4)


def test_kernels_are_loaded_before_the_slab_is_allocated() -> None:
    driver, loaded = HostDriver(seed=0), []
    function = driver.function

    def noted(source: str, name: str) -> Any:
        loaded.append(driver.allocations)
        return function(source, name)

    driver.function = noted  # type: ignore[method-assign]
    with MatCache(backend=Cuda(driver), reserving=True) as cache:
        (named(cache, "a", (3, 3)) * 2.0).mat()
        cache.commit()
        assert (len(loaded), driver.allocations) == (1, 1) and loaded == [0]


def test_an_empty_array_is_set_in_a_block(cache: MatCache) -> None:
    empty = from_array(cache, np.zeros((0, 3), np.float32))
    for _ in range(5):
        cache.backend.begin_block()
        cache.backend.write(empty.slot.array, np.zeros((0, 3), np.float32))
        cache.backend.end_block()
    assert empty.numpy().shape == (0, 3)


def test_reads_in_the_middle_of_an_update_see_what_came_before(cache: MatCache) -> None:
    A, seen = from_array(cache, np.ones((2, 2), np.float32)), []
    for _ in range(5):
        cache.backend.begin_block()
        A <<= A * 2.0
        seen.append(float(total(A)))
        A <<= A + 1.0
        cache.backend.end_block()
    assert seen == [8.0, 24.0, 56.0, 120.0, 248.0]


@pytest.mark.parametrize(("k", "where"), [(1030, IN_SHARED), (2100, IN_SHARED), (3100, IN_MEMORY)])
def test_counts_of_many_topics(k: int, where: int) -> None:
    """The CPU's draws, for more rows than groups of lanes."""
    assert where_counts(k, kept=False).counts == where
    rng = np.random.default_rng(0)
    X = sp.random(100, 9, 0.3, format="csr", random_state=0, dtype=np.float32)
    X.data[:] = rng.integers(1, 12, X.nnz)
    phi = rng.uniform(0.1, 1, (9, k)).astype(np.float32)
    given = phi, np.full((1, k), 0.1, np.float32), np.arange(100)[:, None], np.array([[7, 0, 0]])
    found = []
    for memory in (MatCache(threads=1), MatCache(backend=Cuda(HostDriver()))):
        with memory:
            mats = [from_array(memory, array) for array in given]
            samples = sample_topics(from_sparse(memory, X), *mats, burn=1, save=2)
            found.append(samples.counts(k).numpy())
    np.testing.assert_array_equal(found[1], found[0])
