"""Sections on factors of users and items: popularity, errors, lists of some users."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..drawing.charts import Bar, Curve, bars, line_chart
from ..drawing.markup import Markup, tag
from ..evidence.ratings import Group, Listed, RatingEvidence
from ..figures import number
from ..learner import Learner
from ..recommendation.factors import factors_of
from ..reports.factors import list_lines
from .frame import figure, figures, section, table

CHUNK = 2**16  # rows of factors at a time


def factor_sections(learner: Learner, found: RatingEvidence | None) -> Iterator[Markup]:
    """Yield what data say, singular values of the predictions, and similar items.

    found: what ratings say about the factors; None: nothing.
    """
    if found is not None:
        yield popularity_section(found)
        if found.held_out:
            yield error_section(found)
        if found.lists:
            yield list_section(found)
    factors = factors_of(learner)
    users, items = (table[:, : factors.rank] for table in (factors.users, factors.items))
    note = "singular values of the predictions (without biases): those near 0 are not needed"
    yield spectrum_section(singular_values(users, items), note)
    lines = [line.strip().partition(": ") for line in list_lines(learner) if line[:1] == " "]
    if lines:
        pairs = table(["item", "most alike"], [(name, rest) for name, _, rest in lines])
        yield section("What is alike", tag("div", pairs, class_="pairs"))


def popularity_section(found: RatingEvidence) -> Markup:
    """Return how many users and items have how many ratings."""
    charts = []
    for what, groups in (("users", found.by_user), ("items", found.by_item)):
        rows = [Bar(each.name, each.members, f"{each.members:,}") for each in groups]
        total = sum(each.members for each in groups)
        title = f"{what}, by number of {entries(found)}"
        charts.append(figure(title, f"{total:,} {what}", bars(rows)))
    return section(entries(found).title(), figures(charts), note=read(found))


def entries(found: RatingEvidence) -> str:
    """Return what the data are called: ratings, or entries of implicit feedback."""
    return "entries" if found.implicit else "ratings"


def read(found: RatingEvidence) -> str:
    """Return how many users were read: `training ratings of 600 users`."""
    what = f"training {entries(found)} of"
    if found.users < found.of:
        return f"{what} the first {found.users:,} of {found.of:,} users"
    return f"{what} {found.users:,} users"


def error_section(found: RatingEvidence) -> Markup:
    """Return held-out errors of users and items with few and many training ratings."""
    charts = []
    for what, groups in (("users", found.by_user), ("items", found.by_item)):
        known = [each for each in groups if each.ratings]
        rows = [error_bar(each, implicit=found.implicit) for each in known]
        value = "mean prediction" if found.implicit else "rmse"
        charts.append(figure(f"{value}, by {entries(found)} of {what}", "", bars(rows)))
    called = entries(found)
    note = f"{found.held_out:,} held-out {called}, by the number of training {called}"
    if found.implicit:
        note += "; a perfect prediction is 1"
    return section("Errors by popularity", figures(charts), note=note)


def error_bar(group: Group, *, implicit: bool) -> Bar:
    """Return the bar of a group: its error, or its mean prediction."""
    value = group.predicted if implicit else group.error
    return Bar(
        group.name,
        value if math.isfinite(value) else 0.0,
        f"{number(value)}, {group.ratings:,} {'entries' if implicit else 'ratings'}",
    )


def list_section(found: RatingEvidence) -> Markup:
    """Return what some users rated, beside what the model recommends to them."""
    cards = [
        tag(
            "div",
            tag("h3", each.user),
            tag("div", *columns_of(each, "has" if found.implicit else "rated"), class_="beside"),
            class_="card",
        )
        for each in found.lists
    ]
    what = "have most of" if found.implicit else "rated highest"
    note = f"what some users {what}, and what they get; \u2713 marks held-out items"
    return section("Lists of some users", *cards, note=note)


def columns_of(each: Listed, known: str) -> Iterator[Markup]:
    """Yield the two lists of a user. known: title of the first."""
    yield item_list(known, [(name, number(value)) for name, value in each.rated])
    yield item_list(
        "recommended",
        [
            (name, ("\u2713 " if held else "") + number(value))
            for name, value, held in each.recommended
        ],
    )


def item_list(title: str, rows: Sequence[tuple[str, str]]) -> Markup:
    """Return a list of items with a text each."""
    entries = [
        tag("li", tag("span", name, class_="name", title=name), tag("b", text))
        for name, text in rows
    ]
    return tag("div", tag("small", title), tag("ol", *entries, class_="items"))


def spectrum_section(values: NDArray[Any], note: str) -> Markup:
    """Return a chart of falling numbers, one for each factor."""
    numbers = [float(value) for value in values]
    curve = Curve("factor", range(1, len(numbers) + 1), numbers)
    chart = line_chart([curve], x_label="factor")
    ratio = f"{number(numbers[0])} to {number(numbers[-1])}"
    return section("Spectrum of factors", figures([figure("size", ratio, chart)]), note=note)


def singular_values(left: NDArray[Any], right: NDArray[Any]) -> NDArray[np.float64]:
    """Return the first K singular values of left @ right.T, largest first.

    left: [n x K]. right: [m x K]. The values are roots of the eigenvalues of the product of the two
    Gram matrices.
    """
    grams = [gram(left), gram(right)]
    values = np.linalg.eigvals(grams[0] @ grams[1]).real
    return np.asarray(np.sqrt(np.sort(np.maximum(values, 0.0))[::-1]), np.float64)


def gram(rows: NDArray[Any]) -> NDArray[np.float64]:
    """Return rows.T @ rows in float64, computed in chunks of rows."""
    found = np.zeros((rows.shape[1], rows.shape[1]))
    for start in range(0, len(rows), CHUNK):
        part = rows[start : start + CHUNK].astype(np.float64)
        found += part.T @ part
    return found
