"""One copy of a model with its cache and its optimizer: what one model thread owns."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..datasources import BlockShape, HostBlock
from ..matcache import DenseInput, MatCache, ReadDuringPlanError, ShapeError, SparseInput, named
from ..mixins import Mixin
from ..models import Block, LabelCounts, Model, Randomness, Shapes
from ..optimizers import Optimizer
from .terms import check_meaning, terms_of

log = logging.getLogger("blocklearn.learner")


class Replica:
    """A model bound to a cache. Planned at construction, allocated in one slab, then frozen."""

    def __init__(
        self,
        model: Model,
        optimizer: Optimizer | None,
        shape: BlockShape,
        *,
        seed: int,
        threads: int | None,
        commit: bool = True,
        names: Sequence[str] | None = None,
        target_names: Sequence[str] | None = None,
        mixins: Sequence[Mixin] = (),
        passes: int = 1,
        counts: LabelCounts | None = None,
    ) -> None:
        check_meaning(model, optimizer)
        self.model = model
        self.optimizer = optimizer
        self.mixins = mixins
        self.passes = passes
        self.shape = shape
        self.seed = seed
        self.names, self.target_names, self.counts = names, target_names, counts
        self.cache = MatCache(threads=threads, reserving=True)
        self.complete = True  # the plan covers everything
        rows = shape.rows
        self._row_ids = DenseInput(self.cache, "row_ids", (rows, 1), np.int64)
        self._weights = DenseInput(self.cache, "weights", (rows, 1), np.float32)
        self._Y: DenseInput | None = None
        if shape.targets:
            self._Y = DenseInput(self.cache, "Y", (rows, shape.targets), np.float32)
        self._X: SparseInput | DenseInput
        if shape.dense:
            self._X = DenseInput(self.cache, "X", (rows, shape.columns), np.float32)
        else:
            self._X = SparseInput(self.cache, "X", rows, shape.columns, shape.nnz)
        self._plan()
        if commit:
            self.cache.commit()
            self._allocate()
            if self.complete:
                self.cache.freeze()

    def _plan(self) -> None:
        """Run the whole program on shapes, so that the cache learns what it must hold."""
        self._allocate()
        block = self._block(0, labelled=True)
        try:
            self.update(block)
            self.end_pass()
            self.scores_of_mixins()
            self.model.score(block)
            self.model.predict(block)
            for start in self.model.phases():  # again: a first step may leave work for the next
                self.update(self._block(0, labelled=True, pass_=start))
        except ReadDuringPlanError as error:
            self.complete = False
            log.warning(
                "the memory plan is incomplete, the first block allocates the rest: %s", error
            )

    def _allocate(self) -> None:
        self.model.attach(self.cache)
        self.model.wants_objective = bool(self.optimizer and self.optimizer.needs_objective)
        shapes = Shapes(
            self.shape.rows,
            self.shape.columns,
            self.shape.total_rows,
            targets=self.shape.targets,
            names=self.names,
            target_names=self.target_names,
            passes=self.passes,
            counts=self.counts,
        )
        self.model.allocate(shapes, Randomness(self.cache, self.seed))
        terms = terms_of(self.model, self.optimizer, self.mixins)
        if self.optimizer is not None:
            self.optimizer.attach(
                self.cache, self.model.parameters, terms=terms, rates=self.model.rates
            )
        self._key = named(self.cache, "key of the block (seed, pass, block)", (1, 3), np.int64)
        self._key_array = np.array([[self.seed, 0, 0]], np.int64)

    def _block(self, rows: int, *, labelled: bool, pass_: int = 0, weight: float = 0.0) -> Block:
        return Block(
            self._X.handle(),
            rows,
            self._row_ids.handle(),
            self._key,
            self._Y.handle() if self._Y is not None and labelled else None,
            self._weights.handle(),
            pass_,
            weight,
        )

    def bind(self, host: HostBlock) -> Block:
        """The block in `host` as the model sees it; valid until the next one is bound."""
        if isinstance(self._X, SparseInput):
            self._X.bind(
                indptr=host.indptr,
                indices=host.indices,
                values=host.values,
                active=host.active,
                active_count=host.n_active,
                starts=host.starts,
                t_rows=host.t_rows,
                t_pos=host.t_pos,
            )
        else:
            self._X.bind(host.dense)
        self._row_ids.bind(host.row_ids.reshape(-1, 1))
        self._weights.bind(host.weights.reshape(-1, 1))
        labelled = self._Y is not None and host.shape.targets > 0
        if self._Y is not None and labelled:
            self._Y.bind(host.targets)
        self._key_array[0, 1:] = host.pass_, host.index
        self._key.set(self._key_array)
        weight = float(host.rows)
        if host.shape.weighted:
            weight = float(np.sum(host.weights, dtype=np.float64))
        return self._block(host.rows, labelled=labelled, pass_=host.pass_, weight=weight)

    def update(self, block: Block) -> None:
        """Train on one block."""
        self.model.updates.clear()
        self.model.objective = None
        if self.optimizer is not None:
            phase = sum(start <= block.pass_ for start in self.model.phases()) - 1
            if phase != self.optimizer.phase:
                self.optimizer.enter(phase)
            self.optimizer.begin(block.X)
        self.model.update(block)
        if self.model.updates and self.optimizer is None:
            raise ShapeError(
                f"{type(self.model).__name__}.update fills self.updates, but there is no "
                "optimizer: pass one to the Learner, or let the model's default_optimizer() return "
                "one."
            )
        if self.optimizer is not None:
            self.optimizer.step(self.model.updates, self.model.objective)

    def settle(self) -> None:
        """Make the parameters exact for whoever reads them as a whole."""
        if self.optimizer is not None:
            self.optimizer.settle()

    def end_pass(self) -> None:
        """A pass is complete."""
        if self.optimizer is not None:
            self.optimizer.end_pass()

    @property
    def converged(self) -> bool:
        """Whether further passes would gain nothing."""
        return self.optimizer is not None and self.optimizer.converged

    def scores_of_mixins(self) -> dict[str, Any]:
        """What mixins report of the parameters: 1 x 1 Mats or expressions, by name."""
        found: dict[str, Any] = {}
        for mixin in self.mixins:
            for name, value in mixin.scores().items():
                found[name if name not in found else f"{name} ({mixin.kind})"] = value.mat()
        return found

    def widen(self, shape: BlockShape) -> None:
        """Make room for blocks of another source; its rows per block and columns must agree, and
        the number of its targets, if it has any.
        """
        if shape.dense != self.shape.dense and shape.columns == self.shape.columns:
            given, ours = ("dense", "sparse") if shape.dense else ("sparse", "dense")
            raise ShapeError(
                f"{given} data for a model that was made for {ours} data; convert it: "
                + ("scipy.sparse.csr_array(X)." if shape.dense else "X.toarray().")
            )
        if (shape.rows, shape.columns, shape.dense) != (
            self.shape.rows,
            self.shape.columns,
            self.shape.dense,
        ):
            raise ShapeError(
                f"data of {shape.columns:,} columns in blocks of {shape.rows:,} rows "
                f"({'dense' if shape.dense else 'sparse'}); this model has {self.shape.columns:,} "
                f"columns and blocks of {self.shape.rows:,} rows "
                f"({'dense' if self.shape.dense else 'sparse'}). Rows are samples, columns "
                "features: check the orientation."
            )
        if shape.targets and self.shape.targets and shape.targets != self.shape.targets:
            raise ShapeError(
                f"data with {shape.targets:,} targets; this model has {self.shape.targets:,}. Pass "
                "the same columns of targets, in the same order."
            )
        if isinstance(self._X, SparseInput) and shape.nnz > self._X.pattern.capacity:
            frozen = self.cache.frozen
            self.cache.thaw()
            self.cache.grow(self._X.pattern, shape.nnz)
            if frozen:
                self.cache.freeze(frozen)
            self.shape = replace(self.shape, nnz=shape.nnz)

    def close(self) -> None:
        """Free the memory."""
        self.cache.close()
