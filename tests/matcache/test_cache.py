"""The cache: keys, hits, versions, stale handles, frozen caches, the memory plan, its life."""

from __future__ import annotations

import gc
import inspect
import itertools
import logging
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from blocklearn.matcache import (
    AllocationAfterWarmupError,
    MatCache,
    MemoryPlanError,
    ReadDuringPlanError,
    ShapeError,
    SparseInput,
    StaleValueError,
    colsum,
    copy,
    exp,
    from_array,
    from_sparse,
    named,
    random,
    rowmax,
    rowsum,
    rowwise,
    scalar,
    sddmm,
    sort,
    total,
)
from blocklearn.matcache.containers.lazy import Lazy
from blocklearn.matcache.containers.slots import ALIGNMENT
from tests.support.own_threads import Started

A = np.arange(12, dtype=np.float32).reshape(4, 3) + 1
X = sp.random_array((4, 3), density=0.6, rng=3, format="csr", dtype=np.float32)


@pytest.fixture
def memory() -> Iterator[MatCache]:
    with MatCache(threads=2) as cache:
        yield cache


def line() -> int:
    """The caller's line."""
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def here(number: int) -> str:
    return f"test_cache.py:{number}"


@rowwise
def scaled(x: Any, factor: Any) -> Any:
    return x * factor


# ---------------------------------------------------------------- keys and hits


def test_the_same_expression_has_the_same_container(memory: MatCache) -> None:
    a, b = from_array(memory, A), from_array(memory, A)
    first = (a * 2 + b).mat()
    again = (a * 2 + b).mat()
    assert again.guid == first.guid
    assert a.guid != b.guid
    for other in (a * 3 + b, b * 2 + a, a * 2 - b, a * 2 + a, 2 * a + b):
        assert other.mat().guid != first.guid


@pytest.mark.parametrize(
    "make",
    [
        lambda a, x: (exp(a),),
        lambda a, x: (a.T @ a,),
        lambda a, x: (total(a),),
        lambda a, x: (colsum(a + 1),),
        lambda a, x: (rowsum(a),),
        lambda a, x: (a[[1, 2]],),
        lambda a, x: (sort(a),),
        lambda a, x: (x * 2,),
        lambda a, x: (x.T @ a,),
        lambda a, x: (sddmm(a, a.T @ a, x),),
        lambda a, x: (scaled(a, 2.0),),
    ],
)
def test_a_hit_is_not_computed_again(memory: MatCache, make: Any) -> None:
    a, x = from_array(memory, A), from_sparse(memory, X)
    (first,) = make(a, x)
    value, guid = np.asarray(first), first.mat().guid
    before = memory.stats()
    (again,) = make(a, x)
    np.testing.assert_array_equal(np.asarray(again), value)
    after = memory.stats()
    assert again.mat().guid == guid
    assert after.hits > before.hits
    assert after.recomputations == before.recomputations
    assert (after.allocations, after.flops) == (before.allocations, before.flops)
    a <<= a + 1  # an operand changes: computed anew into the same container
    x.set(X.data * 2)
    (changed,) = make(a, x)
    assert changed.mat().guid == guid
    assert not np.array_equal(np.asarray(changed), value)
    assert memory.stats().recomputations > before.recomputations


def test_a_write_by_hand_ends_the_hit(memory: MatCache) -> None:
    a = from_array(memory, A)
    y = (a + 1).mat()
    y <<= 0
    np.testing.assert_array_equal((a + 1).numpy(), A + 1)
    z = total(a * 2)
    z.set(5)
    assert float(total(a * 2)) == 2 * A.sum()


def test_numbers_that_look_alike_have_keys_of_their_own(memory: MatCache) -> None:
    a = from_array(memory, np.float32([[1, 2]]))
    np.testing.assert_array_equal((a / 0.0).numpy(), np.full((1, 2), np.inf))
    np.testing.assert_array_equal(abs(1 / (a * -0.0)).numpy(), abs(1 / (a * 0.0)).numpy())
    entries = memory.stats().entries
    for _ in range(3):  # NaN is not equal to itself, and is a key all the same
        assert np.isnan((a * float("nan")).numpy()).all()
    assert memory.stats().entries == entries + 1


