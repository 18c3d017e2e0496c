"""The bodies of requests, how one is read from JSON, and the error of one that is wrong."""

from __future__ import annotations

from typing import Annotated, Any, Self, TypeVar

from pydantic import BaseModel, Field, ValidationError, model_validator

from blocklearn.fields import plain_rule

SHOWN = 3  # faults that a message lists
LONGEST = 10_000  # items of a list, words of a topic
MOST_ENTRIES = 100_000  # of all lists of an answer
RULES = {"missing": "is missing", "extra_forbidden": "is unknown"}
"""What is wrong with a field, by pydantic's type of error; of other types pydantic says it."""

Rows = Annotated[
    list[Any],
    Field(
        min_length=1,
        description="a row each: a text; a list of words or items, each of which counts once; an "
        "object with a number for each name of a column; or a list of a number for each column. A "
        "model of a table takes objects with the columns of the table",
    ),
]
Names = Annotated[list[str], Field(min_length=1)]
SkipUnknown = Annotated[
    bool, Field(description="leave out names that the model does not know; else they are an error")
]
Length = Annotated[int, Field(ge=1, le=LONGEST, description="length of a list")]


class RequestError(Exception):
    """A request that is not answered; `str(error)` is the message for the client.

    status: of HTTP, 400 to 599.
    """

    def __init__(self, status: int, message: str) -> None:
        """Keep the status and the message."""
        super().__init__(message)
        self.status = status


class Question(BaseModel, extra="forbid", strict=True):
    """The body of a request."""


class PredictRows(Question):
    """Rows to apply the model to."""

    rows: Rows
    skip_unknown: SkipUnknown = False


class PredictRatings(Question):
    """Pairs of users and items to rate, or rows of ratings to make factors of."""

    pairs: Annotated[
        list[tuple[str, str]] | None, Field(min_length=1, description="[user, item] each")
    ] = None
    rows: Rows | None = None
    skip_unknown: SkipUnknown = False

    @model_validator(mode="after")
    def _one(self) -> Self:
        return one_of(self, "pairs", "rows")


class FindTopics(Question):
    """Documents whose topics are wanted."""

    rows: Rows
    top: Annotated[int, Field(ge=1, le=LONGEST, description="most topics of a row")] = 3
    least: Annotated[float, Field(ge=0, le=1, description="least share of a topic")] = 0.0
    skip_unknown: SkipUnknown = False


class Recommend(Question):
    """Users of the training data, or ratings of new users."""

    users: Names | None = None
    rows: Rows | None = None
    top: Length = 10
    items: Annotated[Names | None, Field(description="items that may be listed; null: all")] = None
    include_seen: Annotated[bool, Field(description="list what users have seen, too")] = False
    skip_unknown: SkipUnknown = False

    @model_validator(mode="after")
    def _one(self) -> Self:
        return one_of(self, "users", "rows")


class Similar(Question):
    """Items, or users, whose neighbours are wanted."""

    items: Names | None = None
    users: Names | None = None
    top: Length = 10
    skip_unknown: SkipUnknown = False

    @model_validator(mode="after")
    def _one(self) -> Self:
        return one_of(self, "items", "users")


Asked = TypeVar("Asked", bound=Question)


def one_of(question: Asked, first: str, second: str) -> Asked:
    """Return `question`; raise `ValueError` unless exactly one of two fields is given."""
    if (getattr(question, first) is None) == (getattr(question, second) is None):
        raise ValueError(f"must have one of {first!r} and {second!r}")
    return question


def read(kind: type[Asked], body: bytes, most: int) -> Asked:
    """Read a body of JSON.

    most: of rows, users, items or pairs.

    Raises:
        RequestError: 400: it is not JSON. 422: a field is wrong. 413: it has too many rows.
    """
    try:
        question = kind.model_validate_json(body)
    except ValidationError as error:
        raise refusal(error) from None
    for name in kind.model_fields:
        given = getattr(question, name)
        if isinstance(given, list) and len(given) > most:
            raise RequestError(
                413, f"{name}: {len(given):,}: must be at most {most:,} a request (--max-rows)."
            )
        if isinstance(given, list) and len(given) * getattr(question, "top", 1) > MOST_ENTRIES:
            raise RequestError(
                413, f"top: lists of {MOST_ENTRIES:,} entries in all, at most. Ask for less."
            )
    return question


def refusal(error: ValidationError) -> RequestError:
    """Return the answer to a body that is not JSON, or has wrong fields."""
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    if faults[0]["type"] == "json_invalid":
        text = faults[0]["msg"].removeprefix("Invalid JSON: ")
        return RequestError(400, f"The body must be JSON: {text}.")
    lines = []
    for fault in faults[:SHOWN]:
        where = "".join(f"[{part}]" if isinstance(part, int) else str(part)[:40]
                        for part in fault["loc"])  # fmt: skip
        rule = RULES.get(fault["type"]) or plain_rule(fault["msg"])
        lines.append(f"{where or 'body'}: {rule}")
    more = f" {len(faults) - SHOWN:,} more." if len(faults) > SHOWN else ""
    return RequestError(422, "; ".join(lines) + "." + more)
