"""Answer unknown parameters with the names that are meant."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import ParamSpec

from blocklearn.synonyms import nearest

P = ParamSpec("P")

EXAMPLES = {
    "model": "model=blocklearn.models.NAME({}=...)",
    "optimizer": "optimizer=blocklearn.optimizers.SGD({}=...)",
    "evaluation": "evaluation=blocklearn.Evaluation({}=...)",
    "checkpoint": "hooks=[blocklearn.Checkpoints(FOLDER, {}=...)]",
}
"""How a section of a configuration is given in Python."""


def answered(init: Callable[P, None]) -> Callable[P, None]:
    """Return a constructor that answers an unknown parameter with the one that is meant.

    >>> @answered
    ... def train(*, passes: int = 1) -> None: ...
    >>> train(epochs=3)
    Traceback (most recent call last):
    TypeError: train: epochs=3: unknown parameter; did you mean passes?
    """
    names = [name for name in signature(init).parameters if name != "self"]

    @wraps(init)
    def checked(*args: P.args, **given: P.kwargs) -> None:
        for name, value in given.items():
            if name not in names:
                owner = init.__qualname__.removesuffix(".__init__")
                shown = f"{name}={value!r}" if isinstance(value, int | float | str) else name
                raise TypeError(f"{owner}: {shown}: unknown parameter; {_hint(name, names)}")
        init(*args, **given)

    return checked


def _hint(name: str, names: list[str]) -> str:
    near = nearest(name, names)
    if near is not None:
        return f"did you mean {near}?"
    return _elsewhere(name) or f"the parameters are {', '.join(names)}"


def _elsewhere(name: str) -> str | None:
    """Return a hint at the section of a configuration that has a parameter of this meaning."""
    from .config import RunConfig
    from .schema_names import SchemaNames

    for home in SchemaNames(RunConfig).homes(name):
        section, _, field = home.partition(".")
        if section == home == "checkpoint":
            return "did you mean hooks=[blocklearn.Checkpoints(FOLDER)]?"
        if section in EXAMPLES and field:
            return f"did you mean {field} of {section}: {EXAMPLES[section].format(field)}?"
    return None
