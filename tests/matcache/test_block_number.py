"""Numbers of a block: formulas while they are recorded, plain numbers to all that reads them."""

from __future__ import annotations

import copy
import gc
import math
import operator
import pickle
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blocklearn.matcache import MatCache, from_array, named, scalar
from blocklearn.matcache.containers.block_number import BlockNumber
from blocklearn.matcache.containers.tape import Tape, record

OPERATORS = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.floordiv,
    operator.mod,
    operator.pow,
]


@pytest.fixture(scope="module")
def cache() -> Iterator[MatCache]:
    with MatCache(threads=1) as made:
        yield made


def taped(cache: MatCache, now: dict[str, Any], program: Callable[[Any], None]) -> Tape:
    """Record a program that gets the tape's function `read`."""
    tape = Tape(cache, now)
    with record(tape):
        program(tape.read)
    return tape


@given(
    op=st.sampled_from(OPERATORS),
    turned=st.booleans(),
    numbers=st.lists(st.integers(1, 2000), min_size=2, max_size=2),
    other=st.one_of(st.integers(1, 9), st.floats(0.125, 4.0)),
)
def test_arithmetic_is_done_anew_for_each_block(
    cache: MatCache, op: Any, turned: bool, numbers: list[int], other: Any
) -> None:
    out = named(cache, "out", (1, 1), np.float64)

    def plain(rows: Any) -> Any:
        first, second = (other, rows) if turned else (rows, other)
        return op(first, second) / rows + 1.0

    wanted = []
    for rows in numbers:
        try:
            wanted.append(float(plain(rows)))
        except OverflowError:
            return
    tape = taped(cache, {"rows": numbers[0]}, lambda read: out.set(plain(read("rows"))))
    found = [out.numpy()[0, 0]]
    tape.run({"rows": numbers[1]})
    assert [*found, out.numpy()[0, 0]] == wanted
    assert tape.reads == {}


@pytest.mark.parametrize(
    "read",
    [
        float,
        int,
        bool,
        hash,
        str,
        range,
        math.sqrt,
        np.sqrt,
        np.asarray,
        round,
        copy.copy,
        lambda n: n > 2,
        lambda n: n == 3,
        lambda n: max(n, 1),
        lambda n: -n,
        lambda n: [0, 1, 2, 3, 4][n],
        lambda n: f"{n:d}",
        lambda n: n * True,
        lambda n: np.float32(2.0) * n,
        lambda n: np.float32(0.3) ** (n / 7),
        lambda n: n * np.float32(0.1),
        lambda n: np.maximum(n, np.float32(0.1)),
        lambda n: n * 1j,
        lambda n: pow(n, 2, 5),
        lambda n: (n >> 1, 1 << n, n & 1, n | 4, 6 ^ n, ~n),
        lambda n: divmod(10, n),
        lambda n: (math.trunc(n), math.floor(n), math.ceil(n)),
        lambda n: pickle.loads(pickle.dumps(n)),
    ],
)
def test_what_reads_a_number_gets_it_and_the_recording_depends_on_it(
    cache: MatCache, read: Any
) -> None:
    found: list[Any] = []
    tape = taped(cache, {"rows": 3}, lambda number: found.append(read(number("rows"))))
    assert tape.reads == {"rows": 3}
    assert found == [read(3)]
    assert np.asarray(found[0]).dtype == np.asarray(read(3)).dtype


def test_it_says_that_it_is_a_number(cache: MatCache) -> None:
    def program(read: Any) -> None:
        assert isinstance(read("rows"), int)
        assert isinstance(read("rows") / 2, float)
        assert not isinstance(read("weight"), int)

    assert taped(cache, {"rows": 3, "weight": 2.5}, program).reads == {}


def test_matrices_take_it_as_a_number_that_the_recording_depends_on(cache: MatCache) -> None:
    x, out = from_array(cache, np.ones((2, 2), np.float32), "x"), named(cache, "sum", (2, 2))

    def program(read: Any) -> None:
        out.__ilshift__(read("rows") * x + x / read("weight"))

    tape = taped(cache, {"rows": 3, "weight": 2.0}, program)
    np.testing.assert_array_equal(out.numpy(), np.full((2, 2), 3.5, np.float32))
    assert tape.reads == {"rows": 3, "weight": 2.0}


def test_a_number_that_is_kept_for_later_stays_as_it_was(cache: MatCache) -> None:
    kept: list[Any] = []
    out = scalar(cache, 0.0, "kept")

    def program(read: Any) -> None:
        kept.append(read("rows") + 1)
        out.set(kept[0] * 2.0)

    first = taped(cache, {"rows": 3}, program)
    first.run({"rows": 5})
    assert float(out) == 12.0
    assert type(kept[0]) is BlockNumber and kept[0] == 4
    assert type(kept[0] + 1) is int  # formulas do not grow from block to block
    taped(cache, {"rows": 7}, program)
    assert float(out) == 8.0  # of the first block


def test_two_runs_with_other_constants_differ(cache: MatCache) -> None:
    out = named(cache, "rate", (1, 1))
    tapes = [
        taped(cache, {"rows": 3}, lambda read, c=c: out.set(read("rows") / c)) for c in (2, 2, 3)
    ]
    assert tapes[1].differs_from(tapes[0]) is None
    assert tapes[2].differs_from(tapes[0]) is not None


def test_a_recording_that_sets_a_number_of_the_block_leaves_no_garbage(cache: MatCache) -> None:
    """Its launches hold arrays."""
    out = named(cache, "out", (1, 1), np.float64)
    tape = taped(cache, {"rows": 2}, lambda read: out.set(read("rows") + 1.0))
    tape.run({"rows": 3})
    freed = weakref.ref(tape)
    gc.disable()  # a cycle would wait for the collector
    try:
        del tape
        assert freed() is None
    finally:
        gc.enable()
    assert out.numpy() == 4.0


def test_a_function_of_the_host_gets_the_number_of_each_block(cache: MatCache) -> None:
    out = scalar(cache, 0.0, "of a closure")

    def program(read: Any) -> None:
        rows = read("rows") * 2
        cache.each_block(lambda: out.set(rows / 4))

    tape = taped(cache, {"rows": 3}, program)
    assert float(out) == 1.5
    tape.run({"rows": 5})
    assert float(out) == 2.5
    assert tape.reads == {}


@pytest.mark.parametrize(
    ("formula", "fitting", "other"),
    [
        (lambda rows: 1.0 / (rows - 1), 5, 1),  # no value
        (lambda rows: 2 ** (rows - 3), 5, 2),  # 0.5, which integers cannot hold
    ],
)
def test_a_recording_fits_blocks_whose_formulas_have_values_of_the_same_type(
    cache: MatCache, formula: Any, fitting: int, other: int
) -> None:
    out = named(cache, "of a formula", (1, 1), np.float64)
    tape = taped(cache, {"rows": 4}, lambda read: out.set(formula(read("rows"))))
    assert tape.fits({"rows": fitting})
    assert not tape.fits({"rows": other})


def test_a_program_that_catches_an_error_of_arithmetic_depends_on_the_number(
    cache: MatCache,
) -> None:
    out = scalar(cache, 0.0, "of a single row")

    def program(read: Any) -> None:
        try:
            found = 1.0 / (read("rows") - 1)
        except ZeroDivisionError:
            found = 0.0
        out.set(found)

    assert taped(cache, {"rows": 1}, program).reads == {"rows": 1}
    assert taped(cache, {"rows": 3}, program).reads == {}
