"""Matrix factorisation by alternating least squares, of ratings and of implicit feedback.

Explicit ratings: Zhou, Wilkinson, Schreiber, Pan, *Large-scale parallel collaborative filtering for
the Netflix prize*, AAIM 2008 (ALS-WR). Implicit feedback: Hu, Koren, Volinsky, *Collaborative
filtering for implicit feedback datasets*, ICDM 2008. Conjugate gradients in place of an exact
solve: Takács, Pilászy, Tikk, RecSys 2011. Biases are solved for together with the factors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from blocklearn.matcache import (
    Mat,
    ShapeError,
    Sparse,
    Table,
    colsum,
    from_array,
    gram,
    rownnz,
    solve_rows,
    total,
)
from blocklearn.matcache.operations.normal_equations import MOST
from blocklearn.optimizers import AdaGrad, Optimizer

from .als_items import ItemEquations, ItemGradients, equations_bytes, mib, why_not_equations
from .als_rows import (
    Feedback,
    LeastSquares,
    conjugate_gradients,
    losses,
    normal_equations,
    norms_of,
    typical_squares,
)
from .base import Block, Model, Randomness, Shapes
from .row_state import RowState
from .score import Score, Sum


class ALS(Model):
    """Factors of users and items from a sparse matrix [users x items]; what it does not store is
    unknown (explicit ratings), or has been seen zero times (implicit feedback).

    State of rows: `users` [n x K] and `items` [m x K]; the parameter `mean` [1 x 1] is that of all
    ratings (0 for implicit feedback). The prediction is mean + users[u] . items[i]. With biases a
    user's row is (x, b_u, 1) and an item's row (y, 1, b_i), K = rank + 2; otherwise K = rank.

    Minimised are the sum of (r - prediction)^2 over all ratings, or of c (p - prediction)^2 over
    all users and items, c = 1 + alpha |r| and p = 1 where r > 0, else 0; plus reg times the squares
    of all factors and biases, each row's (weighted) times the number of its entries. Users and
    items without any entry get zeros, but for items that move by gradient steps. With reg 0,
    factors that a row's entries leave open are 0 (cholesky), or what they were (cg).

    A stored zero is a rating of 0; a SciPy matrix that stores an entry twice has the sum of both;
    weights of rows do not count.
    """

    row_states: ClassVar[Mapping[str, int]] = {"users": 0, "items": 1}
    kind: Literal["als"] = "als"
    loss: Literal["explicit", "implicit"] = Field(
        "explicit", description="explicit: values are ratings; implicit: how often, how long"
    )
    rank: int = Field(64, ge=1, description="number of factors, k")
    reg: float = Field(
        0.05, ge=0, lt=1e30, description="weight of the squares of the factors; 0: none"
    )
    weighted: bool = Field(
        True, description="reg is times the number of a row's entries (ALS-WR); false: plain"
    )
    biases: bool | None = Field(
        None, description="whether users and items have biases; null: with the explicit loss"
    )
    alpha: float = Field(
        1.0, gt=0, lt=1e30, description="implicit: what an entry of 1 adds to its confidence"
    )
    solver: Literal["cg", "cholesky"] = Field(
        "cg", description="conjugate gradients from the last pass's factors, or exactly"
    )
    cg_steps: int = Field(3, ge=1, description="steps of conjugate gradients for each row and pass")
    item_equations_mib: int = Field(
        1024, ge=0, description="of sums that solve for items, where data are rows of users only"
    )
    init_scale: float = Field(0.01, gt=0, lt=1e3, description="standard deviation of first factors")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.loss == "implicit" and self.biases:
            raise ValueError("the implicit loss has no biases; leave `biases` out, or false")
        if self.solver == "cholesky" and self.columns > MOST:
            raise ValueError(
                f"cholesky solves for up to {MOST} numbers a row, biases included, not "
                f"{self.columns}; use solver: cg"
            )
        return self

    @property
    def needs_value_sums(self) -> bool:
        """Of explicit ratings the mean is taken off; and how many entries an item has."""
        return True

    @property
    def columns(self) -> int:
        """K: numbers of a user, and of an item."""
        return self.rank + 2 * self.has_biases

    @property
    def has_biases(self) -> bool:
        """Whether rows have biases."""
        return self.loss == "explicit" if self.biases is None else self.biases

    def default_optimizer(self) -> Optimizer:
        """For items that can neither be visited nor be summed up: see `allocate`."""
        return AdaGrad(rate=0.1)

    # ------------------------------------------------------------- life

    def allocate(self, shapes: Shapes, rng: Randomness) -> None:
        """Users start at zero, items at random.

        Where the data come as rows of users only, the items' equations are summed up, or, where
        these sums are too large, an optimizer moves the items after each block.
        """
        K, sums = self.columns, shapes.value_sums
        self.mean = self.parameter("mean", 1, 1)
        if sums is not None and sums.number and self.loss == "explicit":
            self.mean <<= sums.total / sums.number
        self.feedback = Feedback(self.mean, self.alpha if self.loss == "implicit" else None)
        self.total_rows = shapes.total_rows
        users, items = self.constants()
        scales = np.where(np.arange(K) < self.rank, self.init_scale, 0.0)
        self.fixed = [self.row(users, "constants of users"), self.row(items, "constants of items")]
        self.free = [
            self.row(1.0 - row, name) if self.has_biases else None
            for row, name in ((users, "what users choose"), (items, "what items choose"))
        ]
        self.users = self.row_state("users", shapes, K, users)
        self.guess = self.scratch("factors of new rows", shapes.rows, K)
        self.share = self.number("share of the block in all rows")
        self.item_rows: RowState | None = None  # None: items are a parameter
        self.item_equations: ItemEquations | None = None
        self.item_gradients: ItemGradients | None = None
        self.needs_optimizer = False
        if shapes.sides == 2:
            self.item_rows = self.row_state("items", shapes, K, ("normal", scales, items))
        else:
            noise = 12**0.5 * (rng.uniform(shapes.columns, K) - 0.5)
            scale = self.row(scales, "scale of first items")
            self.parameter("items", shapes.columns, K, scale * noise + self.fixed[1])
            self._learn_items(shapes)

    def _learn_items(self, shapes: Shapes) -> None:
        """Choose how items are learned from rows of users."""
        problem = (self, shapes, self.items, self.free[1], self.feedback)
        reason = why_not_equations(*self.items.shape, self.item_equations_mib * 2**20)
        if reason is None:
            self.item_equations = ItemEquations(*problem)
            size = mib(equations_bytes(*self.items.shape))
            self.notes.append(
                f"items: their equations are summed over each pass and solved at its end ({size}); "
                "the data come as rows of users only"
            )
            return
        self.needs_optimizer = True
        number = 0 if shapes.value_sums is None else shapes.value_sums.number
        entries = max(number / shapes.columns, 1.0) if self.weighted else 1.0
        self.item_gradients = ItemGradients(*problem, self.reg * entries)
        self.notes.append(
            f"items: steps of an optimizer after each block, not solved exactly: the data come as "
            f"rows of users only, and {reason} (item_equations_mib)"
        )

    def constants(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """What never changes in the rows of users and items: ones where the other has its bias."""
        users, items = np.zeros(self.columns, np.float32), np.zeros(self.columns, np.float32)
        if self.has_biases:
            users[-1] = items[-2] = 1.0
        return users, items

    def row(self, values: NDArray[np.floating], name: str) -> Mat:
        """A row of constants [1 x K]."""
        return from_array(self.cache, values[None].astype(np.float32), name)

    @property
    def items(self) -> Mat:
        """The rows of all items [m x K]."""
        return self.parameters["items"] if self.item_rows is None else self.item_rows.table

    # ------------------------------------------------------------- training

    def update(self, block: Block) -> None:
        """The factors of the block's rows, given those of the other side."""
        X = self.entries(block)
        if block.side == 1:
            assert self.item_rows is not None
            self.solve(X, self.item_rows.rows, self.users.table, 1, self.cg_steps)
            return
        u = self.users.rows
        self.solve(X, u, self.items, 0, self.cg_steps)
        if self.item_equations is not None:
            self.item_equations.add(X, u)
        elif self.item_gradients is not None:
            self.updates["items"] = self.item_gradients.of(X, u, block.rows)

    def end_pass(self) -> None:
        """Items whose equations were summed up."""
        if self.item_equations is not None:
            self.item_equations.solve(self.reg, self.weighted)

    def solve(
        self, X: Sparse, u: Mat, table: Mat, side: int, steps: int, tolerance: float = 0.0
    ) -> None:
        """Assign to u [rows x K] the factors that explain the entries of X, rows of a side."""
        equations = self.equations(X, table, side)
        G = equations.G
        if self.solver == "cholesky":
            weights, right, ridge = normal_equations(equations, u)
            u <<= solve_rows(weights, table, ridge, right, gram=G, free=equations.free)
        else:
            typical = typical_squares(table, self.free[1 - side])
            of_gram = None if G is None else colsum(table * table)
            conjugate_gradients(equations, u, typical, of_gram, steps, tolerance)

    def equations(self, X: Sparse, table: Mat, side: int) -> LeastSquares:
        """Of the rows X of a side, the other side being the table."""
        G = self.gram_of(table)
        return LeastSquares(X, table, G, self.free[side], self.feedback, self.reg, self.weighted)

    def gram_of(self, table: Mat) -> Table | None:
        """G; None for explicit ratings. It is computed again only when the table has changed."""
        return gram(table) if self.loss == "implicit" else None

    def entries(self, block: Block) -> Sparse:
        """X of a block, which must be sparse."""
        if block.X.pattern is None:
            raise ShapeError(
                "ALS: the data are a dense matrix, in which nothing is unknown; pass a sparse one "
                "that stores what is known, such as scipy.sparse.csr_array(X)."
            )
        return block.X

    # ------------------------------------------------------------- using it

    def score(self, block: Block) -> Score:
        """How well further entries of the training rows are predicted.

        rmse: root of the mean of (r - prediction)^2; of implicit feedback, of (p - prediction)^2
        with weights c, over the entries. mae: mean of |r - prediction| (explicit only). objective:
        per entry, what training minimises; of the training data it never rises (with other data,
        penalties make it hard to compare).
        """
        X, table = self.entries(block), self.items
        norms = norms_of(table, self.free[1])
        squared, absolute, confidence, objective = losses(
            self.equations(X, table, 0), self.users.rows, norms
        )
        count = total(rownnz(X))
        whole = total(objective)
        if not self.weighted:
            self.share.set(block.rows / self.total_rows)
            whole = (whole + self.reg * self.share * total(norms)).mat()
        figures: Score = {"rmse": Sum(total(squared), total(confidence), "root")}
        if self.loss == "explicit":
            figures["mae"] = Sum(total(absolute), count)
        return figures | {"objective": Sum(whole, count)}

    def predict(self, block: Block) -> Mat:
        """Factors of new rows [rows x K] from their entries alone; `block.side` 1: of new items."""
        u, table = self.guess, self.users.table if block.side else self.items
        u <<= self.fixed[block.side]
        self.solve(self.entries(block), u, table, block.side, 2 * self.columns + 20, 1e-11)
        return u
