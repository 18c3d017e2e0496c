"""Write headings, sentences, tables and charts as Markdown and as one page of HTML."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blocklearn.learner.drawing.charts import HEIGHT, WIDTH, Curve, line_chart
from blocklearn.learner.drawing.markup import Markup, join, tag
from blocklearn.learner.page.frame import page
from blocklearn.learner.page.frame import table as html_table

from .curves import Chart
from .report import shown

COLORS = ("#2f6fdb", "#e0762f", "#2a9d75", "#8a5cd0", "#c2365b", "#7d8a2e", "#1e97a8", "#8d6e58",
          "#5d6878", "#d4a017")  # fmt: skip
STYLE = """
main > h3 { margin: 26px 0 6px; font-size: 15px } main > p { margin: 10px 0 } pre { margin: 12px }
figure svg { max-width: 800px }
svg { background: #fff; font: 11px system-ui, sans-serif } svg text { fill: #5d6878 }
svg .end { text-anchor: end } svg .middle { text-anchor: middle }
svg .grid { stroke: #e3e7ec } svg .axis { stroke: #aab3bf }
svg .curve { fill: none; stroke-width: 2 } svg .told { fill: transparent }
""" + "".join(
    f"svg .curve.k{n} {{ stroke: {c} }} svg .dot.k{n}, svg rect.k{n} {{ fill: {c} }}\n"
    for n, c in enumerate(COLORS)
)
LEGEND = 170  # width of the names beside a chart


@dataclass(frozen=True)
class Heading:
    """A heading of level 1 to 3."""

    level: int
    text: str


@dataclass(frozen=True)
class Words:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Points:
    """A list of sentences."""

    lines: Sequence[str]


@dataclass(frozen=True)
class Table:
    """A table; cells look as in a task's own tables.

    sentences: cells are long texts, not numbers.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[Any]]
    sentences: bool = False

    def texts(self) -> list[list[str]]:
        """Return all cells of the body as text."""
        return [[shown(cell) for cell in row] for row in self.rows]


@dataclass(frozen=True)
class Code:
    """Text with its spaces."""

    text: str


@dataclass(frozen=True)
class Plot:
    """A chart, and the name of its file without the suffix."""

    name: str
    chart: Chart


Block = Heading | Words | Points | Table | Code | Plot


def write(blocks: Sequence[Block], folder: Path) -> None:
    """Write `index.html`, and `report.md` with an SVG file for each chart.

    The page refers to no other file.
    """
    for block in blocks:
        if isinstance(block, Plot):
            style = tag("style", Markup(STYLE))
            (folder / f"{block.name}.svg").write_text(drawn(block.chart, style), encoding="utf-8")
    (folder / "report.md").write_text(markdown(blocks), encoding="utf-8")
    (folder / "index.html").write_text(html(blocks), encoding="utf-8")


def markdown(blocks: Sequence[Block]) -> str:
    """Return all blocks as Markdown."""
    return "\n\n".join(map(_markdown, blocks)) + "\n"


def _markdown(block: Block) -> str:
    match block:
        case Heading(level, text):
            return f"{'#' * level} {text}"
        case Words(text):
            return text
        case Points(lines):
            return "\n".join(f"- {line}" for line in lines)
        case Code(text):
            return f"```text\n{text}\n```"
        case Plot(name, chart):
            return f"![{chart.title} against seconds of training]({name}.svg)"
        case Table(head):
            rows = [list(head), ["---", *["---:"] * (len(head) - 1)], *block.texts()]
            return "\n".join(f"| {' | '.join(c.replace('|', '/') for c in r)} |" for r in rows)


def html(blocks: Sequence[Block]) -> str:
    """Return all blocks as a page titled by the first heading."""
    title = next(block.text for block in blocks if isinstance(block, Heading))
    return page(title, tag("style", Markup(STYLE)), *map(_html, blocks))


def _html(block: Block) -> Markup:
    match block:
        case Heading(level, text):
            return tag(f"h{level}", text)
        case Words(text):
            return tag("p", *spans(text))
        case Points(lines):
            return tag("ul", *(tag("li", *spans(line)) for line in lines))
        case Code(text):
            return tag("div", tag("pre", text), class_="scroll")
        case Plot(_, chart):
            return tag("figure", drawn(chart))
        case Table(head):
            found = html_table(head, block.texts())
            return tag("div", found, class_="pairs") if block.sentences else found


def spans(text: str) -> list[str]:
    """Split a sentence of Markdown into parts, those within backticks as code.

    >>> spans("run `a < b` now")
    ['run ', '<code>a &lt; b</code>', ' now']
    """
    return [tag("code", part) if n % 2 else part for n, part in enumerate(text.split("`"))]


def drawn(chart: Chart, *before: str) -> Markup:
    """Return a chart's curves over the logarithm of seconds, with names beside it."""
    curves = [
        Curve(name, [max(s, 1e-6) for s, _ in points], [q for _, q in points], color=n)
        for n, (name, points) in enumerate(chart.systems.items())
    ]
    drawing = line_chart(curves, x_label="seconds of training", log_x=True)
    inside = drawing[drawing.index(">") + 1 :].removesuffix("</svg>")
    for n in range(len(curves)):  # more colours than a run has systems
        inside = inside.replace(f'class="curve c{n}"', f'class="curve k{n % len(COLORS)}"')
        inside = inside.replace(f'class="dot c{n}"', f'class="dot k{n % len(COLORS)}"')
    return tag(
        "svg",
        *before,
        Markup(inside),
        *_legend([curve.name for curve in curves]),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH + LEGEND} {HEIGHT}",
        role="img",
        aria_label=chart.title,
    )


def _legend(names: Sequence[str]) -> Iterator[Markup]:
    for n, name in enumerate(names):
        y = 18 + 17 * n
        mark = tag("rect", x=WIDTH, y=y - 9, width=10, height=10, class_=f"k{n % len(COLORS)}")
        yield join(mark, tag("text", name, x=WIDTH + 15, y=y))