def test_a_number_is_not_taken_for_a_guid(memory: MatCache) -> None:
    a, b = from_array(memory, A), from_array(memory, np.float32([[10.0]]))
    np.testing.assert_array_equal(scaled(a, b.guid).numpy(), A * b.guid)
    np.testing.assert_array_equal(scaled(a, b).numpy(), A * 10)
    np.testing.assert_array_equal(scaled(a, float(a.guid)).numpy(), A * a.guid)


def test_booleans_are_not_taken_for_numbers(memory: MatCache) -> None:
    @rowwise
    def choose(x: Any, flag: Any) -> Any:
        return x + 1 if flag is True else x * 10 * flag

    a = from_array(memory, A)
    np.testing.assert_array_equal(choose(a, True).numpy(), A + 1)
    np.testing.assert_array_equal(choose(a, 1).numpy(), A * 10)


def test_functions_that_are_gone_leave_no_hits_behind(memory: MatCache) -> None:
    a = from_array(memory, A)
    for n in range(6):  # a new function often gets the address of one that was collected
        got = rowwise(lambda x, n=n: x + n)(a).numpy()
        np.testing.assert_array_equal(got, A + n)
        gc.collect()


def test_random_numbers_of_different_shapes(memory: MatCache) -> None:
    key = from_array(memory, np.array([[1, 2, 3]]))
    assert float(total(random(memory, (50, 2), key))) != float(total(random(memory, (3, 2), key)))
    assert (random(memory, (5, 2), key) + 0).shape == (5, 2)
    assert (random(memory, (3, 2), key) + 0).numpy().shape == (3, 2)


def test_common_sub_expressions_are_computed_once(memory: MatCache) -> None:
    a = from_array(memory, A)
    sums = colsum(a)
    flops = memory.stats().flops
    np.testing.assert_array_equal(
        (a / colsum(a) + a * colsum(a)).numpy(), A / A.sum(0) + A * A.sum(0)
    )
    assert memory.stats().flops == flops + 3 * A.size
    assert colsum(a).guid == sums.guid


# ---------------------------------------------------------------- versions


def test_rs_old_is_stale_and_not_the_new_value(memory: MatCache) -> None:
    """BIDMat aliased here: rs_old = dot(r, r) silently became the new value."""
    r = from_array(memory, A)
    rs_old, computed = total(r * r), line()
    r <<= r * 0.5
    rs_new, overwritten = total(r * r), line()
    with pytest.raises(StaleValueError) as error:
        read = line() + 1
        float(rs_new / rs_old)
    message = str(error.value)
    assert f"computed at {here_path(computed)}" in message
    assert f"overwritten at {here_path(overwritten)}" in message
    assert f"read at {here_path(read)}" in message
    assert float(rs_new) == (A * A).sum() / 4


def here_path(number: int) -> str:
    return f"{__file__}:{number}"


def test_copies_and_assignments_keep_the_old_value(memory: MatCache) -> None:
    r, kept = from_array(memory, A), scalar(memory, 0.0)
    kept <<= total(r * r)
    r <<= r * 0.5
    assert float(total(r * r) / kept) == 0.25


def test_lazy_expressions_do_not_see_later_writes(memory: MatCache) -> None:
    a, b = from_array(memory, A), from_array(memory, A)
    makers: list[Any] = [
        lambda: a + 1,
        lambda: exp(a + 1) * b,
        lambda: a.T @ b,
        lambda: a[[0]],
        lambda: sort(a),
        lambda: a.T + 0,
    ]
    for make in makers:
        expression = make()
        make().mat()  # computed once already: a hit must not hide it either
        a <<= a + 1
        with pytest.raises(StaleValueError, match="overwritten"):
            expression.mat()
        target = named(memory, f"target {expression.shape}", expression.shape)
        with pytest.raises(StaleValueError, match="overwritten"):
            target <<= expression
        expression = make()
        a <<= a + 1
        make().mat()  # computed from the new contents: not what `expression` says
        with pytest.raises(StaleValueError, match="overwritten"):
            expression.mat()


def test_two_handles_on_one_container(memory: MatCache) -> None:
    one, other = named(memory, "x", (4, 3)), named(memory, "x", (4, 3))
    one <<= 1
    with pytest.raises(StaleValueError):
        other.numpy()
    other <<= one + 1
    np.testing.assert_array_equal(other.numpy(), np.full((4, 3), 2.0))
    with pytest.raises(StaleValueError):
        (one + 1).mat()
    with pytest.raises(ShapeError, match=r"made as \(4, 3\) float32.*now asked for as \(3, 4\)"):
        named(memory, "x", (3, 4))


