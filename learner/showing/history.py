"""Keep the course of training as a table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from blocklearn.card import card
from blocklearn.models.topic_quality import QUALITY

from ..drawing.charts import Curve, line_chart
from ..figures import number, overall
from ..training.settings.progress import Progress

OWN = ("pass", "block", "rows", "seconds", "rows_per_s")
"""Columns that every row has; the others are scores, and those of training data as train_NAME."""


class History:
    """The course of training: a row for each evaluation and each pass.

    Scores of training data are in a row if there are new ones since the row before.

    Columns: the number of the pass from 1, blocks done in it, rows trained on so far, seconds of
    training so far, rows per second, held-out scores, and scores of training data as train_NAME.
    A row without a score lacks its column.

    `history["perplexity"]` is a list with None for rows without it; `list(history)` the rows as
    dictionaries, which `pandas.DataFrame` takes.
    """

    def __init__(self) -> None:
        """Begin without rows."""
        self._rows: list[dict[str, float]] = []
        self._told: dict[str, float] = {}  # scores of training data in the rows so far

    def hear(self, event: str, progress: Progress) -> None:
        """Add a row if the event is an evaluation or the end of a pass without one."""
        here = progress.pass_ + 1, progress.block
        known = bool(self._rows) and (self._rows[-1]["pass"], self._rows[-1]["block"]) == here
        if event not in ("evaluated", "pass_end") or (event == "pass_end" and known):
            return
        numbers = (*here, progress.rows, progress.seconds, progress.rows_per_s)
        row: dict[str, float] = dict(zip(OWN, numbers, strict=True))
        if event == "evaluated":
            row |= progress.scores
        if progress.train_scores is not self._told:
            self._told = progress.train_scores
            row |= {f"train_{name}": value for name, value in overall(self._told).items()}
        self._rows = [*(self._rows[:-1] if known else self._rows), row]

    @property
    def columns(self) -> list[str]:
        """The names of all columns, in the order of their appearance."""
        return list(dict.fromkeys(name for row in self._rows for name in row))

    @property
    def scores(self) -> list[str]:
        """The columns with scores, without those of single targets and the quality of topics."""
        found = overall(dict.fromkeys(self.columns, 0.0))
        return [n for n in found if n not in OWN and n.removeprefix("train_") not in QUALITY]

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._rows)

    def __iter__(self) -> Iterator[dict[str, float]]:
        """Yield the rows as dictionaries."""
        return iter([dict(row) for row in self._rows])

    def __getitem__(self, column: str) -> list[float | None]:
        """Return a column. Raises KeyError, naming all, if no row has it."""
        if column not in self.columns:
            raise KeyError(f"{column!r}: must be one of {', '.join(self.columns) or 'no columns'}")
        return [row.get(column) for row in self._rows]

    def plot(self, *scores: str, path: str | Path | None = None) -> Any:
        """Plot scores over passes; return the Matplotlib figure.

        scores: columns; none: the held-out scores. path: file to write, such as history.png.

        Raises:
            MissingExtraError: Matplotlib is not installed.
            KeyError: no row has such a score.
            ValueError: there is nothing to plot.
        """
        from .plots import curves

        chosen = list(scores) or [name for name in self.scores if not name.startswith("train_")]
        if not chosen:
            raise ValueError("history: no score to plot: pass eval=X, or eval=0.1, and fit.")
        return curves({name: self._points(name) for name in chosen}, path)

    def chart(self) -> str:
        """Return an SVG of the first held-out score over passes; empty without two rows of it."""
        found = [name for name in self.scores if not name.startswith("train_")]
        points = self._points(found[0]) if found else ([], [])
        if len(points[0]) < 2:
            return ""
        return line_chart([Curve(found[0], *points)], x_label="pass")

    def _points(self, score: str) -> tuple[list[float], list[float]]:
        """Return passes, with a fraction within one, and values of a score."""
        longest = max((row["block"] for row in self._rows), default=1) or 1
        rows = [(row, row[score]) for row in self._rows if self[score] and score in row]
        found = [(row["pass"] - 1 + row["block"] / longest, value) for row, value in rows]
        finite = [(x, y) for x, y in found if abs(y) < float("inf")]
        return [x for x, _ in finite], [y for _, y in finite]

    def __repr__(self) -> str:
        """Show the table as text, at most the last ten rows."""
        if not self._rows:
            return "History(nothing is trained yet)"
        columns = [*OWN[:2], *self.scores]
        shown = ([_cell(name, row.get(name)) for name in columns] for row in self._rows[-10:])
        lines = [columns, *shown]
        widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
        text = ["  ".join(c.rjust(w) for c, w in zip(r, widths, strict=True)) for r in lines]
        more = [f"... {len(self) - 10} rows before"] if len(self) > 10 else []
        return "\n".join([text[0], *more, *text[1:]])

    def _repr_html_(self) -> str:
        """Return the last row and a curve as HTML, for notebooks."""
        last = self._rows[-1] if self._rows else {}
        shown = {name: _cell(name, last.get(name)) for name in [*OWN, *self.scores]}
        return card(f"History of {len(self)} rows; the last one:", shown, self.chart())


def _cell(name: str, value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,}" if name in ("pass", "block", "rows") else number(value)
