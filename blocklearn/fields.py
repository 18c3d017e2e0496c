"""Base class of everything with named settings.

An unknown name is an error that suggests the one meant. Imported by every folder, imports none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from types import FunctionType, SimpleNamespace
from typing import Any, ClassVar, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    ModelWrapValidatorHandler,
    ValidationError,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from .answers import answer, shown
from .card import card
from .synonyms import nearest

PLAIN = {
    "a valid boolean": "true or false",
    "a valid integer": "an integer",
    "a valid array": "a list",
    "valid ": "",
    " greater than or equal to ": " at least ",
    " less than or equal to ": " at most ",
    " greater than ": " above ",
    " less than ": " below ",
    " after validation": "",
}
"""Words of pydantic's own rules, `Input should be greater than 0`, and plain ones."""

NOT_TRIED = "default_factory_not_called"
"""pydantic's error type for a default that depends on a wrong field; it is not reported."""


class FieldError(ValueError):
    """A field has an unknown name or a wrong value.

    problems: what is wrong with each field, by its name: `must be at least 1`. The name is empty
        for a rule about several fields.
    """

    def __init__(self, owner: str, problems: Mapping[str, str], given: Mapping[str, Any]) -> None:
        """Describe each problem in a line. given: values of the fields, by name."""
        self.problems = dict(problems)
        lines = [
            f"{owner}: {name}={shown(given[name])}: {text}"
            if name in given
            else f"{owner}: {name}: {text}"
            if name
            else f"{owner}: {text}"
            for name, text in problems.items()
        ]
        super().__init__("\n".join(lines))


