"""The base class of estimators: training and predicting through a `Learner`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from numpy.typing import NDArray
from scipy.sparse import issparse

import blocklearn
from blocklearn.matcache import ShapeError

from ..training.states.state import State
from .callbacks import telling, tensors_of
from .constraints import HELD, check_parameters
from .kept import KeptLearners, takes
from .parameters import CommonParameters, seed_of, threads_of, whole
from .scikit import BaseEstimator, CallbackSupportMixin, check_is_fitted

if TYPE_CHECKING:
    from blocklearn.mixins import Mixin
    from blocklearn.models import Model
    from blocklearn.optimizers import Optimizer

    from ..hooks import Hook
    from ..learner import Learner

Array = NDArray[Any]
Tensors = Callable[[str], Array]  # returns a model's tensor by its name
MOST = 1024  # rows of a block of predictions
MANY, NARROW = 4096, 64  # the same, of rows with so few numbers on average
CHUNK = 128  # rows of one product with a dense matrix; its bits may depend on this number


class LearnerEstimator(CommonParameters, CallbackSupportMixin, BaseEstimator):
    """Base class of estimators. Their fields are their parameters: see `constructor.py`.

    Learned state is in public attributes. Predictions take their numbers from them, as they are at
    each call. Learners that predict, or make one more pass, are kept for the next call, but threads
    share none, and pickles and copies hold none. `_stream` holds what `partial_fit` needs in
    addition: statistics, the optimizer's state and the position in the data.
    """

    max_iter: int
    _units: Any = None  # of what `fit` trains on, if they are not those of the data

    @abstractmethod
    def _model(self) -> Model:
        """Return the model that the parameters describe."""

    @abstractmethod
    def _learned(self, tensors: Tensors) -> dict[str, Any]:
        """Return the learned attributes, made from the model's tensors."""

    @abstractmethod
    def _tensors(self, rows: int) -> dict[str, Array]:
        """Return the model's tensors, made from the learned attributes, for `rows` rows of data."""

    # ------------------------------------------------------------- training

    def _fit(self, data: Any, told: dict[str, Any], optimizer: Optimizer | None = None) -> Self:
        """Train for `max_iter` passes.

        data: X, (X, Y) or (X, Y, weights), already checked.
        told: what callbacks receive: X, y, metadata.
        """
        check_parameters(self)
        self._seed = seed_of(self.random_state)
        passes = whole(self, "max_iter")
        own = {"_units": None}  # copies that callbacks see predict for the data as they are
        with telling(self, told, passes, lambda one: self._learned(tensors_of(one)) | own) as hooks:
            learner = self._learner(data, passes=passes, optimizer=optimizer, hooks=hooks)
            self._decide(learner)
            self._train(learner)
            self.n_samples_seen_ = rows_of(data)
        return self

    def _go_on(self, data: Any, optimizer: Optimizer | None = None, of_rows: Any = None) -> Self:
        """Make one more pass, over `data`.

        of_rows: see `Learner`, or the same as 1e6; None: the number of rows seen so far.
        """
        check_parameters(self)
        rows = rows_of(data)
        first = not self._has_begun()
        if first:
            self._seed = seed_of(self.random_state)
        seen = rows if first else rows + self.n_samples_seen_
        passes = 1 if first else int(self._stream.position["pass"]) + 1
        whole_stream = seen if of_rows is None else int(of_rows)
        model, X = self._model(), data[0] if isinstance(data, tuple) else data
        optimizer = self._paced(model, data) if optimizer is None else optimizer
        block_rows = self._block_rows(data, model, optimizer)
        state_rows = rows if model.row_states else 0
        as_now = None if optimizer is None else optimizer.model_copy()  # its owner may change it
        plan = (
            "partial_fit", model, as_now, state_rows, block_rows, X.shape[1], issparse(X),
            self._seed, self.n_jobs, self.device,
        )  # fmt: skip
        make = partial(
            self._learner, data, passes=passes, block_rows=block_rows, model=model,
            optimizer=optimizer, of_rows=whole_stream,
        )  # fmt: skip
        state = None if first else self._stream
        if state is not None:
            state = State(state.tensors | self._tensors(rows), state.position)
        with self._lender().lent(plan, {}, make, lambda one: takes(one, state)) as kept:
            learner = kept.learner
            if learner.team is not None and state is not None:  # kept by the last call
                kept.learn(state, data, whole_stream)
            else:
                if state is not None:
                    learner.restore(state)
                learner.fit()
            self._keep(learner)
            learner.data.let_go()
        self.n_samples_seen_ = seen
        return self

    def _terms(self) -> Sequence[Mixin]:
        """Return terms of the objective that the model does not have itself."""
        return ()

    def _paced(self, model: Model, data: Any) -> Optimizer | None:
        """Return the model's own optimizer with steps for the sizes in the data; None: as it is."""
        return None

    def _decide(self, learner: Learner) -> None:
        """Choose what the parameters leave open, before `fit` trains `learner`."""

    def _has_begun(self) -> bool:
        """Return whether `partial_fit` can continue from earlier training."""
        return hasattr(self, "_stream")

    def _train(self, learner: Learner) -> None:
        """Run the learner to its end, and keep what it has learned."""
        try:
            learner.fit()
        finally:
            learner.close()
        self._keep(learner)

    def _keep(self, learner: Learner) -> None:
        """Keep what a learner has learned."""
        state = learner.state()
        full_pass = learner.optimizer is not None and learner.optimizer.steps_by_pass
        for name, value in self._learned(state.tensors.__getitem__).items():
            setattr(self, name, value)
        known = state.tensors if full_pass else self._tensors(0)
        others = {k: v for k, v in state.tensors.items() if k not in known}
        self._keep_stream(State(others, state.position))
        self.n_iter_ = int(state.position["pass"])

    def _keep_stream(self, stream: State) -> None:
        """Keep what `partial_fit` needs beside the learned attributes."""
        self._stream = stream
        self._lender()  # now, since predictions are to leave the attributes as they are

    # ------------------------------------------------------------- using what was learned

    def to_learner(self) -> Learner:
        """Return a learner with the learned state, for `blocklearn.save`, `evaluate` and others."""
        from ..results.persistence import show_parameters

        check_is_fitted(self)
        learner, tensors = self._trained(MOST), self._tensors(1)
        learner.data.names = getattr(self, "feature_names_in_", None)
        users = getattr(self, "user_ids_", None)
        learner.data.row_names = (
            None if users is None else blocklearn.datasources.Ids(users.astype(str).tolist())
        )
        learner.restore(State(tensors, self._stream.position))
        show_parameters(learner, tensors)
        return learner

    def _trained(self, rows: int) -> Learner:
        """Return a learner that predicts and scores `rows` rows. The caller closes it."""
        check_is_fitted(self)
        check_parameters(self)
        learner = self._predictor(self._predicted_at_once(rows), None)
        learner.restore(State(self._tensors(rows), {}))
        return learner

    def _predictor(self, block_rows: int, model: Model | None) -> Learner:
        """Return a learner to predict blocks of so many rows, without learned numbers yet."""
        return self._learner(None, block_rows=block_rows, model=model)

    def _evaluated(self, X: Any) -> dict[str, float]:
        """Return the scores of X, which the caller has checked, by name."""
        with closing(self._trained(X.shape[0])) as learner:
            return learner.evaluate(X)

    def _lender(self) -> KeptLearners:
        """Return what keeps learners that predict."""
        found: KeptLearners = self.__dict__.setdefault("_kept_learners", KeptLearners())
        return found

    def __getstate__(self) -> dict[str, Any]:
        """Return what pickles and copies have: all but what later calls find again."""
        state: dict[str, Any] = super().__getstate__()
        return {name: it for name, it in state.items() if name not in (HELD, "_kept_learners")}

    def _predictions(self, X: Any, model: Model | None = None, *, side: int = 0) -> Array:
        """Return one row of results for each row of X. The caller has checked that it is fitted."""
        check_parameters(self)
        model = self._model() if model is None else model
        rows, tensors = self._predicted_at_once(X.shape[0], self._most_of(X)), self._tensors(1)
        shapes = {name: (array.shape, array.dtype) for name, array in tensors.items()}
        data = (rows, X.shape[1], issparse(X), side)
        plan = (model, data, shapes, getattr(self, "_seed", 0), self.n_jobs, self.device)
        make = partial(self._predictor, rows, model)
        try:
            with self._lender().lent(plan, tensors, make) as one:
                return one.predict(X, side)
        except ShapeError as error:
            raise ValueError(
                f"{type(self).__name__}: what was learned does not fit its parameters, which were "
                "changed after fit. Call fit again, or set them as they were."
            ) from error

    def _learner(
        self,
        train: Any,
        *,
        block_rows: int | None = None,
        passes: int = 1,
        model: Model | None = None,
        optimizer: Optimizer | None = None,
        hooks: Sequence[Hook] = (),
        of_rows: int | None = None,
    ) -> Learner:
        """Return a learner configured by the parameters.

        block_rows: of a block; None: what suits the data to train on.
        """
        model = self._model() if model is None else model
        if block_rows is None:
            block_rows = self._block_rows(train, model, optimizer)
        learner = blocklearn.Learner(  # imported here: solvers of rows in memory need none
            model,
            train,
            passes=passes,
            block_rows=block_rows,
            seed=getattr(self, "_seed", 0),
            threads=threads_of(self.n_jobs),
            device=self.device,
            optimizer=optimizer,
            mixins=self._terms(),
            hooks=hooks,
            of_rows=of_rows,
            verbose=False,
        )
        learner.scores_training, learner.only_trains = False, train is not None and not hooks
        return learner

    def _block_rows(self, data: Any, model: Model, optimizer: Optimizer | None) -> int:
        """Return the number of rows in a training block: `batch_size`, or what the model wants.

        optimizer: None stands for the model's own.
        """
        rows = rows_of(data)
        if self.batch_size is not None:
            return in_chunks(whole(self, "batch_size"), rows)
        return model.rows_of_block(rows)

    def _most_of(self, X: Any) -> int:
        """Return the most rows of a block to predict X in; blocks of few numbers take longer."""
        rows, numbers = X.shape[0], X.nnz if issparse(X) else X.size
        return MANY if rows >= MANY and numbers <= NARROW * rows else MOST

    def _predicted_at_once(self, rows: int, most: int = MOST) -> int:
        """Return the number of rows in a block of predictions: whole chunks.

        A row's result then does not depend on how many other rows are predicted with it.
        """
        most = most if self.batch_size is None else whole(self, "batch_size")
        return CHUNK * -(-min(most, rows) // CHUNK)


def in_chunks(most: int, rows: int) -> int:
    """Return `most`, or for fewer rows the whole number of chunks that holds them."""
    return min(most, CHUNK * -(-rows // CHUNK))


def rows_of(data: Any) -> int:
    """Return the number of rows of X, (X, Y) or (X, Y, weights)."""
    return int((data[0] if isinstance(data, tuple) else data).shape[0])