def test_values_on_a_block_that_was_replaced_are_stale(memory: MatCache) -> None:
    block = SparseInput(memory, "X", 4, 3, X.nnz)
    with pytest.raises(ShapeError, match="no block is bound"):
        (block.handle() * 2).mat()
    first = bind(block, X)
    doubled = first * 2
    values = (first * 3).mat()
    second = bind(block, X)
    for stale in (first, doubled, values):
        with pytest.raises(StaleValueError):
            stale.numpy()
    np.testing.assert_array_equal((second * 2).numpy(), X.data * 2)


def bind(block: SparseInput, matrix: Any) -> Any:
    return block.bind(
        indptr=matrix.indptr.astype(np.int64),
        indices=matrix.indices.astype(np.int32),
        values=matrix.data.astype(np.float32),
    )


def test_arrays_that_no_kernel_was_compiled_for_are_refused(memory: MatCache) -> None:
    block = SparseInput(memory, "X", 4, 3, X.nnz)
    parts = {
        "indptr": X.indptr.astype(np.int64),
        "indices": X.indices.astype(np.int32),
        "values": X.data,
    }
    for name, wrong, message in [
        ("indptr", X.indptr.astype(np.int32), "offsets must be int64"),
        ("indptr", np.zeros(9, np.int64), "8 rows"),
        ("indices", X.indices.astype(np.int64), "column indices must be int32"),
        ("values", X.data.astype(np.float64), "values must be float32"),
        ("values", X.data[:-1], "offsets end at"),
        ("values", np.repeat(X.data, 2)[::2], "C-contiguous"),
    ]:
        with pytest.raises(ShapeError, match=message):
            block.bind(**{**parts, name: wrong})


# ---------------------------------------------------------------- frozen caches


def test_a_changing_number_in_a_frozen_cache_is_named(memory: MatCache) -> None:
    a = from_array(memory, A, "weights")
    (a * 2.0).mat()
    memory.freeze()
    (a * 2.0).mat()
    with pytest.raises(AllocationAfterWarmupError) as error:
        (a * 3.0).mat()
    message = str(error.value)
    assert here_path(line() - 2) in message
    assert "mul(weights, 3)" in message
    assert "Operand 2 was 2.0 during warm-up and is 3.0 now" in message
    assert "belongs in a Scalar" in message
    memory.thaw()
    other = from_array(memory, A, "others")
    memory.freeze()
    with pytest.raises(AllocationAfterWarmupError, match="Operand 1 was the container 'weights'"):
        (other * 2.0).mat()
    with pytest.raises(AllocationAfterWarmupError, match="not part of the warm-up"):
        exp(a).mat()


def test_a_changing_number_of_a_row_wise_function_is_named(memory: MatCache) -> None:
    a = from_array(memory, A, "weights")
    scaled(a, 2)
    memory.freeze()
    scaled(a, 2)
    with pytest.raises(
        AllocationAfterWarmupError, match=r"scaled\(\).*Operand 2 was 2.0 .* is 5.0"
    ):
        scaled(a, 5)


def test_a_scalar_may_change_in_a_frozen_cache(memory: MatCache) -> None:
    a, s = from_array(memory, A), scalar(memory, 2.0)
    (a * s).mat()
    memory.freeze()
    for value in (3.0, 4.0):
        s.set(value)
        np.testing.assert_array_equal((a * s).numpy(), A * value)
    assert memory.stats().allocations_after_warmup == 0


def test_freezing_with_warn_logs_and_allocates(memory: MatCache, caplog: Any) -> None:
    a = from_array(memory, A, "weights")
    (a * 2.0).mat()
    memory.freeze("warn")
    with caplog.at_level(logging.WARNING, "blocklearn.matcache"):
        np.testing.assert_array_equal((a * 3.0).numpy(), A * 3)
    assert "mul(weights, 3)" in caplog.text
    assert "Operand 2 was 2.0" in caplog.text
    assert memory.stats().allocations_after_warmup == 1
    memory.thaw()
    (a * 4.0).mat()
    assert memory.stats().allocations_after_warmup == 1


# ---------------------------------------------------------------- growth


