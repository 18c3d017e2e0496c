"""Write the page of a run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from blocklearn.answers import answered
from blocklearn.durable import write_file
from blocklearn.models import Model

from ..drawing.markup import Markup, tag
from ..errors import ModelFolderError, ModelMissingError
from ..evidence.opened import ROWS, Sources, open_run_data
from ..inspection.run_record import RunRecord, read_run
from ..results.persistence import load
from .against import against_section
from .frame import page, section
from .model_sections import model_sections
from .run_sections import (
    choice_section,
    headline,
    memory_section,
    score_sections,
    settings_section,
    speed_section,
    subtitle,
    time_section,
    warnings,
)


@answered
def write_report(
    path: Path | str,
    out: Path | str,
    *,
    against: Path | str | None = None,
    rows: int = ROWS,
    sources: Sources | None = None,
    model: type[Model] | None = None,
) -> None:
    """Write the run in the folder `path` as one file of HTML, `out`.

    against: the folder of an earlier run to compare with.
    rows: the most rows of the training and of the held-out data that are read again, for typical
        documents, curves of predictions and errors; 0: none.
    sources: these data, if they are open already.
    model: the class, for a model that does not come with this package.

    Raises:
        ModelMissingError: a folder has no run.
        OSError: the page cannot be written.
        ValueError: `rows` is negative.
    """
    if rows < 0:
        raise ValueError(f"write_report: rows={rows}: must not be negative. Pass 0 to read none.")
    earlier = None if against is None else read_run(Path(against))
    run = read_run(Path(path))
    write_file(Path(out), report(run, earlier, rows, sources, model).encode())


def report(
    run: RunRecord,
    against: RunRecord | None = None,
    rows: int = ROWS,
    sources: Sources | None = None,
    model: type[Model] | None = None,
) -> str:
    """Return the page; see `write_report`."""
    return page(
        f"{run.name} - blocklearn",
        tag("h1", run.name),
        tag("p", subtitle(run), class_="subtitle"),
        headline(run),
        *warnings(run),
        *([] if against is None else [against_section(run, against)]),
        *score_sections(run, against),
        *choice_section(run),
        *_of_model(run, rows, sources, model),
        *speed_section(run),
        *time_section(run),
        *memory_section(run),
        settings_section(run),
    )


def _of_model(
    run: RunRecord, rows: int, sources: Sources | None, model: type[Model] | None
) -> Iterator[Markup]:
    if not run.model:
        yield section("Model", note="It is written at the end of the run.")
        return
    try:
        learner = load(run.path, model)
    except (ModelMissingError, ModelFolderError) as error:
        yield section("Model", note=f"It cannot be read: {error}")
        return
    yield from model_sections(learner, open_run_data(run.path, learner, rows, sources))
