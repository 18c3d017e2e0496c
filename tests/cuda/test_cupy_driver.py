"""The driver of a real device, with stand-ins for CuPy, for cuBLAS and for the devices."""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from blocklearn.matcache import MatCache, MissingKernelError, cholesky, from_array
from blocklearn.matcache.cuda import Cuda, advice, cublas, cupy_driver, cusolver, devices
from blocklearn.matcache.cuda.cublas import declared
from blocklearn.matcache.cuda.cupy_driver import CupyDriver
from blocklearn.matcache.cuda.driver import Product
from blocklearn.matcache.cuda.launches import dense
from blocklearn.matcache.errors import DeviceError
from tests.cuda.test_cuda_device import (  # noqa: F401 (they are run with the fixture of this module)
    Blocks,
    numbers,
    test_dense_operations_match_numpy,
    test_dense_products_are_computed_in_order,
    test_reads_in_the_middle_of_an_update_see_what_came_before,
    test_sparse_products_match_scipy,
)
from tests.cuda.test_cuda_learner import learnt, trained
from tests.cuda.test_cuda_merging import merged
from tests.matcache.test_algebra import (  # noqa: F401
    test_empty_sides,
    test_matrices_without_full_rank_have_one_too,
    test_numbers_of_other_types_are_computed_in_float64,
    test_of_square_matrices,
    test_triangles_are_factors_and_systems,
    test_what_has_no_solution_is_nan,
)
from tests.support import cupy_standin
from tests.support.backends import needs_compiler
from tests.support.cuda_device import HostDriver
from tests.support.cupy_standin import Cublas, Machine, held
from tests.support.cupy_standin import memory as bytes_at

pytestmark = needs_compiler


@pytest.fixture
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> tuple[Machine, Cublas]:
    """Two devices."""
    hosts = [HostDriver(seed=number, number=number) for number in range(2)]
    return cupy_standin.install(monkeypatch, hosts)


@pytest.fixture
def machine(stand_ins: tuple[Machine, Cublas]) -> Machine:
    return stand_ins[0]


@pytest.fixture
def library(stand_ins: tuple[Machine, Cublas]) -> Cublas:
    return stand_ins[1]


@pytest.fixture
def cache(machine: Machine) -> Iterator[MatCache]:
    with MatCache(backend=Cuda(devices.open_driver(0))) as found:
        yield found


@pytest.fixture
def memory(cache: MatCache) -> MatCache:
    """Of the tests of factorizations."""
    return cache


def test_a_part_of_a_table_stays_on_the_host(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[int, ...]] = []
    monkeypatch.setattr(advice, "_advise", lambda *args: told.append(args))
    with MatCache(backend=Cuda(devices.open_driver(1))) as cache:
        table = cache.backend.spread().new((8, 4), np.float32, 3)
        first, near, whole = table.address, 3 * 16, 8 * 16
        assert told == [
            (first, near, advice.PREFERRED_LOCATION, 1),
            (first + near, whole - near, advice.PREFERRED_LOCATION, advice.HOST),
            (first, whole, advice.ACCESSED_BY, 1),
        ]
        assert not cache.backend.spread().read(table, np.arange(8)).any()
        machine.without_managed.add(1)
        with pytest.raises(DeviceError, match="concurrentManagedAccess"):
            cache.backend.spread().new((8, 4), np.float32, 3)
    gc.collect()
    assert not machine.hosts[1]._far


def test_cusolver_is_opened_at_its_first_use_and_closed(machine: Machine) -> None:
    with MatCache(backend=Cuda(devices.open_driver(0))) as cache:
        A = from_array(cache, np.eye(3) * 4.0)
        assert machine.solver.handles == 0
        np.testing.assert_array_equal(cholesky(A).numpy(), np.eye(3) * 2.0)
        cholesky(A * 2.0).mat()
        assert machine.solver.handles == 1
    gc.collect()
    assert machine.solver.handles == 0


def test_a_device_without_cusolver_says_what_to_install(
    cache: MatCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "cupy_backends.cuda.libs.cusolver", None)
    cusolver.library.cache_clear()
    with pytest.raises(MissingKernelError, match="Install nvidia-cusolver-cu12"):
        cusolver.library()