def program(x: Any, table: Any) -> Any:
    """A chain of results on the pattern of x and off it."""
    return (x / (sddmm(x @ table, table, x) + 1)) @ table


def test_growth_keeps_guids_and_everything_downstream_hits(memory: MatCache) -> None:
    small = sp.csr_array(np.eye(4, 3, dtype=np.float32))
    block = SparseInput(memory, "X", 4, 3, small.nnz)
    table = from_array(memory, A[:3])
    x = bind(block, small)
    guids = [x.guid, (x * 2).mat().guid, program(x, table).mat().guid]
    before = memory.stats()
    x = bind(block, X)
    assert block.pattern.capacity == max(X.nnz, int(small.nnz * 1.2))
    assert [x.guid, (x * 2).mat().guid, program(x, table).mat().guid] == guids
    after = memory.stats()
    assert after.entries == before.entries
    assert after.bytes > before.bytes
    np.testing.assert_array_equal((x * 2).numpy(), X.data * 2)
    with MatCache(threads=1) as fresh:
        wanted = program(from_sparse(fresh, X), from_array(fresh, A[:3])).numpy()
    np.testing.assert_array_equal(program(x, table).numpy(), wanted)
    grown = memory.stats()
    for smaller in (small, X):  # neither a smaller block nor the largest one needs anything new
        program(bind(block, smaller), table).mat()
    assert (memory.stats().bytes, memory.stats().allocations) == (grown.bytes, grown.allocations)


def test_growth_is_by_a_fifth_at_least(memory: MatCache) -> None:
    block = SparseInput(memory, "X", 1, 200, 100)
    (bind(block, sp.csr_array(np.ones((1, 100), np.float32))) * 2).mat()
    bind(block, sp.csr_array(np.ones((1, 101), np.float32)))
    assert block.pattern.capacity == 120


def test_growth_in_a_frozen_cache(memory: MatCache, caplog: Any) -> None:
    block = SparseInput(memory, "X", 1, 200, 100)
    (bind(block, sp.csr_array(np.ones((1, 100), np.float32))) * 2).mat()
    memory.freeze()
    larger = sp.csr_array(np.ones((1, 150), np.float32))
    with pytest.raises(AllocationAfterWarmupError, match="150 non-zeros .* 100 were reserved"):
        bind(block, larger)
    memory.freeze("warn")
    with caplog.at_level(logging.WARNING, "blocklearn.matcache"):
        np.testing.assert_array_equal((bind(block, larger) * 2).numpy(), np.full(150, 2.0))
    assert "150 non-zeros" in caplog.text
    assert memory.stats().allocations_after_warmup == 1


def test_growth_empties_what_was_there(memory: MatCache) -> None:
    x = from_sparse(memory, X)
    y = (x * 2).mat()
    memory.grow(x.pattern, 100)
    for handle in (x, y):
        with pytest.raises(StaleValueError):
            handle.numpy()


# ---------------------------------------------------------------- without a cache


def test_without_a_cache_everything_is_the_same() -> None:
    def work(enabled: bool) -> list[Any]:
        found: list[Any] = []
        with MatCache(threads=2, enabled=enabled) as memory:
            x, a = from_sparse(memory, X), from_array(memory, A, "a")
            s, target = scalar(memory, 0.5), named(memory, "target", (4, 3))
            memory.freeze() if not enabled else None  # has no effect
            for _ in range(3):
                table = x.T @ a
                target <<= (x @ table) * s + rowmax(a) - colsum(a * 2)
                s.set(float(s) / 2)
                a <<= a + scaled(target, 0.1)
                found += [a.numpy(), target.numpy(), (x * a[0]).numpy(), float(total(target * s))]
                found += [float(total(target * s))]
            assert named(memory, "target", (4, 3)).guid == target.guid
            assert (memory.stats().hits > 0) == enabled
        return found

    for one, other in zip(work(True), work(False), strict=True):
        np.testing.assert_array_equal(one, other)


def test_without_a_cache_results_are_not_kept() -> None:
    with MatCache(threads=1, enabled=False) as memory:
        a, x = from_array(memory, A), from_sparse(memory, X)
        first = exp(a).mat()
        a <<= a + 1
        second = exp(a).mat()
        assert first.guid != second.guid
        np.testing.assert_allclose(first.numpy(), np.exp(A), rtol=1e-6)  # fresh memory: not stale
        held = memory.stats().bytes
        for n in range(5):
            (x * n).mat()
        assert memory.stats().bytes == held
        assert not x.pattern.dependents
        assert memory.stats().allocations > 5
    with pytest.raises(ValueError, match="must be True beside reserving=True"):
        MatCache(enabled=False, reserving=True)


