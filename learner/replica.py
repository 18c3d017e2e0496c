"""One copy of a model with its cache and its optimizer: what one model thread owns."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np

from ..datasources import BlockShape, HostBlock
from ..matcache import DenseInput, MatCache, ReadDuringPlanError, ShapeError, SparseInput, named
from ..models import Block, Model, Randomness, Shapes
from ..optimizers import Optimizer

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
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self.shape = shape
        self.seed = seed
        self.cache = MatCache(threads=threads, reserving=True)
        self.complete = True  # the plan covers everything
        rows = shape.rows
        self._row_ids = DenseInput(self.cache, "row_ids", (rows, 1), np.int64)
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
        block = self._block(0)
        try:
            self.update(block)
            self.model.score(block)
            self.model.predict(block)
        except ReadDuringPlanError as error:
            self.complete = False
            log.warning(
                "the memory plan is incomplete, the first block allocates the rest: %s", error
            )

    def _allocate(self) -> None:
        self.model.attach(self.cache)
        shapes = Shapes(self.shape.rows, self.shape.columns, self.shape.total_rows)
        self.model.allocate(shapes, Randomness(self.cache, self.seed))
        if self.optimizer is not None:
            self.optimizer.attach(self.cache, self.model.parameters)
        self._key = named(self.cache, "key of the block (seed, pass, block)", (1, 3), np.int64)
        self._key_array = np.array([[self.seed, 0, 0]], np.int64)

    def _block(self, rows: int) -> Block:
        return Block(self._X.handle(), rows, self._row_ids.handle(), self._key)

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
        self._key_array[0, 1:] = host.pass_, host.index
        self._key.set(self._key_array)
        return self._block(host.rows)

    def update(self, block: Block) -> None:
        """Train on one block."""
        self.model.updates.clear()
        self.model.update(block)
        if self.model.updates and self.optimizer is None:
            raise ShapeError(
                f"{type(self.model).__name__}.update fills self.updates, but there is no optimizer: "
                "pass one to the Learner, or let the model's default_optimizer() return one."
            )
        if self.optimizer is not None:
            self.optimizer.step(self.model.parameters, self.model.updates)

    def widen(self, shape: BlockShape) -> None:
        """Make room for blocks of another source; its rows per block and columns must agree."""
        if (shape.rows, shape.columns, shape.dense) != (
            self.shape.rows,
            self.shape.columns,
            self.shape.dense,
        ):
            raise ShapeError(
                f"data of {shape.columns:,} columns in blocks of {shape.rows:,} rows "
                f"({'dense' if shape.dense else 'sparse'}); this model has {self.shape.columns:,} "
                f"columns and blocks of {self.shape.rows:,} rows "
                f"({'dense' if self.shape.dense else 'sparse'}). Rows are samples, columns features: "
                "check the orientation."
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
