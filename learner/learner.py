"""The learner: blocks from a source, through the model and the optimizer, pass after pass."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from ..datasources import (
    BlockShape,
    DataSource,
    HostBlock,
    Reader,
    TwoSidedSource,
    row_names,
    target_names,
)
from ..matcache import ShapeError
from ..mixins import Mixin
from ..models import Model, RowStore, Score, Shapes
from ..models.score import add_scores, values
from ..optimizers import Optimizer
from .errors import DivergedError
from .hooks import Hook as Hook
from .hooks import Progress as Progress
from .plan import Plan as Plan
from .plan import make_plan
from .replica import Replica
from .sources import check_labelled, count_labels, open_source, sum_values


@dataclass(frozen=True)
class State:
    """What a run continues from: parameters, row state and optimizer state by name, and the
    position.
    """

    tensors: dict[str, np.ndarray[Any, Any]]
    position: dict[str, Any]


class Learner:
    """Trains `model` on the rows of `train`, and scores those of `eval` every `eval_every` passes.

    train, eval: a SciPy sparse matrix or NumPy array X [rows x columns] (rows are samples); with
    targets, a tuple (X, Y), Y being [rows] or [rows x targets], dense or sparse; with weights of
    the rows, too, (X, Y, weights), where Y may be None; or a DataSource, such as
    `MatrixSource(X, targets=Y, target_names=names)`. `evaluate` takes the same. optimizer: by
    default the model's own. mixins: terms added to the objective, and reports. threads: by default
    all that the process may use; the number never changes a bit of the result. block_rows, seed:
    for data given as matrices, whose rows are shuffled in every pass (unless the model visits
    rows and columns in turn, such as ALS: their order does not matter to it); the seed is also that
    of the initial values. row_folder: where the state of rows is kept, in files that are mapped
    into memory and removed by `close`; None: in memory.

    >>> import numpy as np, blocklearn as bl
    >>> X = np.random.default_rng(0).poisson(0.2, (200, 30))
    >>> learner = bl.Learner(bl.models.LDA(topics=3), train=bl.sparse(X), passes=2, threads=1).fit()
    >>> learner.predict(bl.sparse(X[:5])).shape
    (5, 3)
    """

    def __init__(
        self,
        model: Model,
        train: Any = None,
        eval: Any = None,
        *,
        passes: int = 1,
        block_rows: int = 1024,
        seed: int = 0,
        threads: int | None = None,
        optimizer: Optimizer | None = None,
        mixins: Sequence[Mixin] = (),
        hooks: Sequence[Hook] = (),
        eval_every: int = 1,
        row_folder: Path | str | None = None,
    ) -> None:
        for name, value in [
            ("passes", passes),
            ("eval_every", eval_every),
            ("block_rows", block_rows),
        ]:
            if value < 1:
                raise ValueError(f"Learner: {name}={value}, but it is at least 1.")
        self.model = model.model_copy()
        chosen = optimizer if optimizer is not None else model.default_optimizer()
        self.optimizer = None if chosen is None else chosen.model_copy()
        self.mixins = [mixin.model_copy() for mixin in mixins]
        self.passes, self.block_rows, self.seed, self.threads = passes, block_rows, seed, threads
        self.hooks = list(hooks)
        self.eval_every = eval_every
        self.row_folder = None if row_folder is None else Path(row_folder)
        two_sided = 1 in model.row_states.values()
        self.train = None if train is None else self._source(train, "train", shuffle=not two_sided)
        self.across: DataSource | None = None  # the training data, transposed
        if two_sided and isinstance(self.train, TwoSidedSource):
            self.across = self.train.transposed()
        self.eval = None if eval is None else self._source(eval, "eval", keep=passes > eval_every)
        self.names: Sequence[str] | None = None if self.train is None else self.train.names
        self.target_names = None if self.train is None else target_names(self.train)
        self.row_names = None if self.train is None else row_names(self.train)
        self.targets: int | None = None if self.train is None else self.train.shape.targets
        self.progress = Progress(passes, sum(source.blocks for source in self._training()))
        self._replica: Replica | None = None
        self._stores: dict[str, RowStore] = {}
        self._restored: State | None = None
        self._trained_on = False  # rows, or a restored state: parameters mean something

    # ------------------------------------------------------------- training

    def fit(self) -> Self:
        """Train for the passes that are left: all of them, or those after a restored state."""
        source = self._training_source()
        replica, progress = self._prepare(source.shape), self.progress
        self._trained_on = True
        self._tell("start")
        with ExitStack() as stack:
            readers = [stack.enter_context(Reader(source)) for source in self._training()]
            evaluate = stack.enter_context(self._evaluation(replica))
            while progress.pass_ < self.passes and not replica.converged:
                flops, clock = replica.cache.flops, time.perf_counter()
                for side, host in self._pass(readers):
                    replica.update(replica.bind(host, side))
                    if not replica.cache.frozen:
                        replica.cache.freeze()
                    now = time.perf_counter()
                    self._count(host.rows, now - clock, replica.cache.flops - flops)
                    self._tell("block")
                    flops, clock = replica.cache.flops, time.perf_counter()
                clock = time.perf_counter()
                replica.end_pass()
                progress.seconds += time.perf_counter() - clock
                last = progress.pass_ + 1 == self.passes or replica.converged
                if (progress.pass_ + 1) % self.eval_every == 0 or last:
                    evaluate()
                self._tell("pass_end")
                progress.pass_ += 1
                progress.block = progress.blocks if last else 0
        done = progress.pass_
        progress.pass_ = max(done - 1, 0)
        self._tell("end")
        progress.pass_, progress.block = done, 0
        return self

    def _training(self) -> list[DataSource]:
        """The training data, in each orientation that a pass visits."""
        return [source for source in (self.train, self.across) if source is not None]

    def _pass(self, readers: Sequence[Reader]) -> Iterator[tuple[int, HostBlock]]:
        """The blocks of the present pass that are left, each with its side."""
        first = 0
        for side, (source, reader) in enumerate(zip(self._training(), readers, strict=True)):
            start = self.progress.block - first
            if start < source.blocks:
                for host in reader.blocks(self.progress.pass_, start=max(start, 0)):
                    yield side, host
            first += source.blocks

    def _count(self, rows: int, seconds: float, flops: int) -> None:
        progress, replica = self.progress, self._ready()
        progress.block += 1
        progress.rows += rows
        progress.seconds += seconds
        self._trained[0] += rows
        self._trained[1] += seconds
        self._trained[2] += flops
        rows_done, spent, done = self._trained
        progress.rows_per_s = rows_done / max(spent, 1e-9)
        progress.gflops = done / max(spent, 1e-9) / 1e9
        stats = replica.cache.stats()
        progress.cache_bytes = stats.bytes
        progress.allocations_after_warmup = stats.allocations_after_warmup

    @contextmanager
    def _evaluation(self, replica: Replica) -> Iterator[Any]:
        """A function that scores the eval source and tells the hooks; its reader is kept open."""
        if self.eval is None:
            yield lambda: None
            return
        with Reader(self.eval) as reader:

            def evaluate() -> None:
                self.progress.scores = self._score(replica, reader)
                self._tell("evaluated")

            yield evaluate

    def _tell(self, event: str) -> None:
        for hook in self.hooks:
            getattr(hook, event)(self, self.progress)

    # ------------------------------------------------------------- using a model

    def predict(self, X: Any, *, side: int = 0) -> np.ndarray[Any, Any]:
        """One result row per row of X (a matrix or a DataSource), in source order.

        Targets, where X is given as (X, Y) or has them, do not matter. side: 1 where the rows of X
        are new columns of the training data, for models that have a state of columns.
        """
        result: np.ndarray[Any, Any] | None = None
        source = self._source(X)
        for ids, rows in self.predictions(source, side=side):
            if result is None:
                result = np.empty((source.shape.total_rows, rows.shape[1]), rows.dtype)
            result[ids] = rows
        assert result is not None  # a source has at least one row
        return result

    def predictions(
        self, X: Any, *, side: int = 0
    ) -> Iterator[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
        """What `predict` finds, block by block: numbers of the rows [r], and their results [r x k];
        in source order, for data that are larger than memory.
        """
        self._check_trained()
        source = self._source(X)
        replica = self._prepare(source.shape, side=side)
        replica.intakes[side].widen(source.shape)
        replica.settle()
        replica.refresh()
        with Reader(source) as reader:
            for host in reader.blocks(0):
                rows = replica.model.predict(replica.bind(host, side, new=True)).numpy()
                yield host.row_ids[: host.rows].copy(), rows[: host.rows]

    def evaluate(self, X: Any) -> dict[str, float]:
        """The model's scores on the rows of X, by name.

        X: a matrix, (X, Y), (X, Y, weights) or a DataSource, as for `train`.
        """
        self._check_trained()
        source = self._source(X, "evaluate")
        replica = self._prepare(source.shape)
        replica.intakes[0].widen(source.shape)
        self._check_rows(source, "evaluate")
        with Reader(source) as reader:
            return self._score(replica, reader)

    def _score(self, replica: Replica, reader: Reader) -> dict[str, float]:
        score: Score = {}
        replica.settle()
        replica.refresh()
        reports = {name: float(value) for name, value in replica.scores_of_mixins().items()}
        for host in reader.blocks(0):
            found = replica.model.score(replica.bind(host))
            sums = {name: part.read() for name, part in found.items()}
            for name, part in sums.items():
                if not part.finite:
                    raise DivergedError(
                        f"{name} of block {host.index} is {part} after {self.progress.rows:,} rows "
                        "of training: the model has diverged. Lower the optimizer's rate or raise "
                        "the regularisation."
                    )
            score = add_scores(score, sums)
        return values(score) | reports

    def report(self) -> list[str]:
        """Lines that the mixins have to say about the parameters."""
        replica = self._ready()
        replica.settle()
        return [
            line
            for mixin in self.mixins
            for name, mat in mixin.tables.items()
            for line in mixin.report(
                name, mat.numpy(), self.names if mat.shape[0] == replica.shapes.columns else None
            )
        ]

    # ------------------------------------------------------------- memory and state

    def plan(self) -> Plan:
        """The memory that training takes, before any of it is allocated."""
        source = self._training_source()
        sources = {
            "training": self.train,
            "transposed training": self.across,
            "evaluation": self.eval,
        }
        if self._replica is not None:
            return make_plan(self._replica, sources)
        draft = self._make(
            self.model.model_copy(),
            None if self.optimizer is None else self.optimizer.model_copy(),
            [mixin.model_copy() for mixin in self.mixins],
            source.shape,
            commit=False,
        )
        plan = make_plan(draft, sources)
        draft.close()
        return plan

    def row_state(self, name: str) -> np.ndarray[Any, Any]:
        """The state `name` of all rows (or columns) of the training data: float32 [rows x numbers].

        It is not copied: do not change it. Raises KeyError where the model has no such state.
        """
        if name not in self.model.row_states:
            known = ", ".join(self.model.row_states) or "none"
            raise KeyError(f"{type(self.model).__name__} has no row state {name!r}; known: {known}")
        self._check_trained()
        if name in self._stores:
            return self._stores[name].array
        assert self._restored is not None
        return self._restored.tensors[name]

    def state(self, *, copy: bool = True) -> State:
        """The parameters, the state of rows and the optimizer's state, and the position after this
        pass. copy: False leaves the state of rows where it is, so that training will change it.
        """
        replica, progress = self._ready(), self.progress
        replica.settle()
        tensors = {name: mat.numpy() for name, mat in replica.model.parameters.items()}
        for name, store in self._stores.items():
            tensors[name] = store.array.copy() if copy else store.array
        position: dict[str, Any] = {
            "pass": progress.pass_ + (progress.block >= progress.blocks),
            "block": progress.block if progress.block < progress.blocks else 0,
            "rows": progress.rows,
            "seconds": progress.seconds,
            "steps": 0 if replica.optimizer is None else replica.optimizer.steps,
            "phase": 0 if replica.optimizer is None else replica.optimizer.phase,
        }
        if replica.optimizer is not None:
            tensors |= {f"optimizer.{n}": m.numpy() for n, m in replica.optimizer.state.items()}
        return State(tensors, position)

    def restore(self, state: State) -> None:
        """Continue from `state` at the next `fit`, or use its parameters for prediction."""
        self._restored = state
        position = state.position
        self.progress.pass_ = int(position.get("pass", 0))
        self.progress.block = int(position.get("block", 0))
        self.progress.rows = int(position.get("rows", 0))
        self.progress.seconds = float(position.get("seconds", 0.0))
        if self._replica is not None:
            self._load_restored(self._replica)

    def _load_restored(self, replica: Replica) -> None:
        state, self._restored = self._restored, None
        if state is None:
            return
        self._trained_on = True
        mats = dict(replica.model.parameters)
        if replica.optimizer is not None:
            mats |= {f"optimizer.{n}": m for n, m in replica.optimizer.state.items()}
        for name, store in self._stores.items():
            if name not in state.tensors:
                raise ShapeError(f"restore: the state has no row state {name!r}.")
            np.copyto(store.array, state.tensors[name])
        for name, mat in mats.items():
            if name in state.tensors:
                mat.set(state.tensors[name])
            elif not name.startswith("optimizer."):
                raise ShapeError(f"restore: the state has no parameter {name!r}.")
        if replica.optimizer is not None:
            replica.optimizer.phase = int(state.position.get("phase", 0))
            replica.optimizer.resume(int(state.position.get("steps", 0)))

    def close(self) -> None:
        """Free the memory and stop the threads; the learner can be used again."""
        if self._replica is not None:
            state = self.state()
            self._replica.close()
            self._replica = None
            self._restored = state
            for store in self._stores.values():
                store.close()
            self._stores = {}

    # ------------------------------------------------------------- helpers

    def _source(
        self, data: Any, name: str | None = None, *, shuffle: bool = False, keep: bool = False
    ) -> DataSource:
        """The source that `data` is or holds; `name` says what needs its targets, if anything."""
        source = open_source(
            data,
            block_rows=self.block_rows,
            shuffle=shuffle,
            seed=self.seed,
            keep=keep,
            counts=self.model.takes_counts,
        )
        if name is not None:
            check_labelled(self.model, source, name)
        return source

    def _training_source(self) -> DataSource:
        if self.train is None:
            raise ValueError("Learner: there is nothing to train on; pass train=X.")
        return self.train

    def _prepare(self, shape: BlockShape, side: int = 0) -> Replica:
        """The replica; at the first call it is made, for blocks of `shape` on that side."""
        if self._replica is None:
            if side == 0:
                self._check_columns(shape)
            self._replica = self._make(self.model, self.optimizer, self.mixins, shape, side)
            self._trained = [0, 0.0, 0]
            self._make_stores(self._replica)
            self._load_restored(self._replica)
            if self.eval is not None:
                self._replica.intakes[0].widen(self.eval.shape)
                self._check_rows(self.eval, "eval")
        return self._replica

    def _make(
        self,
        model: Model,
        optimizer: Optimizer | None,
        mixins: Sequence[Mixin],
        shape: BlockShape,
        side: int = 0,
        *,
        commit: bool = True,
    ) -> Replica:
        blocks = self._blocks(model, shape, side)
        train = self.train if commit else None  # counting is a pass over the data
        shapes = Shapes(
            rows=blocks[0].rows,
            columns=blocks[0].columns,
            total_rows=blocks[0].total_rows,
            targets=blocks[0].targets,
            names=self.names,
            target_names=self.target_names,
            passes=self.passes,
            counts=count_labels(train) if train and model.needs_counts else None,
            sides=len(blocks) if self.train is None else len(self._training()),
            value_sums=sum_values(train) if train and model.needs_value_sums else None,
        )
        return Replica(
            model,
            optimizer,
            mixins,
            shapes,
            blocks,
            seed=self.seed,
            threads=self.threads,
            commit=commit,
        )

    def _blocks(self, model: Model, shape: BlockShape, side: int) -> list[BlockShape]:
        """Shapes of the blocks of each side that `model` has, where one side's is known; with room
        for the blocks of the eval source too, and the model's targets.
        """
        if 1 not in model.row_states.values():
            if self.targets is not None:
                shape = replace(shape, targets=self.targets)
            if self.eval is not None:
                shape = replace(shape, nnz=max(shape.nnz, self.eval.shape.nnz))
            return [shape]
        if self.across is not None:
            return [source.shape for source in self._training()]
        rows, columns = shape.total_rows, shape.columns
        if side == 1:
            rows, columns = columns, rows
        for name, of in model.row_states.items():  # whatever the data, these are what is known
            if self._restored is not None and name in self._restored.tensors:
                length = len(self._restored.tensors[name])
                rows, columns = (rows, length) if of else (length, columns)
        sides = [(rows, columns), (columns, rows)]
        return [
            BlockShape(shape.rows, columns, shape.nnz if s == side else 1, rows, dense=shape.dense)
            for s, (rows, columns) in enumerate(sides)
        ]

    def _make_stores(self, replica: Replica) -> None:
        for stream, (name, state) in enumerate(replica.model.states.items()):
            path = None if self.row_folder is None else self.row_folder / f"{name}.float32"
            self._stores[name] = RowStore(*state.shape, path)
            if self._restored is None:
                self._stores[name].draw(state.init, self.seed, stream)
        replica.connect(self._stores)

    def _check_rows(self, source: DataSource, name: str) -> None:
        """Rows that the model keeps a state of are the same ones everywhere."""
        for state in self._ready().model.states.values():
            if state.side == 0 and source.shape.total_rows != state.shape[0]:
                raise ShapeError(
                    f"{name}: data of {source.shape.total_rows:,} rows, but "
                    f"{type(self.model).__name__} was trained on {state.shape[0]:,} rows, and what "
                    "it scores are further entries of the same rows, in the same order."
                )

    def _check_columns(self, shape: BlockShape) -> None:
        if self.names is not None and len(self.names) != shape.columns:
            raise ShapeError(
                f"data of {shape.columns:,} columns, but the model knows {len(self.names):,} names "
                "of columns. Rows are samples, columns features: check the orientation."
            )

    def _check_trained(self) -> None:
        if not self._trained_on and self._restored is None:
            raise ValueError("Learner: nothing is trained or loaded yet; call fit().")

    def _ready(self) -> Replica:
        if self._replica is None:
            raise ValueError("Learner: nothing is trained or loaded yet; call fit().")
        return self._replica
