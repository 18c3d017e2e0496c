"""Factorise ratings or implicit feedback by alternating least squares.

Explicit ratings: Zhou, Wilkinson, Schreiber, Pan, *Large-scale parallel collaborative filtering for
the Netflix prize*, AAIM 2008 (ALS-WR). Implicit feedback: Hu, Koren, Volinsky, *Collaborative
filtering for implicit feedback datasets*, ICDM 2008. Conjugate gradients in place of an exact
solve: Takács, Pilászy, Tikk, RecSys 2011. Biases are solved for together with the factors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from blocklearn.matcache import (
    Mat,
    Sparse,
    Table,
    colsum,
    from_array,
    gram,
    rownnz,
    solve_rows,
    total,
)
from blocklearn.matcache.operations.local import local, local_table
from blocklearn.optimizers import Penalty

from ..inputs import Block, Needs, Randomness, Shapes
from ..score import Score, Sum
from ..states.row_state import RowState
from ..undecided import not_chosen
from .items import ItemEquations, ItemGradients, equations_bytes, mib, why_not_equations
from .rows import (
    Feedback,
    LeastSquares,
    Ridge,
    conjugate_gradients,
    losses,
    normal_equations,
    norms_of,
    take_rows,
    typical_squares,
)
from .settings import ALSSettings


class ALS(ALSSettings):
    """Learns factors of users and items from a sparse matrix [users x items].

    An entry that is not stored is unknown (explicit ratings), or was seen zero times (implicit
    feedback). The prediction is mean + users[u] . items[i].

    State of rows: `users` [n x K], `items` [m x K].
    Parameter: `mean` [1 x 1], the mean of all ratings; 0 for implicit feedback.
    K: rank + 2 with biases, where a user's row is (x, b_u, 1) and an item's row is (y, 1, b_i);
    otherwise rank.

    The objective is a sum of squared errors plus a penalty:

    - Explicit: (r - prediction)^2 over all ratings.
    - Implicit: c (p - prediction)^2 over all users and items, with c = 1 + alpha |r|, and p = 1
      where r > 0, else 0.
    - Penalty: (row_reg + n reg) |f|^2 for the factors f of each row; n is the number of its entries
      (1 if not `weighted`). The square of its bias has the same weight, or bias_reg.

    Users and items without entries get zeros, except items that move by gradient steps. With reg 0,
    the entries of a row may not determine all its factors. The others are then 0 (cholesky), or
    keep their values (cg).

    Without `reg` it is 0.05, as in older configurations, and may be worse than biases alone: "auto"
    needs trials, which `bl.choose`, the estimator and `learn train` make, but no `Learner`.

    A stored zero is a rating of 0. Entries that a SciPy matrix stores twice are summed. Weights of
    rows are ignored.
    """

    row_states: ClassVar[Mapping[str, int]] = {"users": 0, "items": 1}
    has_mean: ClassVar[bool] = True
    needs: ClassVar[Needs] = Needs(value_sums=True)  # the mean rating, and entries of an item

    # ------------------------------------------------------------- life

    def allocate(self, shapes: Shapes, rng: Randomness) -> None:
        """Set users to zero and items to random factors.

        If the data come as rows of users only, each pass sums the equations of the items. If the
        sums are too large for that, an optimizer moves the items after each block.
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
        self.ridges = [self._ridge(users, items, "users"), self._ridge(items, users, "items")]
        self.users = self.row_state("users", shapes, K, users)
        self.users.read_in_order = shapes.states_in_files and not shapes.on_gpu
        self.users_by_need, self.on_gpu = shapes.rows_by_need, shapes.on_gpu
        self.identity = from_array(self.cache, np.eye(K, dtype=np.float32), "identity")
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

    def _ridge(self, constant: NDArray[np.float32], bias: NDArray[np.float32], side: str) -> Ridge:
        """Return the penalty of the rows of a side.

        constant, bias: [K], 1 in the column that is constant, and in that of the bias.
        """
        if self.reg == "auto":
            raise not_chosen(self)
        row, entry = self.row_reg, self.reg
        if not self.weighted:
            row, entry = row + entry, 0.0
        if not self.has_biases:
            return Ridge(None, row, entry, None)
        free = self.row(1.0 - constant, f"what {side} choose")
        if self.bias_reg is None:
            return Ridge(free, row, entry, None)
        factors = self.row(1.0 - constant - bias, f"factors of {side}")
        return Ridge(
            free, row, entry, (factors, self.row(self.bias_reg * bias, f"ridge of {side}"))
        )

    def _learn_items(self, shapes: Shapes) -> None:
        """Choose how to learn items from rows of users."""
        ridge = self.ridges[1]
        reason = why_not_equations(*self.items.shape, self.item_equations_mib * 2**20)
        if reason is None:
            self.item_equations = ItemEquations(self, self.items, ridge, self.feedback)
            size = mib(equations_bytes(*self.items.shape))
            self.notes.append(
                f"items: their equations are summed over each pass and solved at its end ({size}); "
                "the data come as rows of users only"
            )
            return
        self.needs_optimizer = True
        self.item_gradients = ItemGradients(self, self.items, ridge, self.feedback)
        self._penalise_items(shapes)
        self.notes.append(
            f"items: steps of an optimizer after each block, not solved exactly: the data come as "
            f"rows of users only, and {reason} (item_equations_mib)"
        )

    def _penalise_items(self, shapes: Shapes) -> None:
        """Let the optimizer apply the penalty of an item with an average number of entries.

        The gradients are those of the mean loss of rows, so the penalty is divided by their number.
        """
        number = 0 if shapes.value_sums is None else shapes.value_sums.number
        average = self.ridges[1].weights(max(number / shapes.columns, 1.0))
        users, items = self.constants()
        biases = users * (average if self.bias_reg is None else self.bias_reg)
        weights = np.where(users + items, biases, average)  # 0 in the column that is constant
        self.terms["items"] = [Penalty(l2=list(2.0 / shapes.total_rows * weights))]
        self.penalised = ["items"]

    def row(self, values: NDArray[np.floating], name: str) -> Mat:
        """Return a row of constants [1 x K]."""
        return from_array(self.cache, values[None].astype(np.float32), name)

    @property
    def items(self) -> Mat:
        """The rows of all items [m x K]."""
        return self.parameters["items"] if self.item_rows is None else self.item_rows.table

    # ------------------------------------------------------------- training

    def update(self, block: Block) -> None:
        """Solve for the factors of the block's rows, given those of the other side."""
        X = self.entries(block)
        if block.side == 1:
            assert self.item_rows is not None
            self.solve(X, self.item_rows.rows, 1, self.cg_steps)
            return
        u = self.users.rows
        self.solve(X, u, 0, self.cg_steps)
        if self.item_equations is not None:
            self.item_equations.add(X, u)
        elif self.item_gradients is not None:
            self.updates["items"] = self.item_gradients.of(X, u, block.rows)

    def end_pass(self) -> None:
        """Solve for the items, if their equations were summed over the pass."""
        if self.item_equations is not None:
            self.item_equations.solve()

    def solve(self, X: Sparse, u: Mat, side: int, steps: int, tolerance: float = 0.0) -> None:
        """Assign to u [rows x K] the factors that best explain the rows X.

        side: 0 where the rows of X are users, 1 where they are items.
        steps, tolerance: of conjugate gradients.
        """
        equations = self.equations(X, side)
        G, ridge = equations.G, equations.ridge
        if self.solver == "cholesky":
            entries, right, weights = normal_equations(equations, u)
            u <<= solve_rows(
                entries, equations.V, weights, right,
                gram=G, free=ridge.free, diagonal=ridge.diagonal,
            )  # fmt: skip
        else:
            some = self.users.sample if side and not self.on_gpu else self.table(side)
            typical = typical_squares(some, self.ridges[1 - side].free)
            of_gram = None if G is None else colsum(G * self.identity)
            conjugate_gradients(equations, u, typical, of_gram, steps, tolerance)

    def equations(self, X: Sparse, side: int) -> LeastSquares:
        """Return the equations of rows X of `side`, given the factors of the other side."""
        G = self.gram(side) if self.implicit else None
        R, V = self.near(X) if side else (X, self.items)
        return LeastSquares(R, V, G, self.ridges[side], self.feedback)

    def table(self, side: int) -> Mat:
        """Return the factors of all rows of the other side."""
        return self.users.table if side else self.items

    def gram(self, side: int) -> Table:
        """Return G of the other side; it is computed only if that changed."""
        if side and self.trains_items and not self.on_gpu:
            return self.users.gram
        return gram(self.table(side))

    @property
    def trains_items(self) -> bool:
        """Whether the present block is one of items that are trained."""
        return self.item_rows is not None and self.item_rows.updating

    def near(self, X: Sparse) -> tuple[Sparse, Table]:
        """Return the entries of items, and a table of the users that occur, if that is smaller.

        Workers bring their users to the block where these train items. Of a file, users are copied
        in its order, and then read in that of the entries.
        """
        brought = self.users_by_need and self.trains_items
        if not (brought or self.users.read_in_order) or (near := local(X)) is X:
            return X, self.users.table
        if brought:
            return near, self.users.near(near)
        rows = local_table(near, self.columns, "users of the block")
        take_rows(near.T, rows, self.users.table)
        return near, rows

    # ------------------------------------------------------------- using it

    def score(self, block: Block) -> Score:
        """Score predictions of further entries of the training rows.

        rmse: root of the mean of (r - prediction)^2 over the entries. With implicit feedback, of
            (p - prediction)^2, weighted by c.
        mae: mean of |r - prediction|; explicit ratings only.
        objective: the training objective per entry. It never rises on the training data; penalties
            make it hard to compare on other data.
        """
        X, table = self.entries(block), self.items
        ridge = self.ridges[1]
        norms = norms_of(table, ridge.free if ridge.diagonal is None else ridge.diagonal[0])
        squared, absolute, confidence, objective = losses(
            self.equations(X, 0), self.users.rows, norms
        )
        count = total(rownnz(X))
        whole = total(objective)
        if ridge.row or ridge.diagonal is not None:  # of every item, whatever its entries
            rest = ridge.row * total(norms)
            if ridge.diagonal is not None:
                rest = rest + total(ridge.diagonal[1] * table * table)
            self.share.set(block.rows / self.total_rows)
            whole = (whole + self.share * rest).mat()
        figures: Score = {"rmse": Sum(total(squared), total(confidence), "root")}
        if self.loss == "explicit":
            figures["mae"] = Sum(total(absolute), count)
        return figures | {"objective": Sum(whole, count)}

    def predict(self, block: Block) -> Mat:
        """Return factors [rows x K] of new users; of new items where `block.side` is 1."""
        u = self.guess
        u <<= self.fixed[block.side]
        self.solve(self.entries(block), u, block.side, 2 * self.columns + 20, 1e-11)
        return u
