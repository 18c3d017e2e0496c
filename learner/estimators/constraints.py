"""Rules for parameters of estimators, checked when they train.

Each class has the rules of its own parameters in `_rules`, by name; `COMMON` has the rest. What a
model checks itself needs no rule: `configured` names the parameter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from inspect import signature
from numbers import Integral, Real
from operator import is_
from typing import Any

import numpy as np

from blocklearn.answers import shown

from .parameters import plain

HELD = "_held_rules"
"""The attribute of an estimator with the values of its parameters that have held their rules."""


@dataclass(frozen=True)
class Rule:
    """What a parameter must be, in words, and a test of it."""

    must: str
    holds: Callable[[Any], bool]

    def or_none(self) -> Rule:
        """Return the rule that None keeps, too."""
        return Rule(f"{self.must}, or None", lambda value: value is None or self.holds(value))

    def or_text(self, text: str) -> Rule:
        """Return the rule that `text` keeps, too."""

        def holds(value: Any) -> bool:
            return value == text if isinstance(value, str) else self.holds(value)

        return Rule(f"{self.must}, or {text!r}", holds)


def is_true_or_false(value: Any) -> bool:
    """Return whether a value is a boolean, of Python or NumPy."""
    return isinstance(value, bool | np.bool_)


def is_whole(value: Any) -> bool:
    """Return whether a value is a whole number; True and False are none."""
    return isinstance(value, Integral) and not is_true_or_false(value)


def is_number(value: Any) -> bool:
    """Return whether a value is a finite number; True and False are none."""
    return isinstance(value, Real) and not is_true_or_false(value) and math.isfinite(value)


def one_of(*names: str) -> Rule:
    """Return the rule of a parameter that is one of a few texts.

    >>> one_of("full", "diag", "spherical").must
    'full, diag or spherical'
    """
    words = " or ".join([", ".join(names[:-1]), names[-1]])
    return Rule(words, lambda value: isinstance(value, str) and value in names)


COUNT = Rule("a whole number, 1 or more", lambda value: is_whole(value) and value >= 1)
MOST_PASSES = 2**31 - 1  # as a Learner takes; its module would load with every estimator
PASSES = Rule(
    f"a whole number, 1 to {MOST_PASSES:,}",
    lambda value: is_whole(value) and 1 <= value <= MOST_PASSES,
)
ROWS = Rule(  # scikit-learn writes 1e6
    "a whole number, 1 or more", lambda value: is_number(value) and value >= 1 and value % 1 == 0
)
AMOUNT = Rule("a number, 0 or more", lambda value: is_number(value) and value >= 0)
SHARE = Rule("a number from 0 to 1", lambda value: is_number(value) and 0 <= value <= 1)
FRACTION = Rule("a number from 0, below 1", lambda value: is_number(value) and 0 <= value < 1)
BOOLEAN = Rule("True or False", is_true_or_false)
JOBS = Rule(
    "1 or more, None (all), or negative: -2 is all but one, -3 all but two",
    lambda value: value is None or (is_whole(value) and value != 0),
)
DEVICE = Rule('"cpu", "cuda", "cuda:N" or "auto"', lambda value: isinstance(value, str))

ANYTHING = Rule("anything", lambda value: True)
SOMETHING = Rule("given, or left out for its default", lambda value: value is not None)

COMMON = {
    "n_components": COUNT,
    "n_clusters": COUNT,
    "max_iter": PASSES,
    "batch_size": COUNT.or_none(),
    "total_samples": ROWS.or_none(),
    "n_jobs": JOBS,
    "device": DEVICE,
    "l1_ratio": SHARE,
    "tol": AMOUNT,
    "reg_covar": AMOUNT,
    "fit_intercept": BOOLEAN,
    "whiten": BOOLEAN,
    "exact": BOOLEAN,
    "spherical": BOOLEAN,
}


@cache
def rules_of(kind: type) -> Mapping[str, Rule]:
    """Return the rules of an estimator's parameters, by name: as long to find as a small fit."""
    rules = dict(COMMON)
    for each in reversed(kind.__mro__):
        rules |= vars(each).get("_rules", {})
    return {
        name: rules.get(name, ANYTHING if parameter.default is None else SOMETHING)
        for name, parameter in signature(kind).parameters.items()
        if parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
    }


def check_parameters(estimator: Any) -> None:
    """Raise ValueError for a parameter that breaks its rule, or is None where that says nothing."""
    own: type = type(estimator)
    rules, held = rules_of(own), vars(estimator).get(HELD)
    values = [getattr(estimator, name) for name in rules]
    if held is not None and all(map(is_, values, held)):
        return
    for (name, rule), value in zip(rules.items(), map(plain, values), strict=True):
        if not rule.holds(value):
            raise ValueError(f"{own.__name__}: {name}={shown(value)}: must be {rule.must}.")
    setattr(estimator, HELD, values)
