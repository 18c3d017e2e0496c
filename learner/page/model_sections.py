"""Sections on a model: topics, spectra of factors, figures of targets."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklearn.models import ALS, GLM, LDA, NMF

from ..drawing.charts import Bar, Curve, bars, line_chart
from ..drawing.markup import Markup, tag
from ..figures import number
from ..learner import Learner
from ..recommendation.factors import factors_of
from ..reports.factors import list_lines
from ..reports.targets import PATH_METRICS
from ..storage.outputs import fits_of
from .frame import figure, figures, folded, section, table
from .topic_sections import topic_sections

TARGETS = 24  # in a figure
FEATURES = 5  # for a target, and as many against it
CHUNK = 2**16  # rows of factors at a time


def model_sections(learner: Learner) -> Iterator[Markup]:
    """Yield all sections on the model."""
    model = learner.model
    if isinstance(model, LDA | NMF):
        yield from topic_sections(learner)
    if isinstance(model, NMF):
        lengths = np.linalg.norm(model.parameters["H"].numpy().astype(np.float64), axis=0)
        yield spectrum_section(np.sort(lengths)[::-1], "lengths of the parts, the longest first")
    elif isinstance(model, ALS):
        yield from factor_sections(learner)
    elif isinstance(model, GLM):
        yield from target_sections(learner)


def spectrum_section(values: NDArray[Any], note: str) -> Markup:
    """Return a chart of falling numbers, one for each factor."""
    numbers = [float(value) for value in values]
    curve = Curve("factor", range(1, len(numbers) + 1), numbers)
    chart = line_chart([curve], x_label="factor")
    ratio = f"{number(numbers[0])} to {number(numbers[-1])}"
    return section("Spectrum of factors", figures([figure("size", ratio, chart)]), note=note)


def factor_sections(learner: Learner) -> Iterator[Markup]:
    """Yield singular values of a factorisation's predictions, and similar items."""
    factors = factors_of(learner)
    users, items = (table[:, : factors.rank] for table in (factors.users, factors.items))
    note = "singular values of the predictions (without biases): those near 0 are not needed"
    yield spectrum_section(singular_values(users, items), note)
    lines = [line.strip().partition(": ") for line in list_lines(learner) if line[:1] == " "]
    if lines:
        pairs = table(["item", "most alike"], [(name, rest) for name, _, rest in lines])
        yield section("What is alike", tag("div", pairs, class_="pairs"))


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


def target_sections(learner: Learner) -> Iterator[Markup]:
    """Yield figures of targets, their heaviest features, and regularisation paths."""
    scores = learner.progress.scores
    on_paths = {name for fit in fits_of(learner) if fit.grid for name in (fit.name, *fit.names)}
    by_figure: dict[str, list[Bar]] = {}
    for name, value in scores.items():
        kind, slash, target = name.partition("/")
        if slash and target not in on_paths and math.isfinite(value):
            by_figure.setdefault(kind, []).append(Bar(target, value, number(value)))
    charts = []
    for kind, rows in by_figure.items():
        more = [tag("p", f"and {len(rows) - TARGETS:,} more", class_="note")][
            len(rows) <= TARGETS :
        ]
        mean = f"mean {number(scores[kind])}" if math.isfinite(scores.get(kind, math.nan)) else ""
        charts.append(figure(kind, mean, bars(rows[:TARGETS]), *more))
    if charts:
        yield section("Targets", figures(charts), note="held-out figures")
    yield from path_sections(learner)
    yield from weight_sections(learner)


def weight_sections(learner: Learner) -> Iterator[Markup]:
    """Yield the features that speak most for and against each column of weights."""
    if learner.names is None:
        return
    weights = learner.model.parameters["W"].numpy()
    cards = []
    for fit in fits_of(learner):
        if fit.grid:
            continue
        for place, name in enumerate(fit.names):
            column = weights[:, fit.start + place]
            used = tag("small", f"{np.count_nonzero(column):,} weights")
            rows = [Bar(learner.names[i], float(column[i]), number(column[i])) for i in top(column)]
            cards.append(tag("div", tag("h3", name, used), bars(rows), class_="topic"))
    if cards:
        yield section(
            "Features that weigh most",
            *folded(cards, "targets"),
            note="blue: they speak for the target; orange: against it",
        )


def top(column: NDArray[Any]) -> Sequence[int]:
    """Return numbers of the features with the largest and the least weights, by weight."""
    order = np.argsort(-column, kind="stable")
    ends = [i for i in order[:FEATURES] if column[i] > 0]
    return ends + [i for i in order[-FEATURES:] if column[i] < 0]


def path_sections(learner: Learner) -> Iterator[Markup]:
    """Yield scores and weights along a target's list of penalties."""
    fits = fits_of(learner)
    weights = learner.model.parameters["W"].numpy()
    charts = []
    for axis in ("l1", "l2"):
        for base in dict.fromkeys(fit.base for fit in fits if axis in fit.grid):
            own = sorted(
                (fit for fit in fits if fit.base == base and fit.grid.get(axis, 0) > 0),
                key=lambda fit: fit.grid[axis],
            )
            if not own:
                continue
            x = [fit.grid[axis] for fit in own]
            scores = learner.progress.scores
            metric = next((m for m in PATH_METRICS if f"{m}/{own[0].name}" in scores), "")
            series = {f"{metric} of {base}": [scores.get(f"{metric}/{f.name}") for f in own]}
            series[f"weights of {base}"] = [
                float(np.count_nonzero(weights[:, fit.columns])) for fit in own
            ]
            for title, y in series.items():
                known = [(a, b) for a, b in zip(x, y, strict=True) if b is not None]
                if known:
                    curve = Curve(title, [a for a, _ in known], [b for _, b in known])
                    chart = line_chart([curve], x_label=axis, log_x=True)
                    charts.append(figure(title, number(known[-1][1]), chart))
    if charts:
        yield section("Paths of regularisation", figures(charts))