class Named(BaseModel):
    """Base class of everything whose fields are set by name; wrong ones are answered in Python.

    >>> class Point(Named):
    ...     longitude: float = 0.0
    >>> Point(longtude=1.0)
    Traceback (most recent call last):
    blocklearn.fields.FieldError: Point: longtude=1.0: unknown parameter; did you mean longitude?
    """

    model_config = ConfigDict(extra="forbid")

    def __init__(self, /, *unnamed: Any, **given: Any) -> None:
        """Set fields by name.

        Raises:
            FieldError: a name or a value is wrong; it is a ValueError.
            TypeError: a value has no name.
        """
        owner = type(self).__name__
        if unnamed:
            first = next((name for name in type(self).model_fields if name != "kind"), "NAME")
            value = shown(unnamed[0])
            raise TypeError(f"{owner}: {value}: must have a name. Write {owner}({first}={value}).")
        try:
            super().__init__(**given)
        except ValidationError as error:
            problems, values = problems_of(error, given, own_names(self))
            raise FieldError(owner, problems, values) from None

    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]  # only callers come here

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a field. Raises FieldError if the value is wrong, and is checked."""
        try:
            super().__setattr__(name, value)
        except ValidationError as error:
            problems, values = problems_of(error, {name: value}, own_names(self))
            raise FieldError(type(self).__name__, problems, values) from None

    def __str__(self) -> str:
        """Return the same text as `repr`."""
        return repr(self)

    def __repr_args__(self) -> Sequence[tuple[str | None, Any]]:
        """Yield the fields that `repr` and notebooks show."""
        return [(name, value) for name, value in super().__repr_args__() if name != "kind"]

    def _repr_html_(self) -> str:
        """Return the fields as HTML, for notebooks."""
        return card(type(self).__name__, {str(name): v for name, v in self.__repr_args__()})


def _tried(problem: Mapping[str, Any]) -> bool:
    return bool(problem["type"] != NOT_TRIED)


class Fields(Named):
    """Base class of models, optimizers and others whose fields are set by name.

    Wrong names in mappings for such fields are answered, too. No field is a tuple or a path: a
    configuration file gives a list or a text for these, which pydantic converts only when it reads
    JSON.

    reserved: attributes that the base sets later, so that no field may have these names.
    """

    reserved: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def __pydantic_init_subclass__(cls, **options: Any) -> None:
        """Raise TypeError for a member of another kind than that of the same name in the base."""
        super().__pydantic_init_subclass__(**options)
        check_members(cls)

    @model_validator(mode="wrap")
    @classmethod
    def _name_the_nearest(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return handler(data)
        except ValidationError as error:
            problems = list(filter(_tried, error.errors()))
            if not any(_unknown(problem) for problem in problems):
                raise
            told = [_told(problem, list(cls.model_fields)) for problem in problems]
            raise ValidationError.from_exception_data(error.title, told) from None


def check_members(cls: type[Fields]) -> None:
    """Raise TypeError where a class defines a name of its base as something else.

    A field may not be called as a method, or a `reserved` attribute. Methods stay methods. A
    property, or a value of the class, does not become one: without @property it is always true.
    """
    bases = [base for base in cls.__mro__[1:] if issubclass(base, Fields)]
    above = cls.__bases__[0].__name__
    for name in cls.__annotations__.keys() & cls.model_fields.keys():
        method = any(isinstance(vars(base).get(name), FunctionType) for base in bases)
        method = method or (name.startswith("model_") and hasattr(BaseModel, name))
        if method or name in cls.reserved:
            what = "a method" if method else "an attribute"
            raise TypeError(
                f"{cls.__name__}: field {name!r}: is the name of {what} of {above}. "
                "Give the field another name."
            )
    for name, own in vars(cls).items():
        there = next((vars(base)[name] for base in bases if name in vars(base)), None)
        if there is None or name.startswith("_"):
            continue
        if isinstance(own, FunctionType) and not _is_method(there):
            raise TypeError(
                f"{cls.__name__}.{name}: must be a property, as in {above}. Write "
                f"@property in the line above `def {name}`."
            )
        if isinstance(there, FunctionType) and not _is_method(own):
            raise TypeError(
                f"{cls.__name__}.{name}: must be a method, as in {above}. Write "
                f"`def {name}(self, ...)` without @property, or use another name."
            )


def _is_method(member: Any) -> bool:
    return isinstance(member, classmethod | staticmethod) or callable(member)


def set_by(attach: Callable[..., None], *given: Any) -> frozenset[str]:
    """Return the names of the attributes that a method sets, called on an empty object."""
    empty = SimpleNamespace()
    attach(empty, *given)
    return frozenset(vars(empty))


def problems_of(
    error: ValidationError, given: Mapping[str, Any], names: Sequence[str]
) -> tuple[dict[str, str], dict[str, Any]]:
    """Return what is wrong with each field, and the wrong values, by dotted names.

    Unknown names come first. Names that pydantic adds for the members of a union are left out;
    their reasons are joined.

    names: of the fields that may be given.
    """
    tried = filter(_tried, error.errors())
    items = sorted(tried, key=lambda item: item["type"] != "extra_forbidden")
    found = [(*_place(item["loc"], given), _rule(item, names)) for item in items]
    places = {name: number for number, (name, *_) in reversed(list(enumerate(found)))}
    found.sort(key=lambda one: places[one[0]])
    problems, values = {}, {}
    for name, group in groupby(found, key=lambda one: one[0]):
        same = list(group)
        problems[name] = any_of([rule for _, _, rule in same])
        if same[0][1] is not given:
            values[name] = same[0][1]
    return problems, values


def _place(loc: Sequence[int | str], given: Any) -> tuple[str, Any]:
    """Return the dotted name of a wrong field, and its value; of a missing one, all values."""
    path, value = [], given
    for number, part in enumerate(loc):
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            if number:  # pydantic's name of a member of a union
                continue
        path.append(str(part))
    return ".".join(path), value


def own_names(of: BaseModel) -> list[str]:
    """Return the names of the fields that a caller may give."""
    return [name for name in type(of).model_fields if name != "kind"]


def _rule(item: Any, names: Sequence[str]) -> str:
    """Return pydantic's message as a rule: `must be above 0`."""
    if _unknown(item) and "url" in item:
        return f"unknown parameter; {answer(str(item['loc'][0]), names)}"
    if item["type"] == "missing":
        return "must be given."
    text = plain_rule(item["msg"])
    text = text if text.endswith((".", "?")) else f"{text}."
    if item["type"] == "literal_error" and isinstance(item["input"], str):
        near = nearest(item["input"], re.findall(r"'([^']*)'", item["ctx"]["expected"]))
        text += f" Did you mean {near!r}?" if near else ""
    return text


def plain_rule(message: str) -> str:
    """Return pydantic's message in plain words: `must be above 0`."""
    message = re.sub(r"^(Value error|Assertion failed), ", "", message)
    message = re.sub(r"^Input is not a path for .*", "must be a path", message)
    rule = re.sub(r"^\w+ should ", "must ", message)
    if rule == message:  # words of a validator
        return rule
    for technical, plain in PLAIN.items():
        rule = rule.replace(technical, plain)
    return re.sub(r", unable to (parse|interpret) .*", "", rule)


def any_of(rules: Sequence[str]) -> str:
    """Return the rule that any one of `rules` holds: `must be at least 0 or a list`."""
    *others, last = dict.fromkeys(rules)
    known = [rule.rstrip(".") for rule in others]
    if not known:
        return last
    if not all(rule.startswith("must be ") for rule in [*known, last]):
        return " or ".join([*known, last])
    first, *others = known
    listed = ", ".join([first, *(rule.removeprefix("must be ") for rule in others)])
    return f"{listed} or {last.removeprefix('must be ')}"


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
        own = [name for name in names if name != "kind"]
        message = f"unknown parameter; {answer(str(place[0]), own)}"
    told = PydanticCustomError(kind, "{text}", {"text": message})
    return InitErrorDetails(type=told, loc=place, input=given)
