"""Gradients of row-wise functions against central differences, and what has none."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from blocklearn.matcache import (
    MatCache,
    ShapeError,
    TurnedProduct,
    copy,
    digamma,
    exp,
    exppsi,
    from_array,
    from_sparse,
    grad,
    lgamma,
    log,
    maximum,
    minimum,
    repeat,
    rowdot,
    rowmax,
    rowmin,
    rownnz,
    rowsum,
    rowwise,
    sddmm,
    sigmoid,
    softplus,
    sqrt,
    tanh,
    until,
    where,
)
from blocklearn.matcache.cuda import Cuda
from blocklearn.matcache.notation.elementwise import ELEMENTWISE
from blocklearn.matcache.notation.operand import apply
from blocklearn.matcache.program.derivatives import DERIVATIVES
from tests.support.backends import needs_compiler
from tests.support.cuda_device import HostDriver

rng = np.random.default_rng(0)
N, M = 9, 6
DENSE = rng.normal(size=(N, M))
U, V, W = (rng.normal(size=s) for s in ((N, 4), (M, 4), (M, 2)))
B, C = rng.normal(size=(1, 2)), rng.normal(size=(1, 4))
H = rng.normal(size=(4, 2))
Y = (rng.random((N, 2)) < 0.5) * 1.0


def data(kind: str) -> Any:
    X = sp.csr_array(sp.random_array((N, M), density=0.4, rng=1)).toarray()
    match kind:
        case "empty rows":
            X[::2] = 0.0
        case "one huge row":
            X[:] = 0.0
            X[3] = 1.0 + np.arange(M)
        case "nothing":
            X[:] = 0.0
    return sp.csr_array(X)


@cache
def memory() -> MatCache:
    return MatCache(threads=2)


def operands(cache: MatCache, args: Any, dtype: Any = np.float64) -> list[Any]:
    return [
        from_sparse(cache, a.astype(dtype))
        if sp.issparse(a)
        else from_array(cache, a.astype(dtype))
        if isinstance(a, np.ndarray)
        else a
        for a in args
    ]


def agree(got: Any, wanted: Any, rtol: float = 1e-5) -> None:
    assert len(got) == len(wanted)
    for number, (one, other) in enumerate(zip(got, wanted, strict=True)):
        other = other.data if sp.issparse(other) else np.asarray(other)
        one = np.asarray(one if isinstance(one, float) else one.numpy()).reshape(other.shape)
        np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol / 5, err_msg=str(number))


# ---------------------------------------------------------------- losses of models


@rowwise
def logistic(X: Any, W: Any, b: Any, Y: Any) -> Any:
    return softplus(X @ W + b) - Y * (X @ W + b)


@rowwise
def network(X: Any, V: Any, c: Any, H: Any, b: Any, Y: Any) -> Any:
    eta = tanh(X @ V + c) @ H + b
    return rowsum(softplus(eta) - Y * eta)


@rowwise
def machine(X: Any, V: Any, w: Any, b: Any, y: Any, scale: Any) -> Any:
    """A factorization machine of degree 2: a table is made in the call."""
    z = X @ V
    score = X @ w + b + 0.5 * (rowsum(z * z) - rowsum((X * X) @ (V * V * scale)))
    return (score - y) ** 2


@rowwise
def factors(R: Any, u: Any, V: Any, reg: Any) -> Any:
    error = R - sddmm(u, V, R)
    return rowsum(error * error) + reg * rowdot(u, u)


@rowwise
def rounds(X: Any, u: Any, V: Any, scale: Any) -> Any:
    """A loop, a largest entry, a choice, and factors of columns."""
    z = copy(u)
    for _ in repeat(2):
        z <<= 0.5 * z + tanh((X * scale) @ V - z * maximum(z, 0.1))
    top = rowmax(z)
    partition = top + log(rowsum(exp(z - top)))
    return partition + rowsum(where(z > 0.0, sqrt(abs(z)), z / 2.0)) + rownnz(X) * rowsum(u)


LOSSES: dict[str, tuple[Any, tuple[str, ...], tuple[Any, ...]]] = {
    "logistic": (logistic, ("W", "b", "X"), (W, B, Y)),
    "logistic of one": (logistic, ("W", "b"), (W[:, :1], B[:, :1], Y[:, :1])),
    "network": (network, ("V", "c", "H", "b"), (V, C, H, B, Y)),
    "network of one": (network, ("V", "c", "H", "b"), (V[:, :1], C[:, :1], H[:1, :1], B[:, :1], Y)),
    "machine": (machine, ("V", "w", "b", "scale"), (V, W[:, :1], 0.3, Y[:, :1], 1.1)),
    "factors": (factors, ("u", "V", "reg", "R"), (U, V, 0.3)),
    "rounds": (rounds, ("u", "V", "scale"), (U, V, rng.normal(size=(1, M)))),
}


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_are_differences_of_the_loss(name: str) -> None:
    loss, by, args = LOSSES[name]
    function = grad(loss, *by, value=True)
    for kind in ("plain", "empty rows", "one huge row", "nothing"):
        given = (data(kind), *args)
        agree(function(*operands(memory(), given)), function.reference(*given))


@pytest.mark.parametrize("name", ["logistic", "logistic of one", "network"])
def test_of_dense_data_too(name: str) -> None:
    """Products of whole matrices are computed by BLAS, before and after the kernel."""
    loss, by, args = LOSSES[name]
    function = grad(loss, *by)
    agree(function(*operands(memory(), (DENSE, *args))), function.reference(DENSE, *args))


@needs_compiler
@pytest.mark.parametrize("name", ["network", "machine", "rounds"])
def test_on_a_device(name: str) -> None:
    loss, by, args = LOSSES[name]
    function = grad(loss, *by)
    with MatCache(backend=Cuda(HostDriver())) as cache:
        given = (data("plain"), *args)
        got = function(*operands(cache, given, np.float32))
        agree(got, function.reference(*given), rtol=2e-3)


# ---------------------------------------------------------------- operations

POINTS = np.array([[0.3, 0.7, 1.2, 2.5], [0.9, 1.7, 0.2, 3.1]])
OTHERS = np.array([[1.1, 0.4, 2.2, 0.6], [0.5, 1.3, 0.8, 2.7]])


def test_every_operation_has_a_rule_or_is_named() -> None:
    """Each at points where it is smooth."""

    def every(a: Any, b: Any, c: Any) -> Any:
        found = 0.0
        for weight, (name, op) in enumerate(ELEMENTWISE.items(), 1):
            if name in DERIVATIVES:
                args = ((a - b, a, b * 2.0) if name == "where" else (a, b))[: op.arity]
                found = found + apply(name, *args) * (0.1 * weight)
        both = maximum(a, 1.0) ** -0.5 + 2.0**b + minimum(1.0, b) / a + rowmin(a) * rowmax(b)
        return found + both + sigmoid(a * c) + lgamma(b) - tanh(c)

    function = grad(every, "a", "b", "c")
    args = (POINTS, OTHERS, np.array([[0.2, 0.1, -0.3, 0.8]]))
    agree(function(*operands(memory(), args)), function.reference(*args))
    missing = set(ELEMENTWISE) - set(DERIVATIVES)
    assert missing == {"digamma", "exppsi"}


@pytest.mark.parametrize("k", [1, 4])
def test_parts_that_all_rows_share(k: int) -> None:
    """Rows, numbers and columns; what does not depend on an argument is 0."""

    def shared(x: Any, row: Any, number: Any, unused: Any) -> Any:
        return rowsum(x * row) * number + rowsum(row) + 0.0 * rowsum(x)

    function = grad(shared, "row", "number", "x", "unused")
    args = (POINTS[:, :k], OTHERS[:1, :k], np.array([[1.5]]), OTHERS[:, :k])
    agree(function(*operands(memory(), args)), function.reference(*args))


def test_a_gradient_by_a_table_of_sparse_data_is_not_made_before_it_is_used() -> None:
    by_w, by_b = grad(logistic, "W", "b")(*operands(memory(), (data("plain"), W, B, Y)))
    assert isinstance(by_w, TurnedProduct) and by_w.dense.shape == (N, 2)
    assert by_b.shape == (1, 2)


def test_records_and_equal_computations() -> None:
    @rowwise
    def of_pair(pair: Any, y: Any) -> Any:
        x, w = pair
        return (rowsum(x * w) - y) ** 2 + (rowsum(x * w) - y)

    function = grad(of_pair, "pair.1")
    x, w, y = operands(memory(), (POINTS, OTHERS[:1], OTHERS[:, :1]))
    error = (POINTS * OTHERS[:1]).sum(axis=1, keepdims=True) - OTHERS[:, :1]
    wanted = ((2 * error + 1) * POINTS).sum(axis=0, keepdims=True)
    agree([function((x, w), y)], [wanted])
    plan = function.kernel.compile((x, w), y).plan
    sums = [i for i in plan.program.body if type(i).__name__ == "Reduce"]
    assert len(sums) == 1


# ---------------------------------------------------------------- what has no gradient


def test_what_cannot_be_differentiated_is_named() -> None:
    x, count, table = operands(memory(), (POINTS, np.array([[3.0]]), OTHERS))

    def looping(times: Any, x: Any) -> Any:
        z = copy(x)
        for _ in repeat(times):
            z <<= z * 0.5
        return rowsum(z)

    def leaving(x: Any) -> Any:
        z = copy(x)
        for _ in repeat(3):
            z <<= z * 0.5
            until(rowsum(z) < 1.0)
        return rowsum(z)

    here = r"test_gradients\.py:\d+"
    cases: list[tuple[str, Any, tuple[Any, ...]]] = [
        (rf"exppsi at .*{here}: has no derivative", lambda x: exppsi(x), (x,)),
        (rf"digamma at .*{here}: has no derivative", lambda x: digamma(x), (x,)),
        (rf"repeat at .*{here}: must have 1 to 64", lambda x, n: looping(n, x), (x, count)),
        ("must have 1 to 64 rounds", lambda x: looping(65, x), (x,)),
        (rf"until at .*{here}: rows that leave", leaving, (x,)),
        (rf"<<= to the argument 'x' at .*{here}", lambda x: x.__ilshift__(x * 2.0), (x,)),
        ("must be one value", lambda x: (x, x), (x,)),
        ("by='x': must be an argument of the loss: a", lambda a: a, (x,)),
    ]
    for message, loss, args in cases:
        with pytest.raises(ShapeError, match=message):
            grad(loss, "x")(*args)
    number: Any = 3
    with pytest.raises(ShapeError, match="grad: loss=3: must be a @rowwise function"):
        grad(number, "x")
    with pytest.raises(ShapeError, match="rowwise: 3: must be a function"):
        rowwise(number)
    with pytest.raises(ShapeError, match="must name at least one"):
        grad(logistic)
    with pytest.raises(ShapeError, match="within a @rowwise function"):
        rowwise(lambda x: grad(lambda x: x * x, "x")(x))(x)