# ---------------------------------------------------------------- the memory plan


def planned_program(memory: MatCache, x: Any) -> list[Any]:
    a = named(memory, "a", (4, 3))
    b = named(memory, "b", (3, 3))
    a <<= exp(a) + 1
    b <<= x.T @ a + total(a) * a[[0, 1, 2]]
    ratio = x / (sddmm(a, b, x) + 1)
    rows = ratio @ sort(b)
    return [a, b, rows, rowsum(rows * rows), colsum(a), (a @ b).mat(), ratio, scaled(a, 3.0)]


def test_reserve_then_commit_places_everything_in_one_slab() -> None:
    with MatCache(threads=2, reserving=True) as memory:
        block = SparseInput(memory, "X", 4, 3, X.nnz)
        planned_program(memory, block.handle())
        with pytest.raises(RuntimeError, match="commit"):
            memory.freeze()
        assert memory.stats().bytes == 0
        plan = memory.plan()
        assert [row.nbytes for row in plan] == sorted((r.nbytes for r in plan), reverse=True)
        assert {"a", "b"} <= {row.label for row in plan}
        assert any(__file__ in row.where for row in plan)
        memory.commit()
        memory.freeze()
        stats = memory.stats()
        assert stats.allocations == 1
        slots = list(memory._entries.values())
        starts = sorted((s.array.ctypes.data, s.nbytes) for s in slots if s.array is not None)
        assert len(starts) == stats.entries
        assert all(start % ALIGNMENT == 0 for start, _ in starts)
        assert all(
            start + size <= following
            for (start, size), (following, _) in itertools.pairwise(starts)
        )
        assert starts[-1][0] + starts[-1][1] - starts[0][0] <= stats.bytes
        assert all(s.array is not None and s.array.flags.c_contiguous for s in slots)
        x = bind_with_transpose(block)
        got = [np.asarray(m) for m in planned_program(memory, x)]
        assert memory.stats().allocations == 1
    with MatCache(threads=1) as other:
        wanted = [np.asarray(m) for m in planned_program(other, from_sparse(other, X))]
    for one, another in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(one, another)


def bind_with_transpose(block: SparseInput) -> Any:
    with MatCache(threads=1) as other:
        pattern = from_sparse(other, X).pattern
    return block.bind(
        indptr=pattern.indptr,
        indices=pattern.indices,
        values=X.data,
        active=pattern.active,
        active_count=pattern.active_count,
        starts=pattern.starts,
        t_rows=pattern.t_rows,
        t_pos=pattern.t_pos,
    )


def test_kernels_are_compiled_before_the_first_block(monkeypatch: Any) -> None:
    with MatCache(threads=1, reserving=True) as memory:
        block = SparseInput(memory, "X", 4, 3, X.nnz)
        planned_program(memory, block.handle())
        memory.commit()
        called: list[tuple[Any, int]] = []
        run = memory.backend.run

        def watched(kernel: Any, chunks: int, *args: Any) -> None:
            called.append((kernel, len(kernel.signatures)))
            run(kernel, chunks, *args)

        monkeypatch.setattr(memory.backend, "run", watched)
        kernels = memory.backend.kernels
        before = {name: len(k.signatures) for name, k in kernels.items()}  # type: ignore[attr-defined]
        planned_program(memory, bind_with_transpose(block))
        assert len(called) > 8
        assert all(len(kernel.signatures) == known for kernel, known in called)
        after = {name: len(k.signatures) for name, k in kernels.items()}  # type: ignore[attr-defined]
        assert after == before


@pytest.mark.parametrize("read", [Lazy.numpy, float, np.asarray])
def test_reading_a_number_while_planning_is_an_error(read: Any) -> None:
    with MatCache(threads=1, reserving=True) as memory:
        a = named(memory, "a", (4, 3))
        with pytest.raises(ReadDuringPlanError, match=f"{here(line() + 1)}.*being planned"):
            float(total(a)) if read is float else read(a + 1)


