"""The endpoints of a service: what each takes, answers and looks like."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any

from .questions import FindTopics, PredictRatings, PredictRows, Question, Recommend, Similar
from .served import Answer, Served

EXAMPLE_NAMES = 3


@dataclass(frozen=True)
class Endpoint:
    """An endpoint that takes JSON.

    Attributes:
        path: of the URL.
        about: what it answers, in a line.
        question: the class of the body.
        answer: answers a question.
        example: a body that works.
    """

    path: str
    about: str
    question: type[Question]
    answer: Callable[[Any], Answer]
    example: dict[str, Any]


def endpoints_of(served: Served) -> list[Endpoint]:
    """Return the endpoints that a model has."""
    row = example_row(served)
    if served.has_factors:
        user, item = name_of(served.factors.user_ids), name_of(served.factors.item_ids)
        about = "Ratings of pairs of users and items, or factors of new users."
        who = {"users": [user]} if served.seen is not None else {"rows": [row]}
        return [
            Endpoint("/predict", about, PredictRatings, served.rate, {"pairs": [[user, item]]}),
            Endpoint(
                "/recommend",
                "The best items for users, or for new users by their ratings.",
                Recommend,
                served.recommend,
                who | {"top": EXAMPLE_NAMES},
            ),
            Endpoint(
                "/similar",
                "The items most like each item, or the users most like each user.",
                Similar,
                served.similar,
                {"items": [item], "top": EXAMPLE_NAMES},
            ),
        ]
    about = "Predictions for rows."
    found = [Endpoint("/predict", about, PredictRows, served.predict, {"rows": [row]})]
    if served.has_topics:
        about = "The largest topics of documents. GET: the words of all topics."
        example = {"rows": [row], "top": EXAMPLE_NAMES}
        found.append(Endpoint("/topics", about, FindTopics, served.find_topics, example))
    return found


def name_of(names: Any) -> str:
    """Return the first name, or the number of the first row."""
    return str(names[0]) if names is not None and len(names) else "0"


def example_row(served: Served) -> Any:
    """Return a row as a request may have it."""
    if served.data is not None and served.data.fields is not None:
        return {n: 0 if kind == "number" else "text" for n, kind in served.data.fields.items()}
    columns = served.columns
    if served.reader.dense:
        names = columns.names
        return [0] * columns.count if names is None else dict.fromkeys(names, 0)
    names = [str(i) for i in range(columns.count)] if columns.names is None else columns.names
    first = list(islice(names, EXAMPLE_NAMES))
    return " ".join(first) if served.reader.texts else dict.fromkeys(first, 1)


def described(served: Served, endpoints: list[Endpoint], about: dict[str, Any]) -> Answer:
    """Return the index of a service, with a schema and an example of each endpoint.

    about: facts on the service.
    """
    listed: list[dict[str, Any]] = [
        {
            "path": endpoint.path,
            "method": "POST",
            "about": endpoint.about,
            "example": endpoint.example,
            "schema": endpoint.question.model_json_schema(),
        }
        for endpoint in endpoints
    ]
    if served.has_topics:
        about_words = "The words of all topics. Query: top, relevance."
        listed.append({"path": "/topics", "method": "GET", "about": about_words})
    listed += [
        {"path": "/health", "method": "GET", "about": "Status 200 while the service works."},
        {"path": "/metrics", "method": "GET", "about": "Counts and times, for Prometheus."},
    ]
    return about | {"endpoints": listed}
