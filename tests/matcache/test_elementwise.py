"""Every elementwise operation on the CPU, in float32 and float64, against its NumPy definition."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from blocklearn.datasources import HostBlock, MatrixSource
from blocklearn.matcache import MatCache, from_array, rowwise
from blocklearn.matcache.notation.elementwise import ELEMENTWISE, LEAST_EXPPSI
from blocklearn.matcache.notation.operand import apply

UNARY = [name for name, op in ELEMENTWISE.items() if op.arity == 1]
BINARY = [name for name, op in ELEMENTWISE.items() if op.arity == 2]
POSITIVE = {"sqrt", "log", "lgamma", "digamma", "exppsi"}  # defined for x > 0 (sqrt and log: NaN)

# Largest relative error on normal numbers, in units of the dtype's epsilon (1.2e-7, 2.2e-16) ...
RELATIVE = {"exp": 1, "log": 1.5, "sqrt": 1, "sigmoid": 2, "softplus": 2, "pow": 2}
RELATIVE |= {"tanh": 2, "lgamma": 10, "digamma": 10, "exppsi": 100}
# ... or this absolute one, near the zeros of the function
ABSOLUTE = {"lgamma": 25, "digamma": 15}


@rowwise
def unary(x: Any) -> Any:
    return tuple(apply(name, x) for name in UNARY)


@rowwise
def binary(a: Any, b: Any) -> Any:
    return (*(apply(name, a, b) for name in BINARY), apply("where", a < b, a, b))


@cache
def memory() -> MatCache:
    return MatCache(threads=1)


def computed(function: Any, names: list[str], *inputs: Any) -> dict[str, Any]:
    mats = [from_array(memory(), x, f"{n} of {x.dtype} {x.shape}") for n, x in enumerate(inputs)]
    return {n: r.numpy() for n, r in zip(names, function(*mats), strict=True)}


def defined(name: str, *inputs: Any) -> Any:
    with np.errstate(all="ignore"):
        return ELEMENTWISE[name].define(*(x.astype(np.float64) for x in inputs))


def check(name: str, got: Any, wanted: Any, dtype: Any) -> None:
    """Infinities and NaN in the same places, numbers within the bounds, underflow to zero."""
    info = np.finfo(dtype)
    with np.errstate(all="ignore"):
        rounded = wanted.astype(dtype)
    special = ~np.isfinite(rounded)
    np.testing.assert_array_equal(got[special], rounded[special])
    error = np.abs(got[~special].astype(np.float64) - wanted[~special])
    bound = RELATIVE.get(name, 1) * info.eps * np.abs(wanted[~special])
    bound = np.maximum(bound, ABSOLUTE.get(name, 0) * info.eps)
    bound = np.maximum(bound, 1.5 * float(info.tiny))  # denormal results may be zero
    wrong = error > bound
    assert not wrong.any(), (name, got[~special][wrong], wanted[~special][wrong])


def samples(dtype: Any) -> Any:
    """Positive numbers of every size, densely near the zeros of lgamma and digamma."""
    rng, limit = np.random.default_rng(0), 30 if dtype == np.float32 else 280
    wide = 10 ** rng.uniform(-limit, limit, 20000)
    middle = 10 ** rng.uniform(-4, 4, 20000)
    return np.concatenate([wide, middle, rng.uniform(0.9, 2.1, 19992)]).astype(dtype).reshape(-1, 8)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_unary_operations_match_their_definition(dtype: Any) -> None:
    x = samples(dtype)
    for sign in (1, -1):
        got = computed(unary, UNARY, sign * x)
        for name in UNARY:
            if sign > 0 or name not in POSITIVE:
                check(name, got[name], defined(name, sign * x), dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_special_values(dtype: Any) -> None:
    x = np.array([[0.0, np.inf, np.nan, 1.0, 2.0, -1.0, -np.inf, -2.5]], dtype)
    got = computed(unary, UNARY, x)
    for name in UNARY:
        if name not in POSITIVE:
            check(name, got[name], defined(name, x), dtype)
        elif name in ("lgamma", "digamma", "exppsi"):
            check(name, got[name][:, :5], defined(name, x[:, :5]), dtype)
        if name in POSITIVE:
            assert np.isnan(got[name][0, 5:]).all(), name
    assert got["exppsi"][0, 0] == dtype(LEAST_EXPPSI)
    for name in ("sqrt", "log"):
        check(name, got[name], defined(name, x), dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exp_up_to_the_last_number_before_it_overflows(dtype: Any) -> None:
    largest = np.log(float(np.finfo(dtype).max))
    x = np.linspace(largest - 2, largest + 2, 4000).astype(dtype).reshape(-1, 8)
    check("exp", computed(unary, UNARY, x)["exp"], defined("exp", x), dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_binary_operations_match_their_definition(dtype: Any) -> None:
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(2, 500, 8)) * 10 ** rng.uniform(-5, 5, (2, 500, 8))
    special = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 2.5])
    a[:8], b[:8] = special[:, None], special[None]
    a, b = a.astype(dtype), b.astype(dtype)
    a[8:16] = b[8:16]  # equal ones
    got = computed(binary, [*BINARY, "where"], a, b)
    for name in BINARY:
        if name == "pow":
            continue
        wanted = defined(name, a, b) * 1.0
        if name == "div":  # the zeros' signs are not kept
            got[name], wanted = abs(got[name]), abs(wanted)
        check(name, got[name], wanted, dtype)
    np.testing.assert_array_equal(got["where"], np.where(a < b, a, b))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_powers(dtype: Any) -> None:
    rng = np.random.default_rng(2)
    a, b = rng.uniform(0.1, 5.0, (64, 8)).astype(dtype), rng.uniform(-4, 4, (64, 8)).astype(dtype)
    a[0], b[0] = (
        [0.0, 0.0, 0.0, 1.0, -2.0, -2.0, np.inf, 3.0],
        [0.0, 2.0, -1, 7.0, 3.0, 0.5, 2.0, 0],
    )
    check("pow", computed(binary, [*BINARY, "where"], a, b)["pow"], defined("pow", a, b), dtype)


floats = st.floats(width=32, allow_subnormal=False)


@settings(max_examples=60, deadline=None)
@given(arrays(np.float32, (4, 8), elements=floats))
def test_unary_operations_match_on_any_numbers(x: Any) -> None:
    got = computed(unary, UNARY, x)
    for name in UNARY:
        inside = (x > 0) | np.isnan(x) if name in POSITIVE else np.full(x.shape, True)
        check(name, got[name][inside], np.asarray(defined(name, x[inside])), np.float32)


@settings(max_examples=60, deadline=None)
@given(arrays(np.float32, (4, 8), elements=floats), arrays(np.float32, (4, 8), elements=floats))
def test_binary_operations_match_on_any_numbers(a: Any, b: Any) -> None:
    got = computed(binary, [*BINARY, "where"], a, b)
    for name in ("add", "sub", "mul", "maximum", "minimum", "less", "less_equal", "equal"):
        check(name, got[name], defined(name, a, b) * 1.0, np.float32)


def test_integers_are_kept_and_arithmetic_on_them_is_float64() -> None:
    """As docs/explanation/matrix-cache.md says: exact up to 2^53."""
    large = np.array([[2**53, -(2**53), 3]])
    with MatCache(threads=1) as cache:
        kept = from_array(cache, large + 1)
        assert kept.dtype == np.int64 and (kept.numpy() == large + 1).all()
        mat = from_array(cache, large)
        for result, wanted in ((mat - 1, large - 1), (-mat, -large), (mat / 2, large / 2)):
            assert result.mat().dtype == np.float64
            assert (result.mat().numpy() == wanted).all()
        wide = from_array(cache, large.astype(np.float64)) + from_array(
            cache, np.float32([1, 1, 1])
        )
        assert wide.mat().dtype == np.float64


def test_numbers_of_data_become_float32() -> None:
    source = MatrixSource(np.array([[2**24, 2**24 + 1]]), block_rows=1)
    block = HostBlock(source.shape)
    source.read(0, 0, block)
    assert block.dense.dtype == np.float32
    assert block.dense[0].tolist() == [2**24, 2**24]
