"""Draw pictures with Matplotlib, of the extra `plots`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

Points = tuple[Sequence[float], Sequence[float]]
BESIDE = 4  # charts of bars in a row


def new_figure(width: float, height: float) -> Any:
    """Return an empty Matplotlib figure, width x height inches.

    Notebooks show it; `savefig` writes it. Raises ImportError if Matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "plots need matplotlib, which is not installed: pip install 'blocklearn[plots]'"
        ) from error
    picture = type("Picture", (Figure,), {"_repr_png_": png_of})  # shown without pyplot, too
    return picture(figsize=(width, height), layout="constrained")


def png_of(figure: Any) -> bytes:
    """Return a picture of the figure, for notebooks."""
    file = BytesIO()
    figure.savefig(file, format="png")
    return file.getvalue()


def curves(lines: Mapping[str, Points], path: str | Path | None = None) -> Any:
    """Plot each line, with its points (pass, y), below the others; return the figure.

    path: file to write.
    """
    figure = new_figure(6.4, 1.2 + 1.8 * len(lines))
    for number, (name, (x, y)) in enumerate(lines.items(), start=1):
        axes = figure.add_subplot(len(lines), 1, number)
        axes.plot(x, y, marker="." if len(x) < 50 else "")
        axes.set_ylabel(name)
        axes.grid(alpha=0.3)
        axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel("pass")
    return written(figure, path)


def bar_charts(charts: Mapping[str, Mapping[str, float]], path: str | Path | None = None) -> Any:
    """Draw a chart of horizontal bars for each title; return the figure.

    charts: titles, with names and lengths of the bars.
    """
    rows = -(-len(charts) // BESIDE)
    longest = max((len(bars) for bars in charts.values()), default=1)
    wide = min(BESIDE, len(charts))
    figure = new_figure(2.6 * wide, rows * (0.6 + 0.2 * longest))
    for number, (title, bars) in enumerate(charts.items(), start=1):
        axes = figure.add_subplot(rows, wide, number)
        places = range(len(bars))
        axes.barh(places, list(bars.values()))
        axes.set_yticks(places, [plain_text(name) for name in bars], fontsize=8)
        axes.set_title(plain_text(title), fontsize=9)
        axes.tick_params("x", labelsize=7)
        axes.invert_yaxis()
    return written(figure, path)


def plain_text(name: str) -> str:
    r"""Return a name of data as text: Matplotlib would read `$` as the start of mathematics.

    >>> print(plain_text("$100"))
    \$100
    """
    return name.replace("$", r"\$")


def written(figure: Any, path: str | Path | None) -> Any:
    """Return the figure, written to `path` if that is given."""
    if path is not None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path)
    return figure
