"""Base class of everything with named settings.

An unknown name is an error that suggests the one meant. Imported by every folder, imports none.
"""

from __future__ import annotations

from typing import Any, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    ModelWrapValidatorHandler,
    ValidationError,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from .card import card
from .synonyms import nearest


class Fields(BaseModel):
    """Base class of models, optimizers and others whose fields are set by name.

    No field is a tuple or a path. A configuration file gives a list or a text for these, which
    pydantic converts only when it reads JSON.

    >>> class Point(Fields):
    ...     longitude: float = 0.0
    >>> Point(longtude=1.0)
    Traceback (most recent call last):
    pydantic_core._pydantic_core.ValidationError: 1 validation error for Point
    longtude
      unknown; did you mean 'longitude'? [type=extra_forbidden, input_value=1.0, input_type=float]
    """

    model_config = ConfigDict(extra="forbid")

    def _repr_html_(self) -> str:
        """Return the fields as HTML, for notebooks."""
        shown = {str(name): value for name, value in self.__repr_args__() if name != "kind"}
        return card(type(self).__name__, shown)

    @model_validator(mode="wrap")
    @classmethod
    def _name_the_nearest(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return handler(data)
        except ValidationError as error:
            problems = error.errors()
            if not any(_unknown(problem) for problem in problems):
                raise
            told = [_told(problem, list(cls.model_fields)) for problem in problems]
            raise ValidationError.from_exception_data(error.title, told) from None


def _unknown(problem: Any) -> bool:
    return problem["type"] == "extra_forbidden" and len(problem["loc"]) == 1


def _told(problem: Any, names: list[str]) -> InitErrorDetails:
    """Return the problem; for an unknown field, name the closest of `names`, or all."""
    kind, place, given = problem["type"], problem["loc"], problem["input"]
    if not _unknown(problem) and "url" in problem:  # pydantic's own
        context = problem.get("ctx", {})
        return InitErrorDetails(type=kind, loc=place, input=given, ctx=context)
    message = problem["msg"]
    if _unknown(problem):
        near = nearest(str(problem["loc"][0]), names)
        message = f"unknown; did you mean {near!r}?" if near else f"unknown; {_listed(names)}"
    told = PydanticCustomError(kind, "{text}", {"text": message})
    return InitErrorDetails(type=told, loc=place, input=given)


def _listed(names: list[str]) -> str:
    return f"there are {', '.join(names)}" if names else "there are no fields"
