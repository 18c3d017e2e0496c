"""Workers exchange the lines in which they differ; all of them are threads here."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blocklearn.learner.engines import choice
from blocklearn.learner.engines.cost import (
    Network,
    Sizes,
    best_degrees,
    degrees_of,
    dense_seconds,
    sparse_seconds,
)
from blocklearn.learner.engines.crew import Crew
from blocklearn.learner.engines.exchange import Exchange
from blocklearn.learner.engines.lines import LINE, SAME_NOWHERE, Lines
from blocklearn.learner.engines.merging import CrewMerger
from blocklearn.learner.engines.nested import Nested
from blocklearn.learner.engines.sparse_merging import compare, givers
from blocklearn.matcache import MatCache, from_array
from tests.support import exchange_cases
from tests.support.exchange_cases import CASES, SHAPES, Case
from tests.support.workers import results


@settings(deadline=None, max_examples=25)
@given(
    st.sampled_from([(1,), (2,), (3,), (2, 2), (3, 2), (2, 3), (2, 2, 2), (4, 3)]),
    st.sampled_from(["u1", "f4", "f8"]),
    st.integers(0, 2**31),
)
def test_layers_give_what_one_exchange_gives(
    degrees: tuple[int, ...], dtype: str, seed: int
) -> None:
    """Any sizes, empty parts too."""
    workers = prod(degrees)
    sizes = np.random.default_rng(seed).integers(0, 5, (workers, workers))

    def part(by: int, to: int) -> Any:
        return np.arange(sizes[by, to]).astype(dtype) + np.array(10 * by + to, dtype)

    def work(own: Exchange) -> list[bytes]:
        found = Nested(own, degrees).exchange([part(own.rank, to) for to in range(workers)])
        assert {array.dtype for array in found} == {np.dtype(dtype)}
        return [array.tobytes() for array in found]

    for to, found in enumerate(results(workers, work)):
        assert found == [part(by, to).tobytes() for by in range(workers)]


@pytest.mark.parametrize("workers, degrees", [(1, ()), (3, ()), (4, (2, 2))])
def test_merges_of_hostile_shapes_have_the_bits_of_numpy(
    workers: int, degrees: tuple[int, ...]
) -> None:
    found = results(
        workers, lambda own: [exchange_cases.merged(case, own, degrees) for case in CASES]
    )
    exchange_cases.check(found, CASES)


@settings(deadline=None, max_examples=40)
@given(
    st.integers(1, 7),
    st.builds(
        Case,
        st.sampled_from(["mean", "sum", "max"]),
        st.sampled_from(["f4", "f8"]),
        st.one_of(
            st.sampled_from(SHAPES),
            st.lists(st.tuples(st.integers(0, 90), st.integers(1, 130)), min_size=1, max_size=3),
        ),
        st.integers(1, 3),
        st.sampled_from([0.0, 0.05, 0.5, 1.0]),
        st.sampled_from([1, 9 * LINE, 2**22]),
        st.integers(0, 2**31),
    ),
)
def test_merges_of_any_number_of_workers_have_the_bits_of_numpy(workers: int, case: Case) -> None:
    found = results(workers, lambda own: [exchange_cases.merged(case, own)])
    exchange_cases.check(found, [case])


def test_layers_have_few_partners() -> None:
    def work(own: Exchange) -> list[int]:
        seen: list[int] = []
        swap = own.exchange

        def noted(parts: Any) -> Any:
            seen.append(sum(part.size > 0 for rank, part in enumerate(parts) if rank != own.rank))
            return swap(parts)

        own.exchange = noted  # type: ignore[method-assign]
        Nested(own, (3, 4)).exchange([np.zeros(2)] * 12)
        return seen

    assert results(12, work) == [[2, 3]] * 12
    with pytest.raises(ValueError, match=r"degrees=\[2, 3\]: their product must be 1"):
        results(1, lambda own: Nested(own, (2, 3)))


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.sampled_from([1, 63, 64, 65, 200]), min_size=1, max_size=3),
    st.sampled_from(["f4", "f8"]),
    st.integers(0, 2**31),
)
def test_lines_are_the_numbers_of_their_arrays(sizes: list[int], dtype: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    arrays = [rng.normal(size=n).astype(dtype) for n in sizes]
    padded = np.concatenate([np.pad(x, (0, -x.size % LINE)) for x in arrays]).reshape(-1, LINE)
    lines = Lines(arrays)
    assert lines.count == len(padded)
    ids = np.flatnonzero(rng.random(lines.count) < 0.5)
    np.testing.assert_array_equal(lines.take(ids), padded[ids])
    before = lines.digests()
    lines.put(ids, -lines.take(ids))
    expected = padded.copy()
    expected[ids] *= -1
    np.testing.assert_array_equal(lines.take(np.arange(lines.count)), expected)
    np.testing.assert_array_equal(np.flatnonzero(lines.digests() != before), ids)


def test_digests_tell_signs_places_and_what_is_not_finite() -> None:
    table = np.zeros((6, LINE), np.float32)
    table[1, 0], table[2, 5], table[3, 6], table[4, 7] = -0.0, 1, 1, np.nan
    digests = Lines([table]).digests()
    assert len({*digests[:4].tolist()}) == 4
    assert digests[4] == SAME_NOWHERE
    assert digests[5] == digests[0]


def test_a_line_that_differs_is_sent_once_for_each_kind() -> None:
    """Workers 1 and 3 are alike in line 0, all are in line 2; line 1 has infinite numbers."""
    tables = np.zeros((4, 3, LINE), np.float32)
    tables[1, 0], tables[3, 0], tables[:, 1] = 1, 1, np.inf

    def work(own: Exchange) -> list[list[bool]]:
        found = compare([Lines([tables[own.rank]])], own.exchange, own.rank, own.size)
        assert found.differ.tolist() == [True, True, False]
        return found.wanted.tolist()

    wanted = [found[0] for found in results(4, work)]
    assert wanted == [[True, True, False]] * 2 + [[False, True, False]] * 2


def test_lines_are_given_by_the_owner_or_those_after_it() -> None:
    digests = np.array([[7, 7, 5], [8, 8, 5], [7, 9, 0], [8, 7, 0]], np.uint64)
    assert givers(digests, 0).T.tolist() == [[0, 1, 0, 1], [0, 1, 2, 0], [0, 0, 2, 3]]
    assert givers(digests, 1).T.tolist() == [[2, 1, 2, 1], [3, 1, 2, 3], [1, 1, 2, 3]]
    assert givers(digests, 3).T.tolist() == [[0, 3, 0, 3], [3, 1, 2, 3], [0, 0, 2, 3]]


def test_few_lines_that_differ_travel_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """And a table that differs everywhere is exchanged whole the next time."""
    monkeypatch.setattr(choice, "FEW", 0)
    rows = 4000

    def work(own: Exchange) -> list[int]:
        sent, swap = [0], own._swap

        def counted(parts: Any, failed: bool) -> Any:
            sent[-1] += sum(part.nbytes for rank, part in enumerate(parts) if rank != own.rank)
            return swap(parts, failed)

        own._swap = counted  # type: ignore[method-assign]
        table = np.ones((rows, LINE), np.float32)
        mat = from_array(MatCache(threads=1), table, "x")
        merger = CrewMerger(Crew(own))
        for touched in (3, rows, rows):
            table[own.rank :: 2][:touched] += 1 + own.rank
            mat.set(table)
            merger.merge([("mean", [mat])])
            table = mat.numpy().copy()
            sent.append(0)
        return sent[:-1]

    for few, every, whole in results(2, work):
        assert few < 0.05 * whole
        assert every > whole == rows * LINE * 4


@pytest.mark.parametrize("workers", [2, 12, 64, 97])
def test_degrees_multiply_to_the_workers(workers: int) -> None:
    found = degrees_of(workers)
    assert found[0] == (workers,)
    assert {prod(degrees) for degrees in found} == {workers}
    assert len(set(found)) == len(found)


def test_the_cost_model_knows_what_is_faster() -> None:
    network = Network(5e-5, 1.25e9)
    sparse = Sizes(64, 4_000_000, 256, 50_000, 400_000)
    assert sparse_seconds(sparse, network) < 0.3 * dense_seconds(sparse, network)
    every = Sizes(64, 4_000_000, 256, 4_000_000, 4_000_000)
    assert sparse_seconds(every, network) > dense_seconds(every, network)
    assert len(best_degrees(64, 1e3)) > 1
    assert best_degrees(64, 1e9) == (64,)
    assert dense_seconds(Sizes(2, 1000, 256, 0, 0), Network(0.0, 1e6)) == pytest.approx(0.256)
