"""The settings of ALS, and what follows from them before there are data."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from blocklearn.matcache.operations.normal_equations import MOST
from blocklearn.optimizers import AdaGrad, Optimizer

from ..block_size import BlockSize
from ..factor_model import FactorModel
from ..inputs import ValueMoments
from ..undecided import Settings, Undecided
from .ridges import ridges_to_try, with_other_biases


class ALSSettings(FactorModel):
    """Settings of `ALS`, and the columns, blocks, ridges and optimizer that suit them."""

    kind: Literal["als"] = "als"
    loss: Literal["explicit", "implicit"] = Field(
        "explicit", description="explicit: values are ratings; implicit: how often, how long"
    )
    rank: int = Field(64, ge=1, description="number of factors, k")
    reg: Annotated[float, Field(ge=0, lt=1e30)] | Literal["auto"] = Field(
        0.05,
        description="weight of the squares of the factors; 0: none; auto: it, row_reg and bias_reg "
        "are chosen by short trainings, judged on held-out entries",
    )
    weighted: bool = Field(
        True, description="multiply reg by the number of a row's entries (ALS-WR)"
    )
    row_reg: float = Field(
        0.0, ge=0, lt=1e30, description="added to the weight of the squares of each row's factors"
    )
    bias_reg: float | None = Field(
        None, ge=0, lt=1e30, description="weight of the square of a bias; null: that of its factors"
    )
    biases: bool | None = Field(
        None, description="whether users and items have biases; null: with the explicit loss"
    )
    alpha: float = Field(
        1.0, gt=0, lt=1e30, description="implicit: confidence that an entry of 1 adds"
    )
    solver: Literal["cg", "cholesky"] = Field(
        "cg", description="cg: conjugate gradients from the last factors; cholesky: exact"
    )
    cg_steps: int = Field(3, ge=1, description="steps of conjugate gradients for each row and pass")
    item_equations_mib: int = Field(
        1024,
        ge=0,
        description="most MiB of sums to solve for items, if data are rows of users only",
    )
    init_scale: float = Field(
        0.01, gt=0, lt=1e3, description="standard deviation of the initial factors"
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.loss == "implicit" and self.biases:
            raise ValueError("the implicit loss has no biases; leave `biases` out, or false")
        if self.bias_reg is not None and not self.has_biases:
            raise ValueError(
                f"bias_reg={self.bias_reg:g}: must be null without biases; leave it out"
            )
        if self.reg == "auto":
            for name, given in [("row_reg", self.row_reg), ("bias_reg", self.bias_reg)]:
                if given:
                    raise ValueError(
                        f"{name}={given:g}: must be left out with reg: auto, which chooses it; or "
                        "give reg a number"
                    )
        if self.solver == "cholesky" and self.columns > MOST:
            raise ValueError(
                f"cholesky solves for up to {MOST} numbers a row, biases included, not "
                f"{self.columns}; use solver: cg"
            )
        return self

    @property
    def factors(self) -> int:
        """The number of factors."""
        return self.rank

    @property
    def implicit(self) -> bool:
        """Whether entries say how often, not how they are rated."""
        return self.loss == "implicit"

    @property
    def columns(self) -> int:
        """K, the length of a user's row and of an item's row."""
        return self.rank + 2 * self.has_biases

    @property
    def has_biases(self) -> bool:
        """Whether rows have biases."""
        return self.loss == "explicit" if self.biases is None else self.biases

    def rows_of_block(self, rows: int | None) -> int:
        """Return large blocks: rows are solved exactly, whatever the block they are in."""
        return (self.block_size if rows is None else BlockSize(1, most=8192)).of(rows)

    def default_optimizer(self) -> Optimizer:
        """Return AdaGrad, which only items without equations use: see `allocate`."""
        return AdaGrad(rate=0.1)

    @property
    def undecided(self) -> Undecided | None:
        """`reg=auto`, judged by the rmse of ratings, or by lists of ten items; or None."""
        if self.reg != "auto":
            return None
        judged_by = "ndcg@10" if self.implicit else "rmse"
        by_entry = not self.implicit
        found = Undecided("reg=auto", judged_by, self._ridges_to_try, by_entry=by_entry)
        return replace(found, then=with_other_biases) if self.has_biases else found

    def _ridges_to_try(self, values: ValueMoments | None) -> Settings:
        """Return values of reg, row_reg and bias_reg to choose among."""
        return ridges_to_try(
            values or ValueMoments(1, 1.0, 1.0),
            alpha=self.alpha if self.loss == "implicit" else None,
            weighted=self.weighted,
            biases=self.has_biases,
        )

    def constants(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return the constants of a user's row and of an item's row, each [K].

        They are 1 where the other side has its bias, else 0.
        """
        users, items = np.zeros(self.columns, np.float32), np.zeros(self.columns, np.float32)
        if self.has_biases:
            users[-1] = items[-2] = 1.0
        return users, items
