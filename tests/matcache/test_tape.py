"""A tape repeats what a program ran, with contents and blocks that have changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from blocklearn.matcache import (
    DenseInput,
    MatCache,
    ShapeError,
    StaleValueError,
    colsum,
    from_array,
    named,
    scalar,
)
from blocklearn.matcache.containers.tape import Tape, record


@pytest.fixture
def cache() -> Iterator[MatCache]:
    with MatCache(threads=1) as made:
        yield made


def taped(cache: MatCache, program: Callable[[], None]) -> Tape:
    tape = Tape(cache, {})
    with record(tape):
        program()
    return tape


def test_it_reads_contents_as_they_are(cache: MatCache) -> None:
    a, b = named(cache, "a", (3, 2)), named(cache, "b", (3, 2))

    def program() -> None:
        nonlocal b
        b <<= 2.0 * a + b

    a.set(1.0)
    tape = taped(cache, program)
    np.testing.assert_array_equal(b.numpy(), np.full((3, 2), 2.0))
    a.set(10.0)
    tape.run({})
    np.testing.assert_array_equal(b.numpy(), np.full((3, 2), 22.0))  # the handle is current


def test_a_value_from_before_is_stale(cache: MatCache) -> None:
    a, b = named(cache, "a", (1, 2)), named(cache, "b", (1, 2))

    def program() -> None:
        nonlocal b
        b <<= a + 1.0

    tape = taped(cache, program)
    old = b * 3.0
    tape.run({})
    with pytest.raises(StaleValueError, match="b: the value computed at .*test_tape.py"):
        old.mat()


def test_an_interrupted_run_leaves_no_value_that_looks_right(cache: MatCache) -> None:
    a, b = named(cache, "a", (1, 2)), named(cache, "b", (1, 2))

    stops = False

    def stop() -> None:
        if stops:
            raise KeyboardInterrupt

    def program() -> None:
        nonlocal b
        b <<= a + 1.0
        cache.each_block(stop)

    tape = taped(cache, program)
    stops = True
    with pytest.raises(KeyboardInterrupt):
        tape.run({})
    with pytest.raises(StaleValueError):
        b.numpy()


def test_a_block_brings_other_arrays(cache: MatCache) -> None:
    block, out = DenseInput(cache, "X", (2, 2), np.float32), named(cache, "out", (2, 2))

    def program() -> None:
        nonlocal out
        out <<= block.handle() * 2.0

    block.bind(np.ones((2, 2), np.float32))
    tape = taped(cache, program)
    block.bind(np.full((2, 2), 5.0, np.float32))
    tape.run({})
    np.testing.assert_array_equal(out.numpy(), np.full((2, 2), 10.0))


def test_it_fits_while_results_that_it_used_are_current(cache: MatCache) -> None:
    a, out = named(cache, "a", (3, 2)), named(cache, "out", (1, 2))
    a.set(1.0)

    def program() -> None:
        nonlocal out
        out <<= colsum(a) + out

    assert taped(cache, program).refused is not None  # it allocates
    a.set(1.0)
    first, second = taped(cache, program), taped(cache, program)
    assert first.refused is None and second.refused is None
    assert first.fits({}) and second.fits({})
    difference = first.differs_from(second)
    assert difference is not None and "test_tape.py" in difference  # it sums in the first only
    a.set(2.0)
    assert first.fits({}) and not second.fits({})
    first.run({})
    assert second.fits({})  # the sums are current again
    second.run({})
    np.testing.assert_array_equal(out.numpy(), [[21.0, 21.0]])


def test_numbers_are_set_again_or_by_functions(cache: MatCache) -> None:
    fixed, counted, out = scalar(cache, 0.0), scalar(cache, 0.0), named(cache, "out", (1, 1))
    steps = 0

    def count() -> None:
        nonlocal steps
        steps += 1
        counted.set(float(steps))

    def program() -> None:
        nonlocal out
        fixed.set(10.0)
        cache.each_block(count)
        out <<= fixed + counted

    tape = taped(cache, program)
    fixed.set(0.0)
    tape.run({})
    assert float(out) == 12.0
    assert float(counted) == 2.0  # a current handle
    assert taped(cache, program).differs_from(tape) is None


def test_a_program_that_reads_numbers_is_refused(cache: MatCache) -> None:
    a = named(cache, "a", (1, 1))
    tape = taped(cache, lambda: float(a) and None)
    assert tape.refused is not None
    assert tape.refused.startswith("it reads a at ") and "test_tape.py" in tape.refused


def test_rows_that_are_set_clear_the_others_and_are_not_repeated(cache: MatCache) -> None:
    a = named(cache, "a", (4, 2))
    a.set(7.0)

    def program() -> None:
        a.set_rows(np.array([2]), np.array([[1, 2]], np.float32))

    tape = taped(cache, program)
    np.testing.assert_array_equal(a.numpy(), [[0, 0], [0, 0], [1, 2], [0, 0]])
    assert tape.refused is not None and tape.refused.startswith("it sets rows of a at ")
    with pytest.raises(ShapeError, match=r"a.set_rows at .*: got an array of shape \(1, 3\)"):
        a.set_rows(np.array([2]), np.zeros((1, 3), np.float32))


def test_parts_that_the_host_chose_need_no_python(cache: MatCache) -> None:
    x, out = named(cache, "x", (6, 4)), named(cache, "out", (6, 4))
    chosen = from_array(cache, np.array([[0, 4]]), "chosen")

    def program() -> None:
        out[:, 1:3] <<= x[:, :2] * 2.0
        out[5] += x[0]
        out[[1, 3], 3] <<= x[2:4, 1]

    taped(cache, program)
    x.set(1.0)  # so that the parts are read again
    tape = taped(cache, program)
    assert {step.what for step in tape.steps} >= {"gather checked", "scatter checked"}
    assert all(step.calls is not None for step in tape.steps)
    numbers = np.arange(24.0, dtype=np.float32).reshape(6, 4)
    x.set(numbers), out.set(0.0)
    tape.run({})
    expected = np.zeros((6, 4))
    expected[:, 1:3] = 2.0 * numbers[:, :2]
    expected[5] += numbers[0]
    expected[[1, 3], 3] = numbers[2:4, 1]
    np.testing.assert_array_equal(out.numpy(), expected)

    def by_matrix() -> None:
        out[chosen] += x[chosen]

    tape = taped(cache, by_matrix)
    assert [step.what for step in tape.steps if step.calls is None] == ["gather", "scatter"]
    chosen.set(np.array([[0, 6]]))
    with pytest.raises(IndexError, match="6"):
        tape.run({})


def test_programs_of_expressions_are_those_of_other_caches() -> None:
    found = []
    for _ in range(2):
        with MatCache(threads=1) as cache:
            x = named(cache, "x", (5, 3))
            x <<= 2.0 * x + 1.0
            found.append([p for key, p in cache.programs.items() if key[0] == "dense"])
    assert found[0] and all(one is other for one, other in zip(*found, strict=True))


def test_a_launch_is_planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with MatCache(threads=1, reserving=True) as cache:
        x, planned = named(cache, "x", (4, 3)), set[Any]()
        noted: list[Any] = []
        monkeypatch.setattr(cache.backend, "expect", lambda *call: noted.append(call))
        steps = []
        for _ in range(2):
            tape = Tape(cache, {}, planned)
            with record(tape, runs=False):
                x <<= x + 1.0
            steps.append(len(tape.steps))
        assert len(noted) == 1 and steps == [1, 1]
