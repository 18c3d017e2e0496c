"""Make models, optimizers and mixins of their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from blocklearn.answers import shown
from blocklearn.fields import Fields
from blocklearn.synonyms import nearest

from ..training.settings.evaluation import Evaluation

Made = TypeVar("Made", bound=Fields)


def made(what: str, kinds: Mapping[str, type[Made]], given: Any) -> Made:
    """Return `given`, or what it names: `"adam"` or `{"kind": "adam", "rate": 0.1}`.

    what: the parameter, for messages.
    kinds: the built-in classes by name; a name such as "mine.py:Adam" imports another one.

    Raises:
        TypeError: it is neither, or a class.
        ValueError: the name is unknown, or a field is wrong.
    """
    if isinstance(given, type):
        name = given.__name__
        raise TypeError(
            f"Learner: {what}={name}: must be {_a(what.removesuffix('s'))}, not its class. Write "
            f"{name}(...)."
        )
    if isinstance(given, str):
        given = {"kind": given}
    if not isinstance(given, Mapping):
        if not isinstance(given, Fields):
            first = next(iter(kinds))
            raise TypeError(
                f"Learner: {what}={shown(given)}: must be {_a(what)}, its name, or a mapping with "
                f"its kind. Write {what}={first!r}, or an object such as {kinds[first].__name__}()."
            )
        return given  # type: ignore[return-value]
    fields = dict(given)
    kind = fields.pop("kind", None)
    if kind in kinds:
        return kinds[kind](**fields)
    from .class_names import ClassNameError
    from .kinds import named_class  # not above: the schema of configurations takes long

    try:
        own = named_class(str(kind), what.rstrip("s") + "s")
    except ClassNameError as error:
        raise ValueError(f"Learner: {what}={kind!r}: {error}") from error
    if own is None:
        near = nearest(str(kind), kinds)
        hint = f" Did you mean {near!r}?" if near else ""
        raise ValueError(f"Learner: {what}={kind!r}: must be one of {', '.join(kinds)}.{hint}")
    made: Made = own(**fields)
    return made


def listed(given: Any) -> list[Any]:
    """Return a sequence as a list; of a single object, name or mapping, a list of it."""
    return list(given) if isinstance(given, Sequence) and not isinstance(given, str) else [given]


def evaluation_of(given: Evaluation | str | Mapping[str, Any] | None) -> Evaluation:
    """Return an evaluation: as it is, of the name of the score to watch, or of its fields."""
    if given is None or isinstance(given, str):
        return Evaluation(metric=given)
    if isinstance(given, Mapping):
        return Evaluation(**given)
    if not isinstance(given, Evaluation):
        raise TypeError(
            f"Learner: evaluation={shown(given)}: must be an Evaluation, or the name of the score "
            "to watch. Write evaluation='perplexity', or blocklearn.Evaluation(patience=3, ...)."
        )
    return given


def _a(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"
