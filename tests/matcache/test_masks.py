"""Comparisons and logic of matrices are elementwise: outside `@rowwise`, inside it, and beside
numbers of NumPy. Matrices have no truth, and are keys of dictionaries by identity.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from blocklearn.matcache import (
    MatCache,
    Rowwise,
    from_array,
    from_sparse,
    gram,
    named,
    rowwise,
    total,
    where,
)
from blocklearn.matcache.cuda import Cuda
from tests.support.cuda_device import HostDriver

A = np.array([[0.0, 1.0, 2.0], [3.0, 1.0, np.nan]], np.float32)
B = np.array([[0.0, 2.0, 2.0], [0.0, 1.0, np.nan]], np.float32)

TRIED: dict[str, Any] = {
    "a == b": lambda a, b: a == b,
    "a != b": lambda a, b: a != b,
    "a == 1": lambda a, b: a == 1.0,
    "a != 1": lambda a, b: a != 1.0,
    "1 == a": lambda a, b: 1.0 == a,
    "numpy 1 == a": lambda a, b: np.float32(1.0) == a,
    "numpy 1 != a": lambda a, b: np.float64(1.0) != a,
    "both": lambda a, b: (a > 0.5) & (b > 0.5),
    "either": lambda a, b: (a > 0.5) | (b > 0.5),
    "no": lambda a, b: ~(a > 0.5),
    "True & a": lambda a, b: True & (a > 0.5),
    "numpy True | a": lambda a, b: np.True_ | (a > 0.5),
    "of a and b": lambda a, b: where((a == b) & (b != 0.0), a, -b),
}


def of_numpy(name: str) -> Any:
    """The same text on NumPy's arrays."""
    if name == "of a and b":
        return np.where((A == B) & (B != 0.0), A, -B)
    return TRIED[name](A, B).astype(np.float32)


@pytest.mark.parametrize("name", TRIED)
def test_comparisons_and_logic_are_those_of_numpy(name: str) -> None:
    with MatCache(threads=1) as memory:
        a, b = from_array(memory, A), from_array(memory, B)
        np.testing.assert_array_equal(TRIED[name](a, b).numpy(), of_numpy(name))


@pytest.mark.parametrize("name", TRIED)
def test_they_are_the_same_in_a_rowwise_function(name: str) -> None:
    function = rowwise(TRIED[name])
    with MatCache(threads=1) as memory:
        found = function(from_array(memory, A), from_array(memory, B)).numpy()
    np.testing.assert_array_equal(found, of_numpy(name))
    np.testing.assert_array_equal(function.reference(A, B), of_numpy(name))


@pytest.mark.slow
def test_on_a_device() -> None:
    every = tuple(TRIED.values())
    function = Rowwise(lambda a, b: tuple(tried(a, b) for tried in every))
    with MatCache(backend=Cuda(HostDriver())) as memory:
        a, b = from_array(memory, A), from_array(memory, B)
        for name, found in zip(TRIED, function(a, b), strict=True):
            np.testing.assert_array_equal(found.numpy(), of_numpy(name), err_msg=name)
            np.testing.assert_array_equal(TRIED[name](a, b).numpy(), of_numpy(name), err_msg=name)


def test_of_a_sparse_matrix_the_stored_values_are_compared() -> None:
    X = sp.csr_array(np.array([[1.0, 0.0, 2.0], [0.0, 1.0, 0.0]], np.float32))
    with MatCache(threads=1) as memory:
        x = from_sparse(memory, X)
        np.testing.assert_array_equal((x == 1.0).numpy(), [1.0, 0.0, 1.0])
        assert float(total(where(x != 1.0, x, 0.0))) == 2.0


def test_nothing_of_it_has_a_truth() -> None:
    with MatCache(threads=1) as memory:
        a, b = from_array(memory, A), from_array(memory, B)
        one = named(memory, "one", (1, 1))
        for made in (a == b, a != b, a & b, a | b, ~a, one == 1.0, a.T == b.T, gram(a) != 0.0):
            with pytest.raises(TypeError, match="the truth of a matrix is not defined"):
                bool(made)
        with pytest.raises(TypeError, match="the truth of a matrix is not defined"):
            assert b in [a]  # a list compares: of two matrices that is no answer

    @rowwise
    def chooses(x: Any) -> Any:
        return x if x == 1.0 else -x

    with MatCache(threads=1) as memory, pytest.raises(TypeError, match="truth of a matrix"):
        chooses(from_array(memory, A))


def test_matrices_are_keys_by_identity() -> None:
    with MatCache(threads=1) as memory:
        a, b = from_array(memory, A), from_array(memory, A)
        assert {a: "a", b: "b"}[a] == "a" and len({a, b, a}) == 2
        assert a in [a, b] and [a, b].index(a) == 0
        assert hash(a.T) != hash(a)
