"""What all estimators share: they train and predict through a `Learner`, and keep plain arrays."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from blocklearn.models import Model
from blocklearn.optimizers import Optimizer

from ..hooks import Hook
from ..learner import Learner
from ..storage.persistence import show_parameters
from ..training.state import State
from .callbacks import TellCallbacks
from .parameters import seed_of, threads_of, whole
from .scikit import HAS_CALLBACKS, BaseEstimator, CallbackSupportMixin, check_is_fitted

Array = NDArray[Any]
Tensors = Callable[[str], Array]  # of a model, by name
STEPS, LEAST, MOST = 16, 32, 1024  # blocks of a pass, and rows of a block: best of some corpora
CHUNK = 128  # rows of one product with a dense matrix, on whose number bits may depend


class LearnerEstimator(CallbackSupportMixin, BaseEstimator):
    """Base of estimators. What was learned is in public attributes, from which every prediction
    starts anew with a learner of its own: nothing is shared between threads, and pickles hold
    arrays only. `_stream` is what `partial_fit` needs besides: statistics, the optimizer's state,
    the position. Parameters that all have: max_iter, batch_size, random_state, n_jobs,
    device.
    """

    max_iter: int
    batch_size: int | None
    random_state: Any
    n_jobs: int | None
    device: str

    @abstractmethod
    def _model(self) -> Model:
        """The model that the parameters describe."""

    @abstractmethod
    def _learned(self, tensors: Tensors) -> dict[str, Any]:
        """The attributes that hold what was learned, from the model's tensors."""

    @abstractmethod
    def _tensors(self, rows: int) -> dict[str, Array]:
        """The model's tensors from these attributes, for data of so many rows."""

    # ------------------------------------------------------------- training

    def _fit(self, data: Any, told: dict[str, Any], optimizer: Optimizer | None = None) -> Self:
        """Train for `max_iter` passes on `data`: X, (X, Y) or (X, Y, weights), checked.

        told: what callbacks hear of: X, y, metadata.
        """
        self._seed = seed_of(self.random_state)
        told = {"estimator": self, **told}
        hooks: list[Hook] = []
        if HAS_CALLBACKS:
            root = self._init_callback_context(max_subtasks=whole(self, "max_iter"))
            root.call_on_fit_task_begin(**told)
            hooks = [TellCallbacks(root, told, lambda learner: self._learned(tensors_of(learner)))]
        learner = self._learner(
            data, passes=whole(self, "max_iter"), optimizer=optimizer, hooks=hooks
        )
        self._train(learner)
        self.n_samples_seen_ = rows_of(data)
        if HAS_CALLBACKS:
            root.call_on_fit_task_end(**told, reconstruction_attributes={})
        return self

    def _go_on(self, data: Any, optimizer: Optimizer | None = None, of_rows: Any = None) -> Self:
        """One more pass, over `data`. of_rows: see `Learner`; None: rows seen so far."""
        rows = rows_of(data)
        first = not self._has_begun()
        if first:
            self._seed = seed_of(self.random_state)
        seen = rows if first else rows + self.n_samples_seen_
        passes = 1 if first else int(self._stream.position["pass"]) + 1
        learner = self._learner(
            data, passes=passes, optimizer=optimizer, of_rows=seen if of_rows is None else of_rows
        )
        if not first:
            stream = self._stream
            learner.restore(State(stream.tensors | self._tensors(rows), stream.position))
        self._train(learner)
        self.n_samples_seen_ = seen
        return self

    def _has_begun(self) -> bool:
        """Whether something was learned that `partial_fit` goes on from."""
        return hasattr(self, "_stream")

    def _train(self, learner: Learner) -> None:
        """Let the learner finish, and keep what it has learned."""
        try:
            learner.fit()
        finally:
            learner.close()
        state = learner.state()
        full_pass = learner.optimizer is not None and learner.optimizer.steps_by_pass
        for name, value in self._learned(state.tensors.__getitem__).items():
            setattr(self, name, value)
        known = self._tensors(0)
        others = {} if full_pass else {k: v for k, v in state.tensors.items() if k not in known}
        self._stream = State(others, state.position)
        self.n_iter_ = int(state.position["pass"])

    # ------------------------------------------------------------- using what was learned

    def to_learner(self) -> Learner:
        """A learner that knows what was learned: for `blocklearn.save`, `evaluate` and others."""
        check_is_fitted(self)
        learner, tensors = self._trained(MOST), self._tensors(1)
        learner.names = getattr(self, "feature_names_in_", None)
        learner.restore(State(tensors, self._stream.position))
        show_parameters(learner, tensors)
        return learner

    def _trained(self, rows: int, model: Model | None = None) -> Learner:
        """A learner that predicts and scores data of so many rows. Close it."""
        check_is_fitted(self)
        learner = self._learner(None, rows=rows, model=model)
        learner.restore(State(self._tensors(rows), {}))
        return learner

    def _predictions(self, X: Any, model: Model | None = None, *, side: int = 0) -> Array:
        """One result row per row of X."""
        learner = self._trained(X.shape[0], model)
        try:
            return learner.predict(X, side=side)
        finally:
            learner.close()

    def _learner(
        self,
        train: Any,
        *,
        rows: int | None = None,
        passes: int = 1,
        model: Model | None = None,
        optimizer: Optimizer | None = None,
        hooks: Sequence[Hook] = (),
        of_rows: int | None = None,
    ) -> Learner:
        """A learner as the parameters say. rows: of the data, if there are none to train on."""
        model = self._model() if model is None else model
        if rows is None:
            size = self._block_rows(train, model, optimizer)
        else:
            size = self._predicted_at_once(rows)
        return Learner(
            model,
            train,
            passes=passes,
            block_rows=size,
            seed=getattr(self, "_seed", 0),
            threads=threads_of(self.n_jobs),
            device=self.device,
            optimizer=optimizer,
            hooks=hooks,
            of_rows=of_rows,
        )

    def _block_rows(self, data: Any, model: Model, optimizer: Optimizer | None) -> int:
        """Rows of a block to train on: `batch_size`; None: so many that a pass over little data has
        steps enough. optimizer: None: the model's own.
        """
        rows = rows_of(data)
        if self.batch_size is not None:
            return in_chunks(whole(self, "batch_size"), rows)
        return min(max(rows // STEPS, LEAST), MOST, rows)

    def _predicted_at_once(self, rows: int) -> int:
        """Rows of a block to predict: whole chunks, so that a row does not feel how many others are
        predicted with it.
        """
        most = MOST if self.batch_size is None else whole(self, "batch_size")
        return CHUNK * -(-min(most, rows) // CHUNK)


def in_chunks(most: int, rows: int) -> int:
    """Rows of a block for data of so many rows: `most`, or the whole chunks that hold them."""
    return min(most, CHUNK * -(-rows // CHUNK))


def tensors_of(learner: Learner) -> Tensors:
    """Copies of the tensors of a learner at work."""

    def tensor(name: str) -> Array:
        if name in learner.model.row_states:
            return np.array(learner.row_state(name))
        return learner.parameter(name)

    return tensor


def rows_of(data: Any) -> int:
    """Rows of X, (X, Y) or (X, Y, weights)."""
    return int((data[0] if isinstance(data, tuple) else data).shape[0])
