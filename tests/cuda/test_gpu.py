"""The matrix layer on a real device; runs with `pytest -m gpu`. Needs CuPy, and no pydantic.

The tests of `test_cuda_device.py`, with memory that is full of NaN when it is allocated.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from blocklearn.matcache import MatCache, colsum, from_array, from_sparse, named, total
from blocklearn.matcache.cuda import Cuda, devices
from tests.cuda.test_cuda_device import (  # noqa: F401 (they are run with the fixture of this module)
    Blocks,
    numbers,
    test_dense_operations_match_numpy,
    test_dense_products_are_computed_in_order,
    test_numbers_of_another_type_are_read_as_they_are,
    test_numbers_that_are_not_finite_are_found,
    test_positions_out_of_range_are_found,
    test_reads_in_the_middle_of_an_update_see_what_came_before,
    test_rows_are_sorted_with_nan_last,
    test_sparse_products_match_scipy,
)
from tests.matcache.test_algebra import (  # noqa: F401
    test_empty_sides,
    test_matrices_without_full_rank_have_one_too,
    test_numbers_of_other_types_are_computed_in_float64,
    test_of_square_matrices,
    test_tall_matrices_have_an_orthonormal_factor,
    test_triangles_are_factors_and_systems,
    test_what_has_no_solution_is_nan,
)

pytestmark = pytest.mark.gpu
PROGRAMS = [
    "lda",
    "conjugate_gradients",
    "implicit",
    "softmax_scores",
    "weighted",
    "until_settled",
    "by_turns",
]


def poisoned_backend(*, graphs: bool = True) -> Cuda:
    """Of the first device."""
    driver = devices.open_driver(0)
    take = driver.allocate

    def allocate(nbytes: int) -> int:
        address = take(nbytes)
        stream, dirt = driver.stream(), driver.pinned(min(nbytes, 1 << 24))
        dirt[:] = 0xFF
        for start in range(0, nbytes, len(dirt)):
            driver.copy_in(address + start, dirt[: nbytes - start], stream)
        driver.synchronize(stream)
        return address

    driver.allocate = allocate  # type: ignore[method-assign]
    return Cuda(driver, graphs=graphs)


@pytest.fixture
def cache() -> Iterator[MatCache]:
    with MatCache(backend=poisoned_backend()) as found:
        yield found


@pytest.fixture
def memory(cache: MatCache) -> MatCache:
    """Of the tests of factorizations."""
    return cache


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [1, 5, 32, 100, 256, 1000, 1500])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_match_their_definition(cache: MatCache, name: str, k: int, dtype: Any) -> None:
    pytest.importorskip("pydantic")  # which the texts of models need
    from tests.cuda.test_cuda_text import Case

    if name == "conjugate_gradients" and dtype == np.float32 and k > 5:
        pytest.skip("in float32 its steps go other ways")
    case = Case(name, k=k, rows=60, columns=70)
    mats = case.mats(cache, dtype)
    found = case.function(*mats)
    found = found if isinstance(found, tuple) else (found,)
    copies = [a.copy() if hasattr(a, "copy") else a for a in case.args]
    expected = case.function.reference(*copies)
    expected = expected if isinstance(expected, tuple) else (expected,)
    rtol = 1e-3 if dtype == np.float32 else 1e-9
    for got, wanted in zip(found, expected, strict=True):
        if got is not None:
            wanted = getattr(wanted, "data", wanted) if hasattr(wanted, "indptr") else wanted
            scale = max(1.0, np.abs(wanted).max())
            np.testing.assert_allclose(got.numpy(), wanted, rtol=rtol, atol=rtol * scale)


@pytest.mark.parametrize("graphs", [True, False])
def test_blocks_are_computed_in_order(graphs: bool) -> None:
    with MatCache(backend=poisoned_backend(graphs=graphs)) as cache:
        blocks = Blocks(cache)
        for number in range(50):
            blocks.run(number)
        np.testing.assert_allclose(blocks.sums.numpy(), blocks.expected, rtol=1e-4)
        assert (cache.backend.launcher.replays > 0) == graphs


def test_sums_have_the_same_bits_every_time(cache: MatCache) -> None:
    A = from_array(cache, numbers(5000, 77))
    x = sp.random(300, 200, 0.2, format="csr", random_state=0, dtype=np.float32)
    X = from_sparse(cache, x)
    T = from_array(cache, numbers(300, 33))
    results = set()
    for _ in range(5):
        for mat in (A, T):
            mat.set(mat.numpy())
        results.add(
            colsum(A).numpy().tobytes() + total(A).numpy().tobytes() + (X.T @ T).numpy().tobytes()
        )
    assert len(results) == 1


def test_nothing_is_allocated_beside_the_slab() -> None:
    cupy = pytest.importorskip("cupy")

    class Hook(cupy.cuda.MemoryHook):  # type: ignore[misc, name-defined]
        name, calls = "watch", 0

        def malloc_preprocess(self, **kwargs: Any) -> None:
            Hook.calls += 1

    with MatCache(backend=poisoned_backend(), reserving=True) as cache:
        A, B = named(cache, "A", (100, 64)), named(cache, "B", (64, 64))

        def work() -> None:
            nonlocal A
            A <<= (A @ B) + colsum(A)

        work()
        cache.commit()
        cache.freeze()
        work()

        def blocks() -> int:
            for _ in range(20):
                cache.backend.begin_block()
                work()
                cache.backend.end_block()
            cache.backend.drain()
            return cache.backend.driver.limits().free

        free = blocks()  # with what CUDA takes for the graphs
        with Hook():
            assert blocks() == free
        assert Hook.calls == 0
        assert cache.stats().allocations == 1