def test_a_library_without_a_function_is_refused_when_the_device_is_opened() -> None:
    with pytest.raises(MissingKernelError, match=r"cuBLAS: .* has no cublasDtrmm_v2\. Install"):
        declared(ctypes.CDLL(None), {"strlen": [], "cublasDtrmm_v2": []}, "cuBLAS")


def test_a_training_learns_what_it_learns_on_the_cpu(machine: Machine) -> None:
    cpu, cuda = trained("nmf", "cpu"), trained("nmf", "cuda:1")
    found = learnt("nmf", cuda)
    for what, wanted in learnt("nmf", cpu).items():
        np.testing.assert_allclose(found[what], wanted, rtol=1e-3, atol=1e-3, err_msg=what)
    cpu.close()
    cuda.close()
    assert machine.hosts[1].allocations == 1
    assert machine.hosts[1].replayed > 0


def test_a_call_that_cupy_would_refuse_is_refused_here() -> None:
    text = "memsetAsync(intptr_t ptr, int value, size_t size, intptr_t stream)\n\nMore."
    call = held(text, lambda *args: args)
    assert call(1, 2, 3, 4) == (1, 2, 3, 4)
    for wrong in [(1, 2, 3), (1, 2**31, 3, 4), (1, 2, -1, 4), (1, 2, 3, "4")]:
        with pytest.raises((TypeError, AssertionError)):
            call(*wrong)


