"""Rank items for users by a sampled softmax.

The loss: Rendle and others, *BPR*, UAI 2009, with more than one negative: Wu and others, *On the
effectiveness of sampled softmax loss for item recommendation*, ACM TOIS 42 (2024). Negatives are
drawn by popularity, and weighted so that the loss is that of a softmax over all items.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from blocklearn.datasources import DataSource
from blocklearn.datasources.sampling.negatives import NegativeSource
from blocklearn.matcache import Mat, from_array, total
from blocklearn.optimizers import AdaGrad, Gradient, Optimizer, Penalty

from ..factor_model import FactorModel
from ..inputs import Block, Needs, Randomness, Shapes, one_or_more
from ..score import Score, Sum
from ..undecided import Undecided, not_chosen
from .softmax import Descent, descend, standing

FOLD = 50  # steps for a new user
DRAWS = 512  # negatives of scores and predictions
REGS = (0.3, 0.1, 1.0, 3.0)  # to choose among


class Ranking(FactorModel):
    """Learns factors of users and items from what users have, to rank what they have not.

    An entry above 0 is a positive: the user has the item. How large it is does not matter. Weights
    of rows are ignored. The score of an item for a user is users[u] . items[i].

    State of rows: `users` [n x K], where a row is (x, 1).
    Parameter: `items` [m x K], where a row is (y, b_i); the bias says how popular the item is.
    K: rank + 1.

    For each positive i of a user, the loss is -log(e^s_i / (e^s_i + Z)), where Z estimates the sum
    of e^s over all items that the user does not have, from `negatives` of them: see `softmax.py`.
    To it come reg/2 |x|^2 and reg/2 |y|^2 for each positive. Items move by the optimizer after each
    block. A user's factors take `steps` of AdaGrad in each pass, from where they were.
    """

    row_states: ClassVar[Mapping[str, int]] = {"users": 0, "users_squares": 0}
    implicit: ClassVar[bool] = True
    needs: ClassVar[Needs] = Needs(value_sums=True)  # the number of positives
    kind: Literal["ranking"] = "ranking"
    rank: int = Field(64, ge=1, description="number of factors, k")
    reg: Annotated[float, Field(ge=0, lt=1e30)] | Literal["auto"] = Field(
        0.3,
        description="weight of half the squares of factors, per positive; auto: chosen by short "
        "trainings, judged on held-out entries",
    )
    negatives: int = Field(64, ge=1, le=2**20, description="items drawn for each user and pass")
    popularity: float = Field(
        0.5, ge=0, le=2, description="items are drawn by their number of users to this power"
    )
    steps: int = Field(3, ge=1, le=1000, description="steps of each user's factors in a pass")
    rate: float = Field(0.3, gt=0, lt=1e3, description="length of a user's first step")
    init_scale: float = Field(
        0.1, gt=0, lt=1e3, description="standard deviation of the initial factors of items"
    )

    @property
    def factors(self) -> int:
        """The number of factors."""
        return self.rank

    @property
    def columns(self) -> int:
        """K, the length of a user's row and of an item's row."""
        return self.rank + 1

    @property
    def items(self) -> Mat:
        """The rows of all items [m x K]."""
        return self.parameters["items"]

    @property
    def undecided(self) -> Undecided | None:
        """`reg=auto`, judged by lists of ten items, or None."""
        if self.reg != "auto":
            return None
        return Undecided("reg=auto", "ndcg@10", lambda values: [{"reg": reg} for reg in REGS])

    def default_optimizer(self) -> Optimizer:
        """Return AdaGrad, for the items."""
        return AdaGrad(rate=0.1)

    def prepared(self, source: DataSource, seed: int, *, train: bool) -> DataSource:
        """Return `source` with negatives: of its own for each row and pass, or always the same."""
        if train:
            return NegativeSource(source, self.negatives, self.popularity, seed, room=DRAWS)
        return NegativeSource(source, DRAWS, 0.0, seed=0, same=True)  # also of a loaded model

    def allocate(self, shapes: Shapes, rng: Randomness) -> None:
        """Set users to zero and items to random factors without bias."""
        if self.reg == "auto":
            raise not_chosen(self)
        K = self.columns
        factors = np.where(np.arange(K) < self.rank, 1.0, 0.0)
        self.free = from_array(self.cache, factors[None].astype(np.float32), "factors of users")
        noise = (rng.uniform(shapes.columns, K) - 0.5) * (self.init_scale * 12**0.5)
        self.parameter("items", shapes.columns, K, noise * self.free)
        self.penalised = ["items"]
        if shapes.value_sums is not None:  # that of an item with an average number of positives
            each = shapes.value_sums.number / shapes.columns
            self.terms["items"] = [Penalty(l2=self.reg * each / shapes.total_rows)]
        self.users = self.row_state("users", shapes, K, 1.0 - factors)
        self.squares = self.row_state("users_squares", shapes, 1)
        self.guess = self.scratch("factors of new rows", shapes.rows, K)
        self.guess_squares = self.scratch("squares of new rows", shapes.rows, 1)
        self.descent = Descent(self.free, self.rate, self.reg)
        self.scale = self.number("1 per row of the block")

    def update(self, block: Block) -> None:
        """Step the factors of the block's users, and give the items' gradient."""
        X, x = self.entries(block), self.users.rows
        slopes = descend(X, x, self.squares.rows, self.items, self.descent, self.steps)
        self.scale.set(1.0 / one_or_more(block.rows))
        self.updates["items"] = Gradient(slopes, (self.scale * x).mat())

    def score(self, block: Block) -> Score:
        """Score further positives of the training users.

        above_random: share of random items that score below the mean of a user's positives, mean
            over users. 512 items are drawn, the same for every user; those that the user had in
            training are among them.
        """
        below, drawn = standing(self.entries(block), self.users.rows, self.items)
        return {"above_random": Sum(total(below), total(drawn))}

    def predict(self, block: Block) -> Mat:
        """Return factors [rows x K] of new users."""
        x = self.guess
        x <<= 1.0 - self.free
        self.guess_squares <<= 0.0
        descend(self.entries(block), x, self.guess_squares, self.items, self.descent, FOLD)
        return x

    def constants(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return the row [K] of an unknown user, and that of an unknown item."""
        users = np.zeros(self.columns, np.float32)
        users[-1] = 1.0
        return users, np.zeros(self.columns, np.float32)
