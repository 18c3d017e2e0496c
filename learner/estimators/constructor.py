"""Make the constructor of an estimator from its fields, which are its parameters."""

from __future__ import annotations

from dataclasses import dataclass
from inspect import Parameter, signature
from typing import TypeVar, dataclass_transform

from blocklearn.answers import answered

Kind = TypeVar("Kind", bound=type)


@dataclass_transform(eq_default=False)
def estimator(kind: Kind) -> Kind:
    """Make a class an estimator: its constructor takes its fields, and answers unknown names.

    Signatures show its own parameters before those of its base classes, the shared ones last.
    """
    dataclass(eq=False, repr=False)(kind)
    checked = answered(kind.__init__)  # type: ignore[misc]
    told = signature(checked)
    names = [name for each in kind.__mro__ for name in vars(each).get("__annotations__", ())]

    def place(parameter: Parameter) -> tuple[int, int]:
        return parameter.kind, -1 if parameter.name == "self" else names.index(parameter.name)

    ordered = sorted(told.parameters.values(), key=place)
    checked.__signature__ = told.replace(parameters=ordered)  # type: ignore[attr-defined]
    kind.__init__ = checked  # type: ignore[misc]
    return kind