def test_blocks_are_computed_in_order(machine: Machine) -> None:
    with MatCache(backend=Cuda(devices.open_driver(0))) as cache:
        blocks = Blocks(cache)
        for number in range(12):
            blocks.run(number)
        np.testing.assert_allclose(blocks.sums.numpy(), blocks.expected, rtol=1e-4)
        assert machine.hosts[0].graphs == 2
        assert machine.hosts[0].replayed >= 8


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("left_turned", [False, True])
@pytest.mark.parametrize("right_turned", [False, True])
def test_products_are_noted_with_what_is_around_them(
    left_turned: bool, right_turned: bool, dtype: Any, machine: Machine, library: Cublas
) -> None:
    """In a graph, in the order of its stream, in the workspace of the plan."""
    driver = CupyDriver(0)
    m, n, k, size = 3, 5, 4, np.dtype(dtype).itemsize
    left, right = numbers(m, k, dtype=dtype), numbers(k, n, dtype=dtype)
    room = driver.allocate(1 << 16)
    places = [room + 4096 * number for number in range(4)]
    source, target = driver.pinned(m * k * size), driver.pinned(m * n * size)
    stream, table = driver.stream(), driver.pinned(k * n * size)
    table[:] = np.ascontiguousarray(right.T if right_turned else right).reshape(-1).view(np.uint8)
    driver.copy_in(places[1], table, stream)
    driver.begin_capture(stream)
    driver.copy_in(places[0], source, stream)
    workspace = places[3], 4096
    driver.product(
        Product(
            np.dtype(dtype).name, m, n, k, places[0], left_turned, places[1], right_turned,
            places[2], workspace,
        ),
        stream,
    )  # fmt: skip
    driver.copy_out(target, places[2], stream)
    graph = driver.end_capture(stream)
    for scale in (1, 2, 3):
        given = np.ascontiguousarray((scale * left).T if left_turned else scale * left)
        source[:] = given.reshape(-1).view(np.uint8)
        driver.launch_graph(graph, stream)
        driver.synchronize(stream)
        found = target.view(dtype).reshape(m, n)
        np.testing.assert_allclose(found, scale * left @ right, rtol=1e-5)
    assert library.given == [4096]
    driver.close()
    assert library.handles == 0
    assert machine.hosts[0].limits().free == machine.hosts[0].memory


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("turned", [False, True])
def test_a_matrix_times_itself_computes_one_half(
    turned: bool, dtype: Any, machine: Machine, library: Cublas, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest is copied, so the result is symmetric. Else it is what two matrices give."""
    monkeypatch.setattr(dense, "half_is_less", lambda side, inner: side > 33)
    with MatCache(backend=Cuda(devices.open_driver(0))) as cache:
        for side in (33, 34, 70):
            given = numbers(side, 5, dtype=dtype)
            x, same = (from_array(cache, given.T if turned else given) for _ in range(2))
            found, whole = ((x.T @ y if turned else x @ y.T).numpy() for y in (x, same))
            np.testing.assert_array_equal(found, found.T)
            np.testing.assert_allclose(found, whole, rtol=1e-5, atol=1e-5)


def test_half_of_a_product_is_computed_where_that_is_less_work() -> None:
    """Not of one square of the library, nor of so few sums that the launch takes longer."""
    assert not dense.half_is_less(128, 10**9)
    assert not dense.half_is_less(256, 1000)
    assert dense.half_is_less(256, 50_000)
    assert not dense.half_is_less(0, 5)


def test_the_workspace_stays_set_from_product_to_product(cache: MatCache, library: Cublas) -> None:
    A, B = from_array(cache, numbers(6, 6)), from_array(cache, numbers(6, 2))
    for _ in range(3):
        B <<= A @ B
    cache.backend.drain()
    assert len(library.given) == 3
    assert set(library.given) == {32 << 20}


def test_streams_with_workspaces_of_their_own_take_turns(machine: Machine, library: Cublas) -> None:
    driver = CupyDriver(0)
    room, streams = driver.allocate(1 << 14), [driver.stream(), driver.stream()]
    for turn in (0, 1, 1, 0):
        driver.clear(room, 4096, streams[turn])
        workspace = room + 4096, 512 << turn
        given = Product("float32", 4, 4, 4, room, False, room, False, room + 64, workspace)
        driver.product(given, streams[turn])
        driver.synchronize(streams[turn])
    assert library.given == [512, 1024, 1024, 512]
    driver.close()


@pytest.mark.parametrize("m, k, n", [(3, 0, 2), (3, 2, 0), (0, 3, 2)])
def test_products_with_an_empty_side(cache: MatCache, m: int, k: int, n: int) -> None:
    A, B = np.ones((m, k), np.float32), np.ones((k, n), np.float32)
    for turned in (False, True):
        left = from_array(cache, A.T).T if turned else from_array(cache, A)
        found = (left @ from_array(cache, B)).numpy()
        np.testing.assert_array_equal(found, np.zeros((m, n)))


def test_what_cublas_refuses_is_an_error(machine: Machine, library: Cublas) -> None:
    """After which products go where they should, as before."""
    driver = CupyDriver(0)
    room, stream = driver.allocate(4096), driver.stream()
    right = Product("float32", 1, 1, 1, room, False, room, False, room + 4, (room + 256, 1024))
    driver.product(right, stream)
    with pytest.raises(RuntimeError, match="cublasSetWorkspace_v2: cuBLAS says 7"):
        driver.product(right._replace(workspace=(room + 8, 256)), driver.stream())
    driver.product(right, stream)
    driver.synchronize(stream)
    assert library.given == [1024, 1024]
    driver.close()


@pytest.mark.parametrize("replicas", [2, 3])
def test_replicas_are_merged_to_the_bits_of_the_host(
    replicas: int, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "nccl", lambda: None)
    weights = [0.7, 0.25, 1.0]
    host = merged([MatCache(threads=1, reserving=True) for _ in range(replicas)], weights)
    opened = [devices.open_driver(number % 2) for number in range(replicas)]
    found = merged([MatCache(backend=Cuda(driver), reserving=True) for driver in opened], weights)
    assert found == host
    assert machine.reached == {(0, 1), (1, 0)}


@pytest.mark.parametrize("already", [False, True])
def test_devices_copy_from_each_other(already: bool, machine: Machine) -> None:
    """Directly or not, and whether or not another library has seen to it."""
    machine.apart = {(1, 0)}
    machine.reached = {(0, 1)} if already else set()
    drivers = [CupyDriver(number) for number in range(2)]
    here, there = (driver.allocate(64) for driver in drivers)
    stream, back, host = drivers[0].stream(), drivers[1].stream(), drivers[0].pinned(64)
    for value in (3, 4):
        host[:] = value
        drivers[0].copy_in(here, host, stream)
        drivers[0].synchronize(stream)
        drivers[1].copy_from(there, drivers[0], here, 64, back)
        drivers[1].synchronize(back)
        drivers[0].clear(here, 64, stream)
        drivers[0].copy_from(here, drivers[1], there, 64, stream)
        drivers[0].copy_out(host, here, stream)
        drivers[0].synchronize(stream)
        assert (host == value).all()
    assert machine.peers == 4
    assert machine.reached == {(0, 1)}
    for driver in drivers:
        driver.close()


@pytest.mark.parametrize("failures", [1, 5])
def test_updates_go_on_where_they_cannot_be_captured(
    failures: int,
    machine: Machine,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    host = machine.hosts[0]
    capture, left = host.end_capture, [failures]

    def spoilt(stream: Any) -> Any:
        graph = capture(stream)
        left[0] -= 1
        if left[0] >= 0:
            raise cupy_standin.real.cuda.runtime.CUDARuntimeError(901)
        return graph

    monkeypatch.setattr(host, "end_capture", spoilt)
    with MatCache(backend=Cuda(devices.open_driver(0))) as cache:
        blocks = Blocks(cache)
        for number in range(16):
            blocks.run(number)
        np.testing.assert_allclose(blocks.sums.numpy(), blocks.expected, rtol=1e-4)
        assert (cache.backend.launcher.replays > 0) == (failures == 1)
    assert ("cudaErrorStreamCaptureInvalidated" in caplog.text) == (failures == 5)
    assert left[0] == (-2 if failures == 1 else 2)  # two sides were captured; it was tried thrice


def test_pinned_memory_is_known_as_long_as_it_is_seen(machine: Machine) -> None:
    driver = CupyDriver(0)
    whole = driver.pinned(1000)
    part, size = whole[10:990], driver.pinned(0).size
    assert size == 0
    whole[:] = 7
    address = whole.ctypes.data
    del whole
    gc.collect()
    assert driver.is_pinned(part)
    assert part.sum() == 7 * part.size
    outside = bytes_at(address + 990, 100)  # the last 90 bytes are not of it
    assert not driver.is_pinned(outside)
    del part
    gc.collect()
    assert not driver.is_pinned(bytes_at(address, 1000))
    driver.close()


def test_only_a_lack_of_memory_is_one(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = CupyDriver(0)
    with pytest.raises(MemoryError, match="out of memory"):
        driver.allocate(1 << 40)

    def broken(size: int) -> int:
        raise cupy_standin.real.cuda.runtime.CUDARuntimeError(700)

    monkeypatch.setattr(machine, "malloc", broken)
    with pytest.raises(RuntimeError, match="cudaErrorIllegalAddress"):
        driver.allocate(8)
    driver.close()


@pytest.mark.parametrize("used", [False, True])
def test_a_device_that_a_thread_does_not_use_is_not_touched(used: bool, machine: Machine) -> None:
    at: list[int] = []

    def work() -> None:
        if used:
            machine.host.limits()
        driver = CupyDriver(1)
        driver.synchronize(driver.stream())
        driver.close()
        at.append(machine.device)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert at == [0 if used else 1]
    assert machine.contexts == ({0, 1} if used else {1})


def test_a_library_that_is_missing_is_named(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise ImportError(
            'Failure finding "libcublas.so.12"\n  listdir("/usr/lib"):\n    libc.so.6'
        )

    monkeypatch.setattr(cublas, "library", missing)
    with pytest.raises(DeviceError, match=r'"libcublas\.so\.12"\. CUDA needs .*\[ctk\]\)\.$'):
        devices.open_driver(0)


def test_a_compiler_that_does_not_work_is_named(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: object) -> None:
        raise RuntimeError("Failed to find CUDA headers. Set CUDA_PATH.")

    monkeypatch.setattr(CupyDriver, "function", missing)
    with pytest.raises(DeviceError, match=r"kernels: Failed .*CUDA_PATH\. CUDA.*\[ctk\]"):
        devices.open_driver(0)


def test_a_device_that_cannot_be_opened_is_named(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full() -> None:
        raise RuntimeError("cublasCreate_v2: cuBLAS says 3")

    monkeypatch.setattr(cupy_driver, "Blas", full)
    with pytest.raises(DeviceError, match="cuda:0 could not be opened: cublasCreate_v2: .* says 3"):
        devices.open_driver(0)
