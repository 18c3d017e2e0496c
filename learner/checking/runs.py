"""Short trainings of a model under check, and where two of them differ first."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklearn.mixins import Mixin
from blocklearn.models import Model
from blocklearn.optimizers import Optimizer

from ..hooks import Hook, Progress
from ..learner import Learner, State
from .sample import Sample, SampleSource, in_blocks, sizes_of

PASSES = 3
OWN = {"updates", "objective"}
"""Attributes that `update` is meant to fill."""

Place = tuple[int, int]
"""A pass, and the blocks done in it."""


def digest(array: NDArray[Any]) -> str:
    """Of the bits of an array."""
    return hashlib.sha256(array.tobytes()).hexdigest()


def digests(state: State) -> dict[str, str]:
    """Of everything that training resumes from, by name."""
    found = {name: digest(array) for name, array in state.tensors.items()}
    found["numbers of the optimizer"] = repr(state.position.get("optimizers"))
    return found


def kept_in_python(model: Model) -> dict[str, str]:
    """Attributes of a model that are plain values of Python or NumPy, and their contents."""
    plain = (int, float, str, bytes, list, tuple, set, dict, np.ndarray, np.generic)
    found = {}
    for name, value in vars(model).items():
        if hasattr(value, "bit_generator"):
            found[name] = repr(value.bit_generator.state)
        elif isinstance(value, plain) and name not in OWN:
            found[name] = digest(value) if isinstance(value, np.ndarray) else repr(value)
    return found


class Trace(Hook):
    """Digests of what was learnt after every block, and the states at some.

    changed: attributes of the model, plain values of Python, that updates changed, by the first
    place where they did. allocations: how many there were after the first block.
    """

    def __init__(self, keep: Collection[Place] = ()) -> None:
        """keep: where states are kept."""
        self._keep = keep
        self.states: dict[Place, State] = {}
        self.digests: dict[Place, dict[str, str]] = {}
        self.changed: dict[str, Place] = {}
        self.allocations = 0
        self._python: Mapping[str, str] = {}

    def start(self, learner: Learner, progress: Progress) -> None:
        """Look at the attributes before the first block."""
        self._python = kept_in_python(learner.model)

    def block(self, learner: Learner, progress: Progress) -> None:
        """Look at what the block has changed."""
        place = (progress.pass_, progress.block)
        state = learner.state()
        self.digests[place] = digests(state)
        if place in self._keep:
            self.states[place] = state
        now = kept_in_python(learner.model)
        for name in now:
            if now[name] != self._python.get(name):
                self.changed.setdefault(name, place)


def first_difference(one: Trace, other: Trace) -> str | None:
    """Describe what differs first in two runs of the same blocks; None: nothing does.

    Where one run begins later, the places that both have are compared.
    """
    for place in sorted(one.digests.keys() & other.digests.keys()):
        mine, its = one.digests[place], other.digests[place]
        for name in sorted(mine.keys() | its.keys()):
            if mine.get(name) != its.get(name):
                pass_, block = place
                return f"parameter {name!r} after block {block - 1} of pass {pass_}"
    return None


@dataclass(frozen=True)
class Case:
    """A model under check, with data, optimizer (None: the model's own) and mixins."""

    model: Model
    sample: Sample
    optimizer: Optimizer | None
    mixins: Sequence[Mixin]

    @cached_property
    def block_rows(self) -> int:
        """Rows of a block: three blocks make the sample, and the last one is not full."""
        return max(2, 9 * self.sample.rows // 20)

    @cached_property
    def source(self) -> SampleSource:
        """The sample in such blocks."""
        rows = self.block_rows
        return in_blocks(self.sample, sizes_of(self.sample.rows, rows), rows)

    def learner(self, source: SampleSource | None = None, **options: Any) -> Learner:
        """Make a learner of this model. options: of `Learner`, in place of those of the case."""
        source = self.source if source is None else source
        given: dict[str, Any] = {
            "train": source, "eval": source, "passes": PASSES, "threads": 1,
            "optimizer": self.optimizer, "mixins": self.mixins,
            "verbose": False, **options,
        }  # fmt: skip
        return Learner(self.model, **given)

    def traced(
        self, keep: Collection[Place] = (), state: State | None = None, **options: Any
    ) -> Trace:
        """Trace what a run of the sample learns, block after block, from `state` if given.

        keep: where states are kept. options: of `Learner`.
        """
        trace = Trace(keep)
        learner = self.learner(hooks=[trace], **options)
        if state is not None:
            learner.restore(state)
        learner.fit()
        trace.allocations = _allocations_when_warm(learner)
        learner.close()
        return trace

    @cached_property
    def whole(self) -> Trace:
        """Of one run with one thread, with states from the middle of the first and last pass."""
        return self.traced([(0, 1), (PASSES - 1, 2)])

    @property
    def called(self) -> Case:
        """The case of a model whose `update` is called for every block."""
        return replace(self, model=self.model.model_copy(update={"recorded": False}))

    @cached_property
    def together(self) -> str | None:
        """What differs first between `whole` and runs that differ from it in two ways at once.

        None: nothing. Runs that differ in one way each are then not needed. An error counts as a
        difference: the run that differs in one way raises it again.
        """
        states = [*self.whole.states.values()]  # one, if it has converged before the last pass
        runs: list[tuple[Case, dict[str, Any]]] = [(self.called, {"threads": 2})]
        runs += [(self, {"state": state, "threads": 8}) for state in states[:1]]
        runs += [(self, {"state": state}) for state in states[1:]]
        for case, options in runs:
            try:
                found = first_difference(self.whole, case.traced(**options))
            except Exception as error:
                found = str(error)
            if found is not None:
                return found
        return None


def _allocations_when_warm(learner: Learner) -> int:
    """Return how many allocations a training made after its first block."""
    team = learner.team
    assert team is not None
    planned, stats = team.first.complete, team.first.cache.stats()
    late = max(learner.progress.allocations_after_warmup, stats.allocations_after_warmup)
    return late or (stats.allocations - 1 if planned else 0)


def results(learner: Learner, source: SampleSource) -> Iterator[tuple[str, Any]]:
    """Yield what users see of a model that was trained on `source`, by name."""
    yield "predictions", learner.predict(source)
    for name, score in learner.evaluate(source).items():
        yield f"score {name!r}", np.float64(score)
    for name in learner.model.row_states:
        yield f"row state {name!r}", learner.row_state(name)
    for name in learner.model.parameters.keys() - learner.model.row_states.keys():
        yield f"parameter {name!r}", learner.parameter(name)
