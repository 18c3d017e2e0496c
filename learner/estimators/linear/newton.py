"""Fit a linear estimator by Newton's method, which reads rows in memory without a learner."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from blocklearn.matcache import resolve
from blocklearn.models import GLM, Shapes
from blocklearn.models.glm.links import HINGES, KINKED
from blocklearn.models.glm.solvers.interior import InteriorSolver
from blocklearn.models.glm.solvers.newton import BYTES, NewtonSolver
from blocklearn.models.glm.solvers.proximal import Penalties, ProximalSolver
from blocklearn.models.glm.solvers.rough_rows import RoughRows
from blocklearn.models.glm.solvers.tried import TriedSolver
from blocklearn.models.glm.solvers.used_columns import UsedColumns, used_columns
from blocklearn.models.glm.solvers.wide_rows import WideSolver
from blocklearn.models.glm.sums.choice import sums_of
from blocklearn.models.glm.sums.curves import Loss

from ..base import Array
from ..row_weights import in_float64, times_class_weights
from .hessians import (
    FEW_COLUMNS,
    MOST_COPIED,
    MOST_NUMBERS,
    better_dense,
    dense,
    keeps_scores,
    numbers_of,
    products_to_try,
    uneven,
    worth_hessian,
    worth_row_products,
)
from .moments import Moments
from .passes import Fit
from .seen import Seen

MOST_PAIRS = 2**30  # bytes of what a solver keeps for the columns of W


Solver: TypeAlias = (
    NewtonSolver | UsedColumns | WideSolver | TriedSolver | ProximalSolver | InteriorSolver
)
Given: TypeAlias = tuple[Any, Any, Array | None, Loss]


@dataclass(frozen=True)
class NewtonProblem:
    """Rows, targets and weights, as Newton's method takes them.

    Y: [n x k]; softmax: of the k classes. own: weights of rows [n]; None: 1. weights: the same,
    with those of classes. l1, l2: penalties of the mean loss over `weights`.
    """

    X: Any
    Y: Any
    own: Array | None
    weights: Array | None
    l1: float
    l2: float
    loss: Loss

    @classmethod
    def of(
        cls, model: GLM, factors: Sequence[float] | None, X: Any, Y: Any, weights: Any = None
    ) -> NewtonProblem:
        """Return the problem of a model.

        factors: weights of classes. X, Y, weights: as a learner takes them.
        """
        Y = sp.csr_array(Y) if sp.issparse(Y) else Y[:, None] if Y.ndim == 1 else Y
        rows, columns = X.shape
        shapes = Shapes(rows, columns, rows, Y.shape[1], dense=not sp.issparse(X))
        fit = model.resolve(shapes)[0]
        own = None if weights is None else in_float64(rows, weights)
        weights, share = own, 1.0
        if factors is not None:
            each = in_float64(rows, own)
            weights = times_class_weights(each, Y, factors)
            share = each.sum() / max(weights.sum(), 1e-300)
        l1, l2 = share * fit.l1, share * fit.l2
        if better_dense(X) and (not l1 or fit.link in KINKED):  # coordinate descent skips zeros
            X = dense(X)
        return cls(X, Y, own, weights, l1, l2, Loss(fit.link, fit.shape or 0.0))

    def obstacle(self, device: str) -> str | None:
        """Return why Newton's method cannot solve the problem; None: it can."""
        if self.kinked and self.diagonal:
            few = "fewer rows or columns than these"
            if sp.issparse(self.X):
                few = (
                    f"dense rows, of few sparse ones, or of sparse ones of at most {FEW_COLUMNS} "
                    f"columns and {MOST_COPIED >> 20} MiB as dense ones"
                )
            return f"takes loss={self.loss.link!r} of {few}"
        if self.loss.link in HINGES and self.weights is not self.own and self.Y.shape[1] > 1:
            return "takes class_weight of two classes only, where the loss is a hinge"
        if self.weights is not None and not self.weights.any():
            return "needs rows whose weights and class_weight are not 0"
        if resolve(device) != "cpu":
            return 'runs on device="cpu"'
        return None

    @property
    def suits(self) -> bool:
        """Whether the rows and what the solver keeps are not too large."""
        (rows, features), k = self.X.shape, self.Y.shape[1]
        if self.l1 or self.kinked:
            kept = features if self.l1 and self.kinked else 0
            held = keeps_scores(numbers_of(self.X), rows, k)
            return held and BYTES * kept * k <= MOST_PAIRS
        features, numbers = rows if self.wide else features, numbers_of(self.X) + rows * k
        return bool(numbers <= MOST_NUMBERS and BYTES * features * k <= MOST_PAIRS)

    @property
    def kinked(self) -> bool:
        """Whether the loss has no second derivatives."""
        return self.loss.link in KINKED

    @cached_property
    def wide(self) -> bool:
        """Whether rows are so few that they are solved as square ones."""
        rows, columns = self.X.shape
        if sp.issparse(self.X):
            odd = self.kinked or uneven(self.weights, self.loss.link)
            return worth_row_products(self.X, self.Y.shape[1], self.loss.link, odd=odd)
        return bool(rows <= columns and worth_hessian(columns, rows))

    @property
    def diagonal(self) -> bool:
        """Whether a Hessian, or products of rows, are not worth their time."""
        return not self.wide and (sp.issparse(self.X) or not worth_hessian(*self.X.shape))

    def solver(self, intercept: bool) -> Solver:
        """Return a solver at its start."""
        X, diagonal, penalties = self.X, self.diagonal, Penalties(self.l1, self.l2)
        if sp.issparse(X):
            X = sp.csr_array(X, dtype=np.float32 if X.dtype == np.float32 else np.float64)
            if not X.has_canonical_format:
                X = X.copy()
                X.sum_duplicates()
        given = X, self.Y, self.weights, self.loss
        if self.wide and not self.l1:
            return self._wide_solver(given, intercept)
        if self.kinked:
            return InteriorSolver(*given, penalties, intercept=intercept)
        if self.l1:
            return ProximalSolver(*given, penalties, intercept=intercept)
        used = None
        if sp.issparse(X) and X.nnz < X.shape[1]:
            used, few = used_columns(X)
            given = few, *given[1:]
        sums = sums_of(*given, intercept=intercept, diagonal=diagonal)
        found = NewtonSolver(sums, l2=self.l2, intercept=intercept, diagonal=diagonal)
        return found if used is None else UsedColumns(found, used, X.shape[1])

    def _wide_solver(self, given: Given, intercept: bool) -> Solver:
        """Return a solver of few rows, which may try products with them first."""
        last = partial(WideSolver, *given, l2=self.l2, intercept=intercept)
        if self.loss.link == "linear" and self._even:
            rough = RoughRows(*given[:3], l2=self.l2, intercept=intercept)
            if rough.promising:
                return TriedSolver(rough, last)
        products = products_to_try(self.X, self.Y.shape[1], self.loss.link)
        if not products or uneven(self.weights, self.loss.link):
            return last()
        sums = sums_of(*given, intercept=intercept, diagonal=True)
        how = partial(NewtonSolver, l2=self.l2, intercept=intercept, diagonal=True)
        return TriedSolver(how(sums, products=products), last)

    @property
    def _even(self) -> bool:
        """Whether X and Y are dense, and weights of rows above 0 and near to each other."""
        dense = not (sp.issparse(self.X) or sp.issparse(self.Y))
        heard = self.weights is None or bool(self.weights.all())
        return dense and heard and not uneven(self.weights, "huber")

    def fit(self, intercept: bool) -> Fit:
        """Return a fit at its start."""
        found = self.solver(intercept)

        def passes(most: int, tolerance: float, seed: int, threads: int) -> Iterator[int]:
            return found.passes(most, tolerance, threads)

        return Fit(found, passes, partial(self.seen, found))

    def seen(self, found: Solver) -> Seen:
        """Return what `partial_fit` needs to know of the rows."""
        if self.weights is not self.own:
            return Seen.of(self.X, self.Y, self.own)
        own = in_float64(self.X.shape[0], self.own)
        columns = Moments(float(own.sum()), found.mean, found.variance)
        return Seen(columns, Moments.of(self.Y, own))
