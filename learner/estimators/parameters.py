"""Turn estimators' parameters into seeds, threads and models; errors name the parameter.

Annotations are evaluated here: constructors in other modules have them, too.
"""

import numbers
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from blocklearn.answers import shown
from blocklearn.fields import FieldError, Fields
from blocklearn.matcache import available_threads
from blocklearn.optimizers import Optimizer

from .scikit import check_random_state

Made = TypeVar("Made", bound=Fields)
Solver = Optimizer | str


@dataclass(eq=False, repr=False, kw_only=True)
class CommonParameters:
    """Parameters of every estimator."""

    batch_size: int | None = None
    random_state: Any = None
    n_jobs: int | None = None
    device: str = "cpu"


@dataclass(eq=False, repr=False, kw_only=True)
class LinearParameters(CommonParameters):
    """Parameters of linear estimators besides: the penalty's share, and how it is solved."""

    l1_ratio: float = 0.0
    fit_intercept: bool = True
    solver: Solver = "auto"
    max_iter: int = 100
    tol: float = 1e-4


def configured(estimator: Any, kind: type[Made], names: Mapping[str, str], **given: Any) -> Made:
    """Make a model or optimizer from an estimator's parameters.

    names: for each field, the parameter that sets it; a parameter that is None leaves the default.
    given: further fields.

    Raises:
        ValueError: a value is not allowed; the message names the parameter and its value.
    """
    fields = {field: plain(getattr(estimator, name)) for field, name in names.items()}
    try:
        return kind(**{field: v for field, v in (fields | given).items() if v is not None})
    except FieldError as error:
        told = told_by_parameter(estimator, names, error.problems)
        raise ValueError(f"{type(estimator).__name__}: {' '.join(told)}") from None


def told_by_parameter(
    estimator: Any, names: Mapping[str, str], problems: Mapping[str, str]
) -> Iterator[str]:
    """Yield what is wrong, in words of the estimator's parameters.

    names: for each field, the parameter that sets it; `_derived` has those that others follow from.
    problems: by field, such as "alpha" or "alpha.1"; of several fields, by "".
    """
    known = {**getattr(estimator, "_derived", {}), **names}
    others = {field: name for field, name in known.items() if field != name}
    words = re.compile(rf"\b({'|'.join(others)})\b") if others else None
    seen = set()
    for field, rule in problems.items():
        first, _, place = field.partition(".")
        if first not in known:
            own = words.sub(lambda word: others[word[0]], rule) if words and not first else rule
            yield f"{field}: {own}".removeprefix(": ")
            continue
        name = known[first]
        start = "" if name in seen else f"{name}={shown(plain(getattr(estimator, name)))}: "
        seen.add(name)
        yield start + (f"entry {place} {rule}" if place else rule)


def plain(value: Any) -> Any:
    """Return NumPy numbers and arrays as Python numbers and lists, other values unchanged.

    >>> plain(np.float32(0.5)), plain(np.arange(2)), plain("vb")
    (0.5, [0, 1], 'vb')
    """
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else value


def whole(estimator: Any, name: str) -> int:
    """Return the parameter `name`, a whole number from 1.

    Raises:
        ValueError: it is no such number.
    """
    value = getattr(estimator, name)
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 1:
        raise ValueError(
            f"{type(estimator).__name__}: {name}={value!r}: must be a whole number, 1 or more."
        )
    return int(value)


def tolerance_of(estimator: Any) -> float:
    """Return the tolerance of an optimizer by full passes, which `tol=0` never reaches."""
    return max(float(estimator.tol), 1e-30)


def seed_of(random_state: Any) -> int:
    """Return the seed of a learner.

    random_state: a number, which is the seed; a `numpy.random.RandomState`, or None (NumPy's global
    one), from which the seed is drawn.
    """
    if isinstance(random_state, numbers.Integral) and int(random_state) >= 0:
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


def threads_of(n_jobs: int | None) -> int | None:
    """Return the number of threads of a learner.

    n_jobs: None or -1: all that the process may use, which inside joblib's workers is their share;
    -2: one less; and so on.

    Raises:
        ValueError: n_jobs is 0.
    """
    if n_jobs is None or n_jobs == -1:
        return None
    if n_jobs == 0:
        raise ValueError("n_jobs=0: must be 1 or more, None (all), or -2 (all but one), -3 ...")
    return n_jobs if n_jobs > 0 else max(1, available_threads() + 1 + n_jobs)


def used_threads(n_jobs: int | None) -> int:
    """Return the number of threads of what needs no learner: see `threads_of`."""
    return threads_of(n_jobs) or available_threads()
