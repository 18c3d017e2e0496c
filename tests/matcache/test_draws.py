"""Random numbers by counter: their distributions, their counters, and both backends."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import numpy as np
import pytest
from scipy import stats

from blocklearn.matcache import (
    Draws,
    MatCache,
    ShapeError,
    alias_table,
    colsum,
    from_array,
    from_sparse,
    named,
    rowsum,
)
from blocklearn.matcache.cuda import Cuda
from tests.support import cuda_host
from tests.support.cuda_device import HostDriver

ROWS, COLUMNS = 3000, 4
SHAPE = (ROWS, COLUMNS)
KEY = np.array([[2**40 + 3, 5, 7]])


def draws_of(cache: MatCache, key: Any = KEY) -> Draws:
    return Draws(from_array(cache, key))


CONTINUOUS: dict[str, tuple[Callable[[Draws], Any], Any]] = {
    "uniform": (lambda d: d.uniform(SHAPE), stats.uniform()),
    "normal": (lambda d: d.normal(SHAPE), stats.norm()),
    "exponential": (lambda d: d.exponential(SHAPE), stats.expon()),
    "gamma of 0.3": (lambda d: d.gamma(SHAPE, 0.3), stats.gamma(0.3)),
    "gamma of 1": (lambda d: d.gamma(SHAPE, 1.0), stats.gamma(1.0)),
    "gamma of 700": (lambda d: d.gamma(SHAPE, 700.0), stats.gamma(700.0)),
    "log of gamma": (lambda d: d.log_gamma(SHAPE, 0.01), stats.loggamma(0.01)),
    "beta": (lambda d: d.beta(SHAPE, 0.4, 2.5), stats.beta(0.4, 2.5)),
    "dirichlet": (lambda d: d.dirichlet(SHAPE, 0.6)[:, :1], stats.beta(0.6, 1.8)),
}
WHOLE: dict[str, tuple[Callable[[Draws], Any], Any]] = {
    "bernoulli": (lambda d: d.bernoulli(SHAPE, 0.3), stats.bernoulli(0.3)),
    "integers": (lambda d: d.integers(SHAPE, 11), stats.randint(0, 11)),
    "poisson of 0": (lambda d: d.poisson(SHAPE, 0.0), stats.poisson(0.0)),
    "poisson of 0.4": (lambda d: d.poisson(SHAPE, 0.4), stats.poisson(0.4)),
    "poisson of 9.9": (lambda d: d.poisson(SHAPE, 9.9), stats.poisson(9.9)),
    "poisson of 12": (lambda d: d.poisson(SHAPE, 12.0), stats.poisson(12.0)),
    "poisson of 50": (lambda d: d.poisson(SHAPE, 50.0), stats.poisson(50.0)),
    "binomial of few": (lambda d: d.binomial(SHAPE, 7.0, 0.8), stats.binom(7, 0.8)),
    "binomial, rare": (lambda d: d.binomial(SHAPE, 1e6, 3e-6), stats.binom(10**6, 3e-6)),
    "binomial of many": (lambda d: d.binomial(SHAPE, 90.0, 0.3), stats.binom(90, 0.3)),
    "binomial, likely": (lambda d: d.binomial(SHAPE, 60.0, 0.7), stats.binom(60, 0.7)),
    "binomial, certain": (lambda d: d.binomial(SHAPE, 60.0, 1.0), stats.binom(60, 1.0)),
    "multinomial": (lambda d: d.multinomial(SHAPE, 30.0, 2.5)[:, 1:2], stats.binom(30, 0.25)),
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_distributions(memory: MatCache, name: str) -> None:
    """By Kolmogorov and Smirnov; the numbers are the same in every run."""
    draw, wanted = CONTINUOUS[name]
    found = draw(draws_of(memory)).numpy()
    assert found.dtype == np.float32
    assert stats.kstest(found.ravel(), wanted.cdf).pvalue > 1e-3


def test_a_beta_of_small_parameters_is_rounded_at_its_ends_only(memory: MatCache) -> None:
    """Most numbers are too close to 0 or 1 for float32; the others, and their share, are right."""
    found = draws_of(memory).beta(SHAPE, 0.05, 0.03).numpy().ravel().astype(np.float64)
    wanted, turned = stats.beta(0.05, 0.03), stats.beta(0.03, 0.05)  # of x, and of 1 - x
    for end, chance in ((0.0, wanted.cdf(1.2e-38)), (1.0, turned.cdf(2.0**-24))):
        assert stats.binomtest(int((found == end).sum()), found.size, chance).pvalue > 1e-3
    least, most = 1e-30, 0.5
    below = wanted.cdf(least)
    between = found[(found > least) & (found < most)]
    share = wanted.cdf(most) - below
    assert stats.binomtest(between.size, found.size, share).pvalue > 1e-3
    assert stats.kstest(between, lambda x: (wanted.cdf(x) - below) / share).pvalue > 1e-3


def test_the_ends_of_a_beta_are_told_apart_by_logarithms(memory: MatCache) -> None:
    draws = draws_of(memory)
    odds = draws.log_gamma(SHAPE, 0.4, stream=6) - draws.log_gamma(SHAPE, 2.5, stream=7)
    beta = draws.beta(SHAPE, 0.4, 2.5, stream=3).numpy()
    np.testing.assert_allclose(1 / (1 + np.exp(-odds.numpy())), beta, rtol=1e-5)


def test_chances_out_of_range_count_as_the_nearest_and_nan_stays(memory: MatCache) -> None:
    draws = draws_of(memory)
    for chance, wanted in ((-0.5, 0.0), (1.5, 1.0), (np.inf, 1.0), (np.nan, np.nan)):
        np.testing.assert_array_equal(draws.bernoulli((5, 2), chance).numpy(), wanted)
    row = from_array(memory, np.array([[-1.0, np.nan, 2.0]]))
    np.testing.assert_array_equal(draws.bernoulli((2, 3), row).numpy(), [[0.0, np.nan, 1.0]] * 2)


@pytest.mark.parametrize("name", WHOLE)
def test_whole_numbers(memory: MatCache, name: str) -> None:
    """By the chi-squared of frequencies; rare numbers are joined."""
    draw, wanted = WHOLE[name]
    found = draw(draws_of(memory)).numpy().ravel()
    assert (found == np.floor(found)).all() and found.min() >= 0
    expected = len(found) * wanted.pmf(np.arange(int(found.max()) + 1))
    counted = np.bincount(found.astype(int))
    often = expected >= 5
    if often.sum() == 1:
        assert expected[often] == pytest.approx(counted.sum(), rel=1e-3)
        return
    pairs = [(counted[often], expected[often]), (counted[~often], expected[~often])]
    counts = np.array([*pairs[0][0], pairs[1][0].sum()], float)
    means = np.array([*pairs[0][1], len(found) - pairs[0][1].sum()])
    kept = means > 1e-9
    assert counts[~kept].sum() == 0
    assert stats.chisquare(counts[kept], means[kept], sum_check=False).pvalue > 1e-3


def test_positions_by_weight(memory: MatCache) -> None:
    weights = np.array([[3.0, 0.0, 1.0, 0.5, 0.25, 8.0, 0.0]])
    given = named(memory, "weights", (1, 7), np.float64)
    given.set(weights)
    draws, shape = draws_of(memory), (20_000, 1)
    table = alias_table(given)
    found = np.bincount(draws.choice(shape, table).numpy().ravel(), minlength=7)
    chances = weights[0] / weights.sum()
    assert found[[1, 6]].sum() == 0
    kept = chances > 0
    assert stats.chisquare(found[kept], 20_000 * chances[kept]).pvalue > 1e-3

    exact = np.zeros(7)  # what the table says
    for place, (chance, other) in enumerate(
        zip(table.chance.numpy()[0], table.other.numpy()[0], strict=True)
    ):
        exact[place] += chance / 7
        exact[other] += (1 - chance) / 7
    np.testing.assert_allclose(exact, chances, atol=1e-7)
    assert alias_table(given).chance.slot.version == table.chance.slot.version  # kept
    for wrong in (np.zeros((1, 7)), -weights, weights * np.nan):
        given.set(wrong)
        assert (draws.choice((5, 2), alias_table(given)).numpy() == -1).all()
    given.set(np.eye(7)[3:4])
    one = draws.choice((50, 2), alias_table(given))
    assert (one.numpy() == 3).all()
    rows = from_array(memory, np.arange(14.0).reshape(7, 2))
    np.testing.assert_array_equal(rows[one[:, 0]].numpy(), np.tile([6.0, 7.0], (50, 1)))


def test_rows_add_up(memory: MatCache) -> None:
    draws, n = draws_of(memory), np.array([[0.0], [1.0], [17.0], [1e6]])
    weights = np.array([[0.0, 1.0, 5.0, 0.0, 2.0, 0.0]])
    N, W = from_array(memory, n), from_array(memory, weights)
    counts = draws.multinomial((4, 6), N, W).numpy()
    np.testing.assert_array_equal(counts.sum(axis=1), n[:, 0])
    assert counts[:, [0, 3, 5]].sum() == 0
    np.testing.assert_allclose(counts[3, [1, 2, 4]] / 1e6, [0.125, 0.625, 0.25], atol=2e-3)
    small = draws.dirichlet((500, 3), 1e-3)  # all gamma numbers are 0 in float32
    np.testing.assert_allclose(rowsum(small).numpy(), 1.0, rtol=1e-6)
    assert 100 < colsum(small).numpy().min()


def test_the_same_counters_give_the_same_numbers() -> None:
    """For 1, 2 and 8 threads, and on a device; in any part of a larger matrix."""

    def all_of(draws: Draws, shape: tuple[int, int]) -> list[Any]:
        rate = from_array(draws.cache, np.linspace(0.1, 40.0, COLUMNS)[None])
        table = alias_table(rate)
        return [
            draws.normal(shape).numpy(),
            draws.log_gamma(shape, rate).numpy(),
            draws.poisson(shape, rate).numpy(),
            draws.binomial(shape, 50.0, rate / 41.0).numpy(),
            draws.multinomial(shape, 9.0, rate).numpy(),
            draws.choice(shape, table).numpy(),
            draws.integers(shape, 1000).numpy(),
        ]

    found = []
    for threads in (1, 2, 8):
        with MatCache(threads=threads) as cache:
            found.append(all_of(draws_of(cache), SHAPE))
            part = all_of(draws_of(cache), (700, COLUMNS))
    for one, two, eight, few in zip(*found, part, strict=True):
        np.testing.assert_array_equal(one, two)
        np.testing.assert_array_equal(one, eight)
        np.testing.assert_array_equal(one[:700], few)
    if cuda_host.available():
        with MatCache(backend=Cuda(HostDriver())) as cache:
            for cpu, device in zip(found[0], all_of(draws_of(cache), SHAPE), strict=True):
                np.testing.assert_allclose(cpu, device, rtol=1e-5, atol=1e-5)


def test_keys_streams_and_distributions_are_apart() -> None:
    with MatCache(threads=1) as cache:
        first, second = draws_of(cache), draws_of(cache, KEY + [[0, 1, 0]])
        found = [
            first.uniform(SHAPE), first.uniform(SHAPE, stream=1), second.uniform(SHAPE),
            first.normal(SHAPE), first.normal(SHAPE, stream=1), second.normal(SHAPE),
            first.exponential(SHAPE), first.gamma(SHAPE, 1.0), first.gamma(SHAPE, 1.0, stream=1),
            first.beta(SHAPE, 1.0, 1.0), first.integers(SHAPE, 2**31), first.poisson(SHAPE, 1e6),
            first.poisson(SHAPE, 1e6, stream=1), first.binomial(SHAPE, 1e6, 0.5),
        ]  # fmt: skip
        numbers = np.stack([x.numpy().ravel().astype(float) for x in found])
        apart = np.corrcoef(numbers) - np.eye(len(found))
        apart[7, 9] = apart[9, 7] = 0.0  # a beta number is made of two gamma numbers
        apart[8, 9] = apart[9, 8] = 0.0
        assert np.abs(apart).max() < 5 / np.sqrt(numbers.shape[1])


def test_parameters_out_of_range_are_nan(memory: MatCache) -> None:
    draws, shape = draws_of(memory), (1, 6)
    bad = from_array(memory, np.array([[np.nan, -1.0, -np.inf, np.inf, 0.5, 2.0]]))
    for found, wrong in (
        (draws.poisson(shape, bad), [0, 1, 2, 3]),
        (draws.gamma(shape, bad), [0, 1, 2]),
        (draws.binomial(shape, bad, 0.5), [0, 1, 2, 3, 4]),
        (draws.binomial(shape, 100.0, bad), [0, 1, 2, 3, 5]),
        (draws.multinomial(shape, 5.0, bad), range(6)),
    ):
        assert list(np.flatnonzero(np.isnan(found.numpy()[0]))) == list(wrong), found.label


def test_numbers_of_a_plan_need_no_memory_and_change_with_the_key() -> None:
    with MatCache(threads=2, reserving=True) as cache:
        key = named(cache, "key", (1, 3), np.int64)
        weights, out = named(cache, "weights", (1, 9)), named(cache, "out", (40, 9))

        def update() -> None:
            draws = Draws(key)
            noise = draws.normal((40, 9)) * draws.gamma((40, 9), 2.0)
            chosen = weights.T.mat()[draws.choice((40, 1), alias_table(weights))]
            out.__ilshift__(noise + draws.poisson((40, 9), weights) + chosen)

        update()
        cache.commit()
        cache.freeze()
        weights.set(np.arange(1.0, 10.0)[None])
        found = []
        for block in (0, 1, 0):
            key.set(np.array([[3, 0, block]]))
            update()
            found.append(out.numpy())
        assert cache.stats().allocations_after_warmup == 0
        np.testing.assert_array_equal(found[0], found[2])
        assert (found[0] != found[1]).mean() > 0.9


def test_what_does_not_fit_is_named() -> None:
    with MatCache(threads=1) as cache:
        draws: Any = draws_of(cache)
        wide, key = from_array(cache, np.ones((2, 5))), cast(Any, 7)
        sparse, numbers = from_sparse(cache, np.eye(3)), from_array(cache, np.ones((1, 3)))
        here = r" at .*test_draws\.py:\d+: "
        cases: list[tuple[str, Callable[[], Any]]] = [
            (f"poisson{here}a parameter is 2 x 5, the", lambda: draws.poisson((4, 5), wide)),
            (f"poisson{here}str; parameters must be", lambda: draws.poisson((4, 5), "2")),
            (f"gamma{here}stream=-1: must be 0 to", lambda: draws.gamma((4, 5), 1.0, stream=-1)),
            (f"integers{here}end=0: must be 1", lambda: draws.integers((4, 5), 0)),
            (f"alias_table{here}weights are 2 x 5", lambda: alias_table(wide)),
            (f"alias_table{here}weights are 3 x 3", lambda: alias_table(sparse)),
            (f"random{here}the key", lambda: Draws(numbers)),
            (f"Draws{here}key=7: must be an int64 matrix", lambda: Draws(key)),
            (f"radius{here}stream=0.5: must be 0 to", lambda: draws.normal((4, 5), stream=0.5)),
            (f"integers{here}end=2.5: must be 1", lambda: draws.integers((4, 5), 2.5)),
            (f"choice{here}Mat in place of a table", lambda: draws.choice((4, 5), numbers)),
            (f"beside{here}Mat in place of a table", lambda: draws.beside(sparse, numbers)),
            *(
                (rf"random{here}shape=.*: must be \(rows, columns\)", partial(draws.normal, shape))
                for shape in (3, (1, 2, 3), (1.5, 2), (-1, 2), [1, 2])
            ),
        ]  # fmt: skip
        for message, wrong in cases:
            with pytest.raises(ShapeError, match=message):
                wrong()
