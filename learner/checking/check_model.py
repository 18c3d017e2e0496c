"""Check that a model keeps what models promise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from blocklearn.matcache.errors import BlocklearnError
from blocklearn.mixins import Mixin
from blocklearn.models import Model
from blocklearn.optimizers import Optimizer

from .contract import CHECKS
from .runs import Case
from .sample import take_sample


class ContractError(BlocklearnError):
    """A model that breaks a promise: the message names the check, the place and the remedy.

    `check`: the name of the check.
    """

    def __init__(self, model: str, check: str, problem: str) -> None:
        """model: name of its class. problem: the place, the rule and the remedy."""
        self.check = check
        super().__init__(f"{model}: check {check!r}: {problem}")


def check_model(
    model: Model,
    data: Any,
    *,
    optimizer: Optimizer | None = None,
    mixins: Sequence[Mixin] = (),
    rows: int = 100,
) -> list[str]:
    """Check that `model` keeps what models promise, in short trainings on a few rows.

    - model: as a `Learner` takes it.
    - data: as a `Learner` takes them: X [rows x columns], (X, Y), (X, Y, weights) or a DataSource.
    - optimizer: None: the model's own.
    - mixins: terms added to the objective.
    - rows: how many rows of the data are used, the first ones.

    The checks, in their order:

    - training: the model trains, and its memory can be planned.
    - python: `update` changes no attribute of the model that is a value of Python or NumPy.
    - repeats, threads: the same bits in every run, and with 1, 2 and 8 threads.
    - allocation: none after the first block.
    - resume: the same bits after a stop in the middle of a pass.
    - folder: a model that is saved and loaded has the same parameters, predictions and scores.
    - replicas: the same bits in every run with two replicas, resumed or not.
    - padding: rows that fill up a block change no result beyond rounding.
    - empty block, single row: a block without entries, and a last block of one row, leave all
      numbers finite.
    - gradients: in some direction, of the first block, by finite differences to 5 %.

    Gradients are checked where `meaning = "gradients"`, the model has no state of rows, and the
    loss is known. It is that of a `LinearLoss` which is the only update; else `self.objective`;
    else the score that is called `loss` or `..._loss`, if it is the only one so called and a `Sum`
    of kind "mean". Parameters are then moved by random numbers of size 0.1 first.

    Returns:
        Names of the checks that say something of this model. A check of gradients without a known
        loss is not among them.

    Raises:
        ContractError: a check failed. The message names the check, the parameter, the block and
            what to do. Errors of training become one, too.
        ShapeError: the model needs targets, and the data have none.
        ValueError: there are fewer than 8 rows.

    >>> import numpy as np, blocklearn as bl
    >>> X = np.random.default_rng(0).poisson(1.0, (40, 6))
    >>> "resume" in bl.check_model(bl.models.NMF(components=2), X)
    True
    """
    case = Case(model, take_sample(model, data, rows), optimizer, tuple(mixins))
    applied = []
    for name, check in CHECKS.items():
        kind = type(model).__name__
        try:
            found = check(case)
        except BlocklearnError as error:
            raise ContractError(kind, name, str(error)) from error
        except Exception as error:
            error.add_note(f"in check {name!r} of {kind}")
            raise
        if isinstance(found, str):
            raise ContractError(kind, name, found)
        if found:
            applied.append(name)
    return applied
