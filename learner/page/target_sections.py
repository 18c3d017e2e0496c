"""Sections on linear models: figures of targets, held-out curves, weights, paths."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklearn.datasources.arrays.hashed_names import HashedWords
from blocklearn.models.glm.links import HINGES

from ..drawing.charts import Bar, Curve, bars, line_chart
from ..drawing.markup import Markup, tag
from ..evidence.score_bins import ScoreBins
from ..evidence.targets import BINARY, Output, TargetEvidence
from ..figures import number
from ..learner import Learner
from ..reports.targets import PATH_METRICS, different_columns
from ..results.outputs import fits_of
from ..training.settings.evaluation import HIGHER
from .frame import figure, figures, folded, section

TARGETS = 24  # in a figure
CURVES = 4  # targets whose curves are shown; the others are folded
FEATURES = 5  # for a target, and as many against it


def target_sections(learner: Learner, found: TargetEvidence | None) -> Iterator[Markup]:
    """Yield figures of targets, held-out curves, their heaviest features, and paths.

    found: held-out predictions; None: there are none.
    """
    charts = list(figure_charts(learner))
    if charts:
        yield section("Targets", figures(charts), note="held-out figures, the best first")
    if found is not None and found.bins:
        yield curve_section(found)
    yield from path_sections(learner)
    yield from weight_sections(learner)


def figure_charts(learner: Learner) -> Iterator[Markup]:
    """Yield a chart of bars for each figure, a bar for each target, the best first.

    A figure of a single target is left out: it is among the scores of the run.
    """
    scores = learner.progress.scores
    fits = fits_of(learner)
    shown = {fit.name for fit in fits if not fit.grid}
    shown |= {name for fit in fits if not fit.grid for _, name in different_columns(fit)}
    by_figure: dict[str, list[Bar]] = {}
    for name, value in scores.items():
        kind, slash, target = name.partition("/")
        if slash and target in shown and math.isfinite(value):
            by_figure.setdefault(kind, []).append(Bar(target, value, number(value)))
    for kind, rows in by_figure.items():
        if len(rows) < 2:
            continue
        rows.sort(key=lambda row: row.value, reverse=kind in HIGHER)
        mean = f"mean {number(scores[kind])}" if math.isfinite(scores.get(kind, math.nan)) else ""
        yield figure(kind, mean, *sorted_bars(rows))


def sorted_bars(rows: Sequence[Bar]) -> Iterator[Markup]:
    """Yield bars, or of many the first and the last ones."""
    if len(rows) <= TARGETS:
        yield bars(rows)
        return
    full = max(abs(row.value) for row in rows)
    half = TARGETS // 2
    yield bars(rows[:half], full)
    yield tag("p", f"{len(rows) - TARGETS:,} targets between", class_="note")
    yield bars(rows[-half:], full)


# ---- held-out curves -----------------------------------------------------------------------------


def curve_section(found: TargetEvidence) -> Markup:
    """Return curves of each target: ROC, precision and recall, calibration."""
    blocks = [
        tag("div", tag("h3", name), figures(charts_of(*both)), class_="curves")
        for name, both in found.bins.items()
    ]
    rows = (
        f"{found.rows:,}" if found.rows >= found.of else f"the first {found.rows:,} of {found.of:,}"
    )
    note = f"{rows} held-out rows; grey: by chance, and predictions that are right on average"
    if len(blocks) < found.outputs:
        note += f"; the best and the worst of {found.outputs:,} targets"
    parts = [tag("div", *blocks[:CURVES])]
    if rest := blocks[CURVES:]:
        parts.append(tag("details", tag("summary", f"{len(rest):,} more targets"), *rest))
    return section("Held-out predictions", *parts, note=note)


def charts_of(output: Output, bins: ScoreBins) -> Iterator[Markup]:
    """Yield the charts of a target. Numbers have only the last one."""
    binary = output.fit.link in BINARY
    if binary and 0 < bins.base_rate < 1:
        x, y = bins.roc()
        even = Curve("chance", [0.0, 1.0], [0.0, 1.0], 5)
        yield shares_figure("ROC", f"area {bins.area:.3f}", [even, Curve("rows", x, y)],
                            "false positive rate")  # fmt: skip
        x, y = bins.precision_recall()
        even = Curve("chance", [0.0, 1.0], [bins.base_rate] * 2, 5)
        yield shares_figure("precision by recall", f"average {bins.average_precision:.3f}",
                            [even, Curve("rows", x, y)], "recall")  # fmt: skip
    if output.fit.link in HINGES:
        return  # its scores are no means of the target
    x, y, _ = (values.tolist() for values in bins.calibration())
    low, high = min(x), max(x)
    even = Curve("equal", [low, high], [low, high], 5)
    error = f"mean distance {number(bins.calibration_error)}"
    chart = line_chart([even, Curve("rows", x, y)], x_label="mean prediction", linear=True)
    yield figure("mean target by prediction", error, chart)


def shares_figure(title: str, value: str, curves: Sequence[Curve], x_label: str) -> Markup:
    """Return a chart whose axes are shares, 0 to 1."""
    return figure(title, value, line_chart(curves, x_label=x_label, zero=True, top=1.0))


# ---- weights -------------------------------------------------------------------------------------


def weight_sections(learner: Learner) -> Iterator[Markup]:
    """Yield the features that speak most for and against each column of weights."""
    if learner.names is None:
        return
    weights = learner.model.parameters["W"].shown()
    names = learner.names
    opposites = names.opposites() if isinstance(names, HashedWords) else {}
    cards = []
    for fit in fits_of(learner):
        if fit.grid:
            continue
        for place, name in different_columns(fit):
            column = weights[:, fit.start + place].copy()
            column[list(opposites)] *= -1.0
            used = tag("small", f"{np.count_nonzero(column):,} weights")
            rows = [
                Bar(opposites.get(i, names[i]), float(column[i]), number(column[i]))
                for i in map(int, top(column))
            ]
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
    weights = learner.model.parameters["W"].shown()
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
