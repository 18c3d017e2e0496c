"""Programs of dense expressions: what shares one, and the order of what it reads."""

from __future__ import annotations

import gc
import re
import weakref
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from blocklearn.matcache import MatCache, exp, from_array, from_sparse, random, rowsum, total
from blocklearn.matcache.emit.cuda_elements import elements_source
from blocklearn.matcache.emit.numba_rows import rowwise_source
from blocklearn.matcache.operations.dense import compiled
from blocklearn.matcache.operations.rowwise import Rowwise
from blocklearn.matcache.program.instructions import Ending


def matrix(cache: MatCache, rows: int, columns: int) -> Any:
    return from_array(cache, np.arange(1.0, rows * columns + 1).reshape(rows, columns))


def test_one_program_serves_all_shapes_containers_and_numbers() -> None:
    with MatCache(threads=1) as cache:
        for rows, columns in ((3, 4), (5, 2)):
            a, row = matrix(cache, rows, columns), matrix(cache, 1, columns)
            for number in (2.0, 0.5):
                expected = a.numpy() * number + row.numpy()
                np.testing.assert_array_equal((a * number + row).numpy(), expected)
        assert len(cache.programs) == 1


@pytest.mark.parametrize("sparse", [False, True])
def test_common_parts_of_an_expression_are_computed_once(sparse: bool) -> None:
    with MatCache(threads=1) as cache:
        x = sp.random(20, 30, 0.2, format="csr", random_state=0)
        X = from_sparse(cache, x) if sparse else from_array(cache, x.toarray())
        size = x.nnz if sparse else 600
        before = cache.flops
        got = (exp(X * 0.5) + exp(X * 0.5)).numpy()  # two trees of the same structure
        assert cache.flops - before == 5 * size  # a number is an argument: any may differ
        y = X * 2.0
        before = cache.flops
        again = (exp(y + y) + exp(y + y)).numpy()
        assert cache.flops - before == 4 * size
        values = x.data if sparse else x.toarray()
        np.testing.assert_allclose(got, 2 * np.exp(values * 0.5), rtol=1e-14)
        np.testing.assert_allclose(again, 2 * np.exp(4 * values), rtol=1e-14)


def program(cache: MatCache, root: Any, ending: Ending = "assign") -> Any:
    return compiled(cache, (root,), root.shape, (ending,), "float64")[0].plan


@pytest.mark.parametrize("ending", ["assign", "total", "colsum"])
def test_inputs_are_read_in_the_order_of_the_arguments(ending: Ending) -> None:
    """Not in the order of the steps: compilers sort the terms of a sum by it."""
    with MatCache(threads=1) as cache:
        a, b, row, column = (matrix(cache, *s) for s in ((3, 4), (3, 4), (1, 4), (3, 1)))
        key = from_array(cache, np.array([[1, 2, 3]]))
        root = a * (random(cache, (3, 4), key) * (column * (row * b)))
        plan = program(cache, root, ending)
        assert [s.op for s in plan.program.body] == ["mul"] * 4
        for text in (rowwise_source(plan), elements_source(plan)):
            text = text[text.index("run(") :]
            loads = re.findall(r"\be(\d) = (?:F\()*(?:bl_|m\.|get|in|a)", text)
            assert loads == ["0", "1", "2", "3", "4"]


def test_one_loop_runs_over_elements_that_need_no_rows_and_columns() -> None:
    with MatCache(threads=1) as cache:
        a, row, column, one = (matrix(cache, *s) for s in ((3, 4), (1, 4), (3, 1), (1, 1)))
        key = from_array(cache, np.array([[1, 2, 3]]))
        flat = a * a + one * 2.0
        assert program(cache, flat).flat
        assert program(cache, flat, "total").flat
        assert not program(cache, flat, "colsum").flat
        for other in (row, column, random(cache, (3, 4), key)):
            assert not program(cache, a * other).flat


def test_work_counts_every_element_of_a_sum() -> None:
    with MatCache(threads=1) as cache:
        a = matrix(cache, 6, 7)
        before = cache.flops
        assert float(total(exp(a * 0.0))) == 42.0
        assert cache.flops - before == 3 * 42


@pytest.mark.parametrize("sparse", [False, True])
def test_a_computed_expression_leaves_no_garbage(sparse: bool) -> None:
    """Garbage holds matrices, and a collection of it takes as long as a small fit."""
    with MatCache(threads=1) as cache:
        given = from_sparse(cache, sp.eye(3, format="csr")) if sparse else matrix(cache, 3, 4)
        leaf = type("Leaf", (type(given),), {})  # of which it is known whether anything holds it
        X = leaf(cache, given.slot, given.pattern)
        freed = weakref.ref(X)
        gc.disable()  # a cycle would wait for the collector
        try:
            (X * 2.0 + X).mat()
            del X
            assert freed() is None
        finally:
            gc.enable()


def test_caches_share_what_is_traced_of_expressions(monkeypatch: pytest.MonkeyPatch) -> None:
    def compute() -> Any:
        with MatCache(threads=1) as cache:
            return rowsum(exp(matrix(cache, 3, 4) * 0.25)).numpy()

    expected = compute()
    monkeypatch.delattr(Rowwise, "_trace")
    np.testing.assert_array_equal(compute(), expected)
