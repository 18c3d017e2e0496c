"""Recorded calls of kernels run without Python, for the arrays of other blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from numba import njit

from blocklearn.matcache import MatCache, SparseInput, named
from blocklearn.matcache.containers.chunks import ROW_CHUNKS, worthwhile
from blocklearn.matcache.containers.tape import Tape, record
from blocklearn.matcache.cpu import executor
from blocklearn.matcache.cpu.addresses import Call, compiled_for
from blocklearn.matcache.cpu.executor import Laid, Program, lay_out, place_of
from blocklearn.matcache.cpu.kernels.bounds import ends, even_bounds

ROWS, COLUMNS, K = 37, 11, 3


@pytest.fixture(params=[1, 2, 8])
def cache(request: pytest.FixtureRequest) -> Iterator[MatCache]:
    with MatCache(threads=request.param) as made:
        yield made


def block(number: int, density: float) -> sp.csr_array:
    """A block of its own number of non-zeros; density 0: none, 2: one row holds nearly all."""
    rng = np.random.default_rng(number)
    X = rng.random((ROWS, COLUMNS)) * (rng.random((ROWS, COLUMNS)) < density)
    if density == 2:
        X[1:] *= rng.random((ROWS - 1, COLUMNS)) < 0.02
    return sp.csr_array(X.astype(np.float32))


def bind(block: SparseInput, X: sp.csr_array) -> Any:
    """Bind a block whose arrays are as long as it needs, in memory of their own."""
    turned = sp.csr_array((np.arange(X.nnz), X.indices, X.indptr), shape=X.shape).tocsc()
    counts = np.diff(turned.indptr)
    active = np.flatnonzero(counts).astype(np.int32)
    return block.bind(
        indptr=X.indptr.astype(np.int64),
        indices=X.indices.astype(np.int32),
        values=X.data,
        active=active,
        active_count=active.size,
        starts=np.append(0, np.cumsum(counts[active])).astype(np.int64),
        t_rows=turned.indices.astype(np.int32),
        t_pos=turned.data.astype(np.int32),
    )


def test_programs_compute_what_their_calls_did(cache: MatCache) -> None:
    given = SparseInput(cache, "X", ROWS, COLUMNS, ROWS * COLUMNS)
    W, out, sums, first = (named(cache, n, s) for n, s in (
        ("W", (COLUMNS, K)), ("out", (ROWS, K)), ("sums", (COLUMNS, K)), ("first", (COLUMNS, 1))
    ))  # fmt: skip
    W.set(np.arange(COLUMNS * K, dtype=np.float32).reshape(W.shape))

    def program() -> None:
        nonlocal out, sums, first
        X = given.handle()
        out <<= X @ W
        sums <<= X.T @ out
        first <<= X.T @ out[:, 0]

    tape = Tape(cache, {})
    for number in range(2):  # the first run allocates
        bind(given, block(number, 0.3))
        tape = Tape(cache, {})
        with record(tape):
            program()
    assert tape.refused is None and len(tape.steps) > 2
    for number, density in enumerate((0.9, 0.0, 2, 0.3, 0.05), 10):
        X = block(number, density)
        bind(given, X)
        tape.run({})
        found = out.numpy(), sums.numpy()
        np.testing.assert_allclose(first.numpy(), sums.numpy()[:, :1], rtol=1e-5)
        program()
        np.testing.assert_array_equal(found[0], out.numpy())
        np.testing.assert_array_equal(found[1], sums.numpy())
        np.testing.assert_allclose(found[0], X @ W.numpy(), rtol=1e-5)


@njit(nogil=True)
def shift(chunk: Any, thread: Any, bounds: Any, by: Any, flag: Any, out: Any) -> None:
    """Add a number to a chunk, or subtract it; fail at 100."""
    for i in range(bounds[chunk], bounds[chunk + 1]):
        if out[i, 0] == 100.0:
            raise ArithmeticError("the number is 100.")
        out[i, 0] += by if flag else -by


@pytest.fixture
def shifting(cache: MatCache) -> tuple[MatCache, Any, Callable[..., Call]]:
    """A cache, numbers, and a function that makes calls of `shift`."""
    out = named(cache, "numbers", (100, 1), np.float64)

    def call(by: float, flag: bool, **how: Any) -> Call:
        bounds = even_bounds(cache, 100, 8)
        shift(0, 0, np.zeros(2, np.int64), by, flag, out.slot.data())  # compiles it
        return Call(shift, bounds, (by, flag, out.slot.data()), **how)

    return cache, out, call


def nothing() -> None:
    """Do nothing."""


def laid(*calls: Call) -> list[Laid]:
    """Calls as words, for no arrays of blocks."""
    return [one for call in calls if (one := lay_out(call, []))]


def test_numbers_and_flags_are_passed(shifting: Any) -> None:
    cache, out, call = shifting
    calls = call(2.5, True), call(1.0, False, alone=True)
    program = Program(cache.backend.pool, laid(*calls), [nothing] * 2, [])
    for n in range(1, 4):
        program.run()
        np.testing.assert_array_equal(out.numpy(), np.full((100, 1), 1.5 * n))


class Blocks(NamedTuple):
    """Numbers of blocks, and what they are multiplied by."""

    values: Any
    by: Any


class Numbers:
    """What brings the numbers of a block."""

    label, values = "numbers", np.arange(3.0)


@njit
def multiply(first: Any, second: Any, out: Any) -> None:
    """Add up the first numbers of two records, times what they are multiplied by."""
    out[0, 0] = first.values[0] * first.by + second.values[0] * second.by + first.values.size


def test_parts_of_records_are_passed_and_those_of_blocks_found_again(cache: MatCache) -> None:
    out, kept = named(cache, "out", (1, 1), np.float64), np.array([5.0, 9.0])
    numbers = Numbers()
    args = Blocks(numbers.values, 10), Blocks(kept, 0.5), out.slot.data()
    multiply(*args)
    given = [executor.Input(numbers, "values")]
    one = lay_out(Call(multiply, None, args), [place_of(numbers.values)])
    assert one is not None
    program = Program(cache.backend.pool, [one], [nothing], given)
    numbers.values = np.array([4.0, 0.0, 0.0, 0.0])  # of the next block
    program.run()
    assert out.numpy().item() == 4 * 10 + 2.5 + 4


def test_an_array_that_blocks_bring_twice_is_not_found_again(cache: MatCache) -> None:
    """Later blocks may bring two of them."""
    out, numbers = named(cache, "out", (1, 1), np.float64), Numbers()
    args = Blocks(numbers.values, 10), Blocks(np.array([5.0, 9.0]), 0.5), out.slot.data()
    multiply(*args)
    call, place = Call(multiply, None, args), place_of(numbers.values)
    assert lay_out(call, [place]) and lay_out(call, [place, place]) is None


def test_a_kernel_that_fails_raises_its_error_and_no_later_call_runs(shifting: Any) -> None:
    cache, out, call = shifting
    first, second = call(2.0, True), call(1.0, True)

    def again() -> None:
        for chunk in range(8):
            shift(chunk, 0, first.bounds[1:], *first.args)

    program = Program(cache.backend.pool, laid(first, second), [again, nothing], [])
    numbers = np.zeros((100, 1))
    numbers[[3, 97]] = 100.0
    out.set(numbers)
    with pytest.raises(ArithmeticError, match="the number is 100"):
        program.run()
    assert out.numpy().max() == 100.0 and (out.numpy() % 2 == 0).all()
    out.set(0.0)
    program.run()  # as if nothing had happened
    np.testing.assert_array_equal(out.numpy(), np.full((100, 1), 3.0))


def test_a_closed_cache_is_named(shifting: Any) -> None:
    cache, _, call = shifting
    program = Program(cache.backend.pool, laid(call(1.0, True)), [nothing], [])
    cache.close()
    with pytest.raises(RuntimeError, match="after close"):
        program.run()


class Noted:
    """A compiled function that notes what it is compiled for."""

    def __init__(self) -> None:
        """Nothing is compiled."""
        self.overloads: dict[Any, None] = {}

    def compile(self, types: Any) -> None:
        """Note the types."""
        self.overloads[types] = None


@pytest.mark.parametrize(("threads", "runners"), [(1, "RUNNERS_ALONE"), (2, "RUNNERS")])
def test_a_recorded_call_compiles_what_will_run_it(
    monkeypatch: pytest.MonkeyPatch, threads: int, runners: str
) -> None:
    """All of it: which of them runs a program is known when that is laid out, which may be late."""
    noted = [(Noted(), types) for _, types in getattr(executor, runners)]
    monkeypatch.setattr(executor, runners, noted)
    with MatCache(threads=threads) as cache:
        out = named(cache, "out", (100, 1))
        out <<= 1.0
        assert not any(one.overloads for one, _ in noted)
        with record(Tape(cache, {})):
            out <<= 2.0
    assert [list(one.overloads) for one, _ in noted] == [[types] for _, types in noted]


class Helpers:
    """A pool whose caller comes too late: another thread does all the work."""

    threads = 2

    def check_open(self) -> None:
        """Do nothing: it is open."""

    def run(self, task: Any, chunks: int) -> None:
        """Call the task for all chunks."""
        for chunk in range(chunks):
            task(chunk, 1)


def test_helpers_may_do_all_the_work(shifting: Any) -> None:
    _, out, call = shifting
    pool: Any = Helpers()
    calls = laid(call(1.0, True), call(1.0, True, alone=True))
    program = Program(pool, calls, [nothing] * 2, [])
    for n in range(1, 4):
        program.run()
        np.testing.assert_array_equal(out.numpy(), np.full((100, 1), 2.0 * n))


@pytest.mark.parametrize("threads", [1, 2, 3, 32, 100])
def test_joined_chunks_cover_all_work_once(threads: int) -> None:
    for power, row in enumerate(ends(threads)):
        assert row[0] == 0 and row[1 << power] == ROW_CHUNKS
        assert (np.diff(row[: (1 << power) + 1]) > 0).all()
    assert worthwhile(0, 8, threads) == 1 and worthwhile(2**40, 8, threads) == 8


def test_how_arguments_are_passed_is_found_once_for_their_types(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A training records hundreds of calls, of few types; Numba takes 0.1 ms for each."""

    @njit
    def add(x: Any, by: Any) -> None:
        x += by

    one, other = (Call(add, None, (np.zeros(n, np.float32), float(n))) for n in (3, 5))
    add(*one.args)
    found = compiled_for(one)
    assert found is not None
    (compiled,) = add.overloads.values()
    monkeypatch.setattr(type(compiled.target_context.call_conv), "get_function_type", None)
    assert compiled_for(other) == found
