"""Describe rows by a mixture of Gaussian distributions.

Expectation maximization: Dempster, Laird, Rubin, JRSS B 39 (1977), with all rows before each step.
Block by block: Cappé, Moulines, *On-line expectation-maximization algorithm for latent data
models*, JRSS B 71 (2009); here earlier blocks are forgotten at a constant rate, as in `kmeans`.
Differs from scikit-learn's GaussianMixture: sums are taken around the present means, all components
begin with one covariance, and a component without rows stays as it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from blocklearn.matcache import (
    Column,
    Mat,
    Matrix,
    Number,
    Row,
    Rows,
    Table,
    colsum,
    exp,
    log,
    maximum,
    ones_like,
    rowmax,
    rowsum,
    rowwise,
    total,
)
from blocklearn.matcache.notation.functions import TINY

from ..base import Model
from ..block_size import BlockSize
from ..inputs import Block, Needs, Randomness, Shapes
from ..kmeans.start import rows_to_draw_from
from ..score import Score, Sum
from .forms import Diagonal, form_of
from .start import blank_components, first_components

HUGE = 1e30  # change before there were two passes


@rowwise
def below_largest(distances: Rows, constants: Row) -> tuple[Rows, Column]:
    """Return log w_c N(x; m_c, C_c) without the row's largest one, and that one.

    distances: [rows x k], squared, in units of the component's deviations.
    constants: [1 x k], log density at the mean, times the component's weight.
    """
    logs = constants - 0.5 * distances
    top = rowmax(logs)
    return logs - top, top


@rowwise
def shares(parts: Rows, top: Column, weights: Column) -> tuple[Rows, Column]:
    """Return the weighted probability of each component [rows x k], and log p of each row."""
    whole = rowsum(parts)
    return parts * (weights / whole), top + log(whole)


class GaussianMixture(Model):
    """Describes rows by k Gaussian distributions: p(x) = sum of w_c N(x; m_c, C_c).

    Parameters: `weights` [1 x k]; `means` [columns x k], one a column; `covariances`, without
    `reg_covar`, [columns x k] variances, or if full [columns x (k columns)], matrices side by side;
    `factors`, shaped like them, whose product with its transpose is the inverse of a covariance.
    """

    scores_new_rows: ClassVar[bool] = True
    kind: Literal["gaussian-mixture"] = "gaussian-mixture"
    components: int = Field(8, ge=1, description="number of distributions, k")
    covariance: Literal["diagonal", "spherical", "full"] = Field(
        "diagonal", description="of each component: variances, one variance, or a matrix"
    )
    reg_covar: float = Field(1e-6, ge=0, description="added to each variance")
    update_components: Literal["batch", "online"] = Field(
        "batch",
        description="batch: components move once a pass, which is exact; online: after each block",
    )
    forget: float = Field(
        0.3, gt=0, le=1, description="online: share of a block's weight that remains a pass later"
    )
    tolerance: float = Field(
        0.0,
        ge=0,
        lt=1e3,
        description="training ends when the mean log density of the rows changes by less from one "
        "pass to the next; 0: all passes are made",
    )

    def rows_of_block(self, rows: int | None) -> int:
        """Return fewer, larger blocks in batch mode, where their number changes last digits only.

        Four replicas then still have work in small data.
        """
        return BlockSize(4 if self.update_components == "batch" else 16, most=4096).of(rows)

    @property
    def needs(self) -> Needs:
        """Enough rows to find the first components in."""
        return Needs(sample=rows_to_draw_from(self.components))

    def allocate(self, shapes: Shapes, rng: Randomness) -> None:
        """Create the components, from a sample of the rows, and the sums of their rows."""
        d, k = shapes.columns, self.components
        self.total_rows = shapes.whole_rows
        self.form = form_of(self.covariance, self.cache, d, k)
        self.weights = self.parameter("weights", 1, k, 1.0 / k)
        self.means = self.parameter("means", d, k)
        self.covariances = self.parameter("covariances", *self.form.shape)
        self.factors = self.parameter("factors", *self.form.shape)
        self.logs = self.parameter("log_determinants", 1, k)
        self.counts = self.parameter("counts", 1, k)
        self.members = self.statistic("members", 1, k, np.float64)
        self.sums = self.statistic("sums", d, k, np.float64)
        self.squares = self.statistic("squares", *self.form.shape, np.float64)
        self.keep = self.number("what is kept of the counts")
        self.log_sum = self.statistic("log_sum", 1, 1, np.float64)  # of densities, in this pass
        self.bound = self.parameter("bound", 1, 1, -HUGE, saved=False)  # mean log density
        self.change = self.parameter("change", 1, 1, HUGE, saved=False)  # of it, in a pass
        if shapes.sample is not None:
            full = self.covariance == "full"
            if self.cache.reserving:  # there is no memory for them yet
                start = blank_components(d, k, full=full)
            else:
                start = first_components(shapes.sample, k, rng.seed, full=full)
            self.weights.set(start.weights[None])
            self.means.set(start.means.T)
            self.factorize(self.form.begin(self.covariances, start.covariance))

    def update(self, block: Block) -> None:
        """Add the block's rows to the sums of their components; online, move these."""
        Z, M = self.centred(block.X)
        R, logs = self.posterior(Z, M, block.weights)
        n = colsum(R)
        self.log_sum <<= self.log_sum + total(block.weights * logs)
        self.members <<= self.members + n
        self.sums <<= self.sums + Z.T @ R - n * M
        self.form.add(self.squares, Z, M, R, n)
        if self.update_components == "online":
            self.keep.set(self.forget ** (block.rows / block.whole_rows))
            self.move(self.keep)

    def end_pass(self) -> None:
        """Note how much better the components have become; move them, in batch mode."""
        bound = (self.log_sum / float(self.total_rows)).mat()
        self.change <<= bound - self.bound
        self.bound <<= bound
        self.log_sum <<= 0.0
        if self.update_components == "batch":
            self.move(0.0)
        else:  # covariances may be means of those of replicas
            self.factorize(self.form.parts(self.covariances))

    @property
    def converged(self) -> bool:
        """Whether the mean log density has changed by less than `tolerance` in the last pass."""
        return bool(abs(self.change.numpy()[0, 0]) < self.tolerance)

    def move(self, keep: Number) -> None:
        """Move the components to the moments of their rows, and clear the sums.

        keep: the share of earlier rows' weight that remains.
        """
        self.counts <<= keep * self.counts + self.members
        N = maximum(self.counts, TINY)
        share, shift = self.members / N, self.sums / N
        self.factorize(self.form.move(self.covariances, self.squares, N, share, shift))
        self.means <<= self.means + shift
        self.weights <<= self.counts / total(self.counts)
        for sums in (self.members, self.sums, self.squares):
            sums <<= 0.0

    def factorize(self, parts: Sequence[Mat]) -> None:
        """Make the factors of the covariances. parts: of these, as their form returns them."""
        self.form.factorize(parts, self.factors, self.logs, self.reg_covar)

    def centred(self, X: Matrix) -> tuple[Table, Table]:
        """Return the rows and the means, both without the mean of the mixture, where X is dense.

        Numbers around 0 keep more digits. Sparse rows become dense for full covariances.
        """
        if X.pattern is not None:
            if isinstance(self.form, Diagonal):
                return X, self.means
            X = X @ self.form.identity
        origin = (self.weights @ self.means.T).mat()
        return (X - origin).mat(), (self.means - origin.T.mat()).mat()

    def posterior(self, Z: Table, M: Table, weights: Column) -> tuple[Rows, Column]:
        """Return the weighted probability of each component, and log p of each row."""
        constants = log(maximum(self.weights, TINY)) + self.logs
        constants = constants - 0.5 * math.log(2.0 * math.pi) * float(M.shape[0])
        logs, top = below_largest(self.form.distances(Z, M, self.factors), constants)
        parts = exp(logs).mat()  # a kernel of its own does not stop at the ends of rows
        found: tuple[Rows, Column] = shares(parts, top, weights)
        return found

    def score(self, block: Block) -> Score:
        """Score log_likelihood: the mean of log p over rows; larger is better."""
        logs = self.posterior(*self.centred(block.X), block.weights)[1]
        weights = block.weights
        return {"log_likelihood": Sum(total(weights * logs), total(weights))}

    def predict(self, block: Block) -> Mat:
        """Return the probability of each component [rows x k]."""
        ones = ones_like(block.weights)
        found: Mat = self.posterior(*self.centred(block.X), ones)[0].mat()
        return found