def test_a_plan_that_does_not_fit(monkeypatch: Any) -> None:
    def refuse(size: int) -> Any:
        raise MemoryError

    with MatCache(threads=1, reserving=True) as memory:
        named(memory, "a", (1000, 1000))
        monkeypatch.setattr("blocklearn.matcache.cpu.backend.allocate_bytes", refuse)
        with pytest.raises(MemoryPlanError, match="4,000,000 bytes|4,000,[0-9]+ bytes"):
            memory.commit()


# ---------------------------------------------------------------- life


def test_close_frees_everything_and_ends_the_threads() -> None:
    started = Started()
    memory = MatCache(threads=3)
    a, x = from_array(memory, A), from_sparse(memory, X)
    lazy, node = exp(a), a @ (a.T @ a)
    result = (a + 1).mat()
    memory.close()
    memory.close()
    assert not started()
    assert memory.stats().bytes == 0
    for use in (
        lambda: a.numpy(),
        lambda: result.numpy(),
        lambda: lazy.mat(),
        lambda: node.mat(),
        lambda: (a + 2).mat(),
        lambda: a.__ilshift__(1.0),
        lambda: a.__ilshift__(node),
        lambda: scaled(a, 2),
        lambda: (x * 2).mat(),
        lambda: named(memory, "new", (1, 1)),
    ):
        with pytest.raises(RuntimeError, match="clos"):
            use()


def test_a_cache_that_is_forgotten_ends_its_threads() -> None:
    gc.collect()
    started = Started()
    memory = MatCache(threads=3)
    a = from_array(memory, np.ones((1000, 500), np.float32))  # enough to wake threads for
    (a + 1).mat()
    workers = started()
    assert len(workers) == 2
    del memory, a
    gc.collect()
    for worker in workers:
        worker.join(timeout=10)
    assert not any(worker.is_alive() for worker in workers)


def test_mats_of_two_caches_do_not_mix(memory: MatCache) -> None:
    with MatCache(threads=1) as other:
        a, b = from_array(memory, A), from_array(other, A)
        x = from_sparse(memory, X)
        key = from_array(other, np.array([[1, 2, 3]]))
        for mix in (
            lambda: a + b,
            lambda: a.T @ b,
            lambda: a @ b.T,
            lambda: a.__ilshift__(b),
            lambda: scaled(a, from_array(other, np.float32([[2]]))),
            lambda: sddmm(a, b, x),
            lambda: x.T @ b,
            lambda: random(memory, (2, 2), key),
            lambda: a[from_array(other, np.array([0]))],
        ):
            with pytest.raises(ShapeError, match="(an|the same) ?other cache|same cache"):
                mix()


def test_two_caches_in_two_threads_do_not_disturb_each_other() -> None:
    """Tracing, compiling, BLAS limits and pools, all at once."""
    big = np.random.default_rng(0).normal(size=(600, 40)).astype(np.float32)

    def work(number: int, results: list[Any]) -> None:
        @rowwise
        def step(x: Any, g: Any) -> Any:
            return x @ g + number

        with MatCache(threads=2) as memory:
            a = from_array(memory, big)
            for _ in range(30):
                g = a.T @ a
                a <<= step(a, g) / rowmax(abs(step(a, g)))
            results.append(a.numpy())

    def together() -> list[Any]:
        boxes: list[list[Any]] = [[], []]
        threads = [threading.Thread(target=work, args=(n, boxes[n])) for n in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [box[0] for box in boxes]

    alone: list[list[Any]] = [[], []]
    for n in range(2):
        work(n, alone[n])
    for got, wanted in zip(together(), alone, strict=True):
        np.testing.assert_array_equal(got, wanted[0])


def test_blas_gets_its_threads_back(two_threads_of_blas: None) -> None:
    from threadpoolctl import threadpool_info

    def limits() -> list[int]:
        return [i["num_threads"] for i in threadpool_info() if i["user_api"] == "blas"]

    before = limits()
    with MatCache(threads=1) as memory:
        a = from_array(memory, A)
        (a.T @ a).mat()
    assert limits() == before


def test_copy_is_an_expression(memory: MatCache) -> None:
    a = from_array(memory, A)
    kept = copy(a).mat()
    a <<= 0
    with pytest.raises(StaleValueError):  # of this name only until it is computed again
        copy(a).mat()
        kept.numpy()
