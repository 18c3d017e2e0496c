"""Report a generalised linear model: a table of its targets, a path as a picture."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from blocklearn.models import GLM, Model
from blocklearn.models.glm.targets import Fit

from ..errors import ConfigError
from ..figures import number
from ..learner import Learner
from ..results.outputs import fits_of
from ..results.predictions import Predicted

PATH_METRICS = ("auc", "accuracy", "r2", "log_loss", "squared_error", "deviance", "hinge_loss")
ROWS = 2**16  # of a table that are looked at together
MENTIONED = 5  # targets shown for a row, at most


def target_lines(learner: Learner) -> Iterator[str]:
    """Yield a table: a line for each fit and class of a group, a column for each figure."""
    used = used_weights(learner)
    counts: dict[str, str] = {}
    for fit in fits_of(learner):
        counts[fit.name] = f"{used[fit.columns].sum():,}"
        counts |= {name: f"{used[fit.start + i]:,}" for i, name in enumerate(fit.names)}
    yield from score_table(learner.progress.scores, {"weights": counts})


def used_weights(learner: Learner) -> NDArray[np.int64]:
    """Count the weights of each column that are not 0; the table may be larger than memory."""
    table = learner.model.parameters["W"].shown()
    used = np.zeros(table.shape[1], np.int64)
    for start in range(0, len(table), ROWS):
        used += np.count_nonzero(table[start : start + ROWS], axis=0)
    return used


def score_table(
    scores: Mapping[str, float], more: Mapping[str, Mapping[str, str]] | None = None
) -> Iterator[str]:
    """Yield scores named `FIGURE/TARGET` as a table.

    more: further columns, by name and target.

    >>> for line in score_table({"auc": 0.8, "auc/cat": 0.7, "auc/dog": 0.9, "r2/cat": 0.5}):
    ...     print(line)
    target  auc   r2
    cat     0.7  0.5
    dog     0.9    -
    """
    columns: dict[str, dict[str, str]] = {}
    for name, value in scores.items():
        figure, slash, target = name.partition("/")
        if slash:
            columns.setdefault(figure, {})[target] = number(value)
    columns |= {name: dict(texts) for name, texts in (more or {}).items()}
    targets = list(dict.fromkeys(target for texts in columns.values() for target in texts))
    if targets:
        head = ["target", *columns]
        rows = [[t, *(texts.get(t, "-") for texts in columns.values())] for t in targets]
        yield from aligned([head, *rows])


def different_columns(fit: Fit) -> list[tuple[int, str]]:
    """Return place and name of the columns of a fit that say different things.

    Of two classes that is the second one: scores, curves and weights of the first mirror it.
    """
    found = list(enumerate(fit.names))
    return found[1:] if fit.link == "softmax" and len(found) == 2 else found


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield rows of texts in columns: the first aligned left, the others right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *others in rows:
        cells = (cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))
        yield "  ".join([first.ljust(widths[0]), *cells]).rstrip()


def prediction_lines(learner: Learner, blocks: Iterable[Predicted]) -> Iterator[str]:
    """Yield one line per row: its name, then targets with their numbers, largest first."""
    names = [name for fit in fits_of(learner) for name in fit.names]
    for block in blocks:
        for document, row in zip(block.names, block.values, strict=True):
            order = np.argsort(-row, kind="stable")[:MENTIONED]
            yield f"{document}: " + ", ".join(f"{names[i]} {number(float(row[i]))}" for i in order)


def check_plot(model: Model) -> None:
    """Check before training that a path will exist and can be drawn.

    Raises:
        ConfigError: no target has a list of l1 or of l2.
        ImportError: matplotlib is not installed.
    """
    parts = [model, *(model.targets or ())] if isinstance(model, GLM) else []
    if not any(isinstance(weight, list) for part in parts for weight in (part.l1, part.l2)):
        raise ConfigError(["--plot draws a regularisation path: give a target a list of l1 or l2"])
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "--plot needs matplotlib, which is not installed: pip install 'blocklearn[plots]'"
        ) from error


def plot_path(learner: Learner, file: Path) -> None:
    """Draw held-out figures and numbers of weights against the weight of the penalty.

    The penalty is l1 if there are lists of both. Call `check_plot` first.
    """
    from matplotlib.figure import Figure

    fits = fits_of(learner)
    axis = "l1" if any("l1" in fit.grid for fit in fits) else "l2"
    used = used_weights(learner)
    figure = Figure(figsize=(7, 6), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    scores, drawn = learner.progress.scores, ""
    for base in dict.fromkeys(fit.base for fit in fits if axis in fit.grid):
        own = [fit for fit in fits if fit.base == base and axis in fit.grid]
        x = [fit.grid[axis] for fit in own]
        metric = next((m for m in PATH_METRICS if f"{m}/{own[0].name}" in scores), "")
        if metric:
            y = [scores[f"{metric}/{fit.name}"] for fit in own]
            above.plot(x, y, marker=".", label=f"{metric} of {base}")
            drawn = metric
        below.plot(x, [int(used[fit.columns].sum()) for fit in own], marker=".", label=base)
    above.set_ylabel(f"held out: {drawn}" if drawn else "nothing held out")
    below.set_ylabel("weights that are not 0")
    below.set_xlabel(axis)
    smallest = min((fit.grid[axis] for fit in fits if fit.grid.get(axis)), default=1.0)
    below.set_xscale("symlog", linthresh=smallest)  # linear below it, so that 0 is shown, too
    if drawn:
        above.legend()
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file)
