"""Settings that are chosen by trials before training, such as `reg: auto`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from .inputs import ValueMoments

Settings = Sequence[Mapping[str, object]]


def nothing(values: ValueMoments, best: Mapping[str, object]) -> Settings:
    """Return no settings."""
    return ()


@dataclass(frozen=True)
class Undecided:
    """What a model leaves open.

    what: for messages: "reg=auto".
    judged_by: the score on held-out entries that chooses.
    to_try: returns fields to choose among, each a choice for all that is open. All need the same
        memory. Of equally good ones, the first is chosen; of few entries, the last, which is the
        safest, unless another one is clearly better. It gets moments of the training data;
        None: they are unknown, while memory is planned.
    then: returns further fields to choose among. It gets the same moments, and the best fields of
        `to_try`.
    by_entry: whether the objective is a sum over stored entries, and over the rows and columns that
        have some. Copies of the data side by side in a matrix then train as if each were alone.
    """

    what: str
    judged_by: str
    to_try: Callable[[ValueMoments | None], Settings]
    then: Callable[[ValueMoments, Mapping[str, object]], Settings] = nothing
    by_entry: bool = False


def not_chosen(model: object) -> ValueError:
    """Return the error for `allocate` of a model that leaves `reg` open."""
    return ValueError(
        f"{type(model).__name__}: reg=auto: must be chosen before training. Call "
        "blocklearn.choose(learner), or use an estimator or `learn train`, which choose it."
    )
