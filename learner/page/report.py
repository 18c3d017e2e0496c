"""Write the page of a run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from blocklearn.durable import write_file

from ..drawing.markup import Markup, tag
from ..errors import ModelFolderError, ModelMissingError
from ..inspection.run_record import RunRecord, read_run
from ..storage.persistence import load
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


def write_report(path: Path, out: Path) -> None:
    """Write the run in the folder `path` as one file of HTML, `out`.

    Raises:
        ModelMissingError: the folder has no run.
        OSError: the page cannot be written.
    """
    write_file(out, report(read_run(path)).encode())


def report(run: RunRecord) -> str:
    """Return the page."""
    return page(
        f"{run.name} - blocklearn",
        tag("h1", run.name),
        tag("p", subtitle(run), class_="subtitle"),
        headline(run),
        *warnings(run),
        *score_sections(run),
        *choice_section(run),
        *_of_model(run),
        *speed_section(run),
        *time_section(run),
        *memory_section(run),
        settings_section(run),
    )


def _of_model(run: RunRecord) -> Iterator[Markup]:
    if not run.model:
        yield section("Model", note="It is written at the end of the run.")
        return
    try:
        learner = load(run.path)
    except (ModelMissingError, ModelFolderError) as error:
        yield section("Model", note=f"It cannot be read: {error}")
        return
    yield from model_sections(learner)
