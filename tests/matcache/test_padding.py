"""Sums over the rows of a block never count the rows that it is filled up with."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
import scipy.sparse as sp

import blocklearn as bl
from blocklearn.matcache import (
    Draws,
    argmax,
    argsort,
    colsum,
    concatenate,
    exp,
    gram,
    lower,
    mean,
    qr,
    repeat,
    rowsum,
    rowwise,
    sort,
    total,
    where,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(41, 3)).astype(np.float32)
W = RNG.normal(size=(3, 2)).astype(np.float32)
SPARSE = (X * (RNG.random(X.shape) < 0.5)).astype(np.float32)


@rowwise
def row_exp(x: Any) -> Any:
    return exp(x), rowsum(x * x)


@rowwise
def growing(x: Any, u: Any) -> Any:
    for _ in repeat(3):
        u <<= u + x + 1.0
    return rowsum(u)


TRIED: dict[str, tuple[Any, Any]] = {  # of a model m and a block b; of NumPy's x
    "exp": (lambda m, b: total(exp(b.X)), lambda x: np.exp(x).sum()),
    "plus 1": (lambda m, b: (b.X + 1.0).sum(), lambda x: (x + 1).sum()),
    "square of a difference": (
        lambda m, b: total((b.X - m.row) ** 2),
        lambda x: ((x - W[:, 0]) ** 2).sum(),
    ),
    "scores": (lambda m, b: total(exp(b.X @ m.W)), lambda x: np.exp(x @ W).sum()),
    "kept": (lambda m, b: total(kept(m, b)), lambda x: np.exp(x @ W).sum()),
    "columns": (lambda m, b: total(colsum(exp(b.X))), lambda x: np.exp(x).sum()),
    "gram": (lambda m, b: total(gram(exp(b.X))), lambda x: (np.exp(x).T @ np.exp(x)).sum()),
    "product": (
        lambda m, b: total(exp(b.X).T @ (b.X + 1.0)),
        lambda x: (np.exp(x).T @ (x + 1)).sum(),
    ),
    "ones": (lambda m, b: total(m.ones @ exp(b.X)), lambda x: np.exp(x).sum()),
    "row-wise": (lambda m, b: total(row_exp(b.X)[0]), lambda x: np.exp(x).sum()),
    "row-wise, zero": (lambda m, b: total(row_exp(b.X)[1]), lambda x: (x * x).sum()),
    "a loop": (lambda m, b: total(looped(m, b)), lambda x: (3 * x + 3).sum()),
    "compared": (lambda m, b: total(b.X == 0.0), lambda x: (x == 0).sum()),
    "real rows": (lambda m, b: total(b.row_ids >= 0.0), len),
    "chosen by numbers of rows": (
        lambda m, b: total(where(b.row_ids >= 0.0, exp(b.X), 0.0)),
        lambda x: np.exp(x).sum(),
    ),
    "numbers of rows": (lambda m, b: total(b.row_ids + 1.0), lambda x: sum(range(1, len(x) + 1))),
    "weights": (lambda m, b: total(1.0 - b.weights), lambda x: 0.0),
    "factors": (
        lambda m, b: factors(b),
        lambda x: ((x + 1).T @ (x + 1)).sum() + (x + 1).sum(),
    ),
    "rows times a triangle": (
        lambda m, b: total(exp(b.X @ lower(m.W @ m.W.T))),
        lambda x: np.exp(x @ np.tril(W @ W.T)).sum(),
    ),
    "undefined": (lambda m, b: total(b.weights / b.weights), len),
    "columns of a difference": (
        lambda m, b: total((b.X - m.row)[:, 1:2] ** 2),
        lambda x: ((x[:, 1] - W[1, 0]) ** 2).sum(),
    ),
    "means of columns": (
        lambda m, b: mean((b.X + 2.0)[:, :2]) * total(b.weights),
        lambda x: (x[:, :2] + 2).sum() / 2,
    ),
    "columns times a table": (
        lambda m, b: total(exp(b.X[:, 0:2] @ m.W[0:2])),
        lambda x: np.exp(x[:, :2] @ W[:2]).sum(),
    ),
    "side by side": (
        lambda m, b: total(exp(concatenate([b.X, b.X @ m.W], axis=1))),
        lambda x: np.exp(x).sum() + np.exp(x @ W).sum(),
    ),
    "rows of a table, chosen": (
        lambda m, b: total(m.W[argmax(b.X)]), lambda x: W[x.argmax(1)].sum(),
    ),
    "orders": (
        lambda m, b: total(1.0 + argsort(b.X @ m.W)),
        lambda x: (1 + (x @ W).argsort(1)).sum(),
    ),
    "sorted": (lambda m, b: total(exp(sort(b.X))), lambda x: np.exp(x).sum()),
    "parts written": (lambda m, b: total(written(m, b)), lambda x: len(x) + 3.0 * len(x)),
    "drawn": (
        lambda m, b: total(1.0 + 0.0 * Draws(b.key).poisson((16, 1), exp(b.X[:, :1]))), len,
    ),
}  # fmt: skip


def kept(m: Any, b: Any) -> Any:
    m.scores <<= exp(b.X @ m.W)
    return m.scores


def written(m: Any, b: Any) -> Any:
    m.scores[:, 0:1] <<= 1.0 + 0.0 * b.weights
    m.scores[:, 1:2] <<= 3.0
    return m.scores


def looped(m: Any, b: Any) -> Any:
    m.rows <<= 0.0 * b.X
    return growing(b.X, m.rows)


def factors(b: Any) -> Any:
    q, r = qr(b.X + 1.0)
    return total(r.T @ r) + total(q @ r)


def model_of(tried: Any) -> bl.Model:
    class Own(bl.Model):
        def allocate(self, shapes: Any, rng: Any) -> None:
            self.sum = self.parameter("sum", 1, 1)
            self.W = self.parameter("W", 3, 2, W)
            self.row = self.parameter("row", 1, 3, W[:, :1].T)
            self.ones = self.parameter("ones", 1, shapes.rows, 1.0)
            self.scores = self.scratch("scores", shapes.rows, 2)
            self.rows = self.scratch("rows", shapes.rows, 3)

        def update(self, block: Any) -> None:
            self.sum <<= self.sum + tried(self, block)

        def score(self, block: Any) -> Any:
            return {"sum": bl.Sum(tried(self, block), 1.0)}

        def predict(self, block: Any) -> Any:
            return (block.X @ self.W).mat()

    return Own()


@pytest.mark.parametrize("name", TRIED)
def test_rows_of_padding_do_not_count(name: str) -> None:
    tried, defined = TRIED[name]
    wanted = defined(X.astype(np.float64))
    learner = bl.Learner(model_of(tried), train=X, passes=1, block_rows=16, threads=1).fit()
    assert learner.parameter("sum")[0, 0] == pytest.approx(wanted, rel=1e-5, abs=1e-3)


@pytest.mark.parametrize("name", ["scores", "kept"])
def test_of_sparse_data_too(name: str) -> None:
    tried, defined = TRIED[name]
    train = sp.csr_array(SPARSE)
    learner = bl.Learner(model_of(tried), train=train, passes=1, block_rows=16, threads=1).fit()
    wanted = defined(SPARSE.astype(np.float64))
    assert learner.parameter("sum")[0, 0] == pytest.approx(wanted, rel=1e-5)


def test_what_is_zero_there_is_left_alone() -> None:
    seen = []

    def tried(m: Any, b: Any) -> Any:
        products = (b.weights * exp(b.X @ m.W), b.X @ m.W, row_exp(b.X)[1], b.X * b.X)
        seen.extend(x.padding.number for x in products)
        return total(products[0])

    bl.Learner(model_of(tried), train=X, block_rows=16, threads=1).plan()
    assert seen and set(seen) == {0.0}


def test_rows_of_a_state_are_those_of_the_block_whatever_happened_before() -> None:
    """They are read before and after they are assigned to."""

    class Own(bl.Model):
        row_states: ClassVar = {"seen": 0}

        def allocate(self, shapes: Any, rng: Any) -> None:
            self.seen = self.row_state("seen", shapes, 1)
            self.sums = [self.parameter(name, 1, 1) for name in ("before", "after")]

        def update(self, block: Any) -> None:
            before, after = self.sums
            before <<= before + total(exp(self.seen.rows))
            rows = self.seen.rows
            rows <<= 1.0 + 0.0 * block.weights
            after <<= after + total(exp(self.seen.rows))

        def score(self, block: Any) -> Any:
            return {"mean": bl.Sum(total(exp(self.seen.rows)), block.weight)}

        def predict(self, block: Any) -> Any:
            return exp(block.weights).mat()

    for block_rows in (16, 41):
        learner = bl.Learner(Own(), X, X, passes=2, block_rows=block_rows, verbose=False).fit()
        assert learner.parameter("before")[0, 0] == pytest.approx(41 * (1 + np.e), rel=1e-5)
        assert learner.parameter("after")[0, 0] == pytest.approx(2 * 41 * np.e, rel=1e-5)
        assert learner.progress.scores["mean"] == pytest.approx(np.e, rel=1e-5)
