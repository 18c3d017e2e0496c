"""Make the pictures of reports in the documentation, with headless Chromium.

    .venv/bin/python scripts/make_gallery.py

runs the tutorials that begin with a question, and writes sections of their reports to
`docs/pictures`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import chdir
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from blocklearn.learner.command_line.cli import main as learn  # noqa: E402
from blocklearn.learner.drawing.markup import Markup  # noqa: E402
from blocklearn.learner.inspection.run_record import read_run  # noqa: E402
from blocklearn.learner.page.frame import page  # noqa: E402
from blocklearn.learner.page.report import report  # noqa: E402
from tests.support.browser import CHROMIUM  # noqa: E402
from tests.support.page_blocks import PageRun, code_blocks  # noqa: E402

PAGES = ("lda", "als", "glm")


class Picture(NamedTuple):
    """A picture of some sections of a run's report."""

    name: str
    run: str
    sections: tuple[str, ...]
    width: int
    height: int
    dark: bool = False


PICTURES = [
    Picture("topics-map", "docs", ("Map of topics",), 1000, 680),
    Picture("topics", "mails", ("Topics",), 1000, 560),
    Picture("topics-over-time", "mails", ("Topics over time",), 1000, 590),
    Picture("curves", "docs", ("Scores",), 1000, 860, True),
    Picture(
        "predictions", "leaving", ("Held-out predictions", "Features that weigh most"), 1280, 620
    ),
    Picture("lists", "sales", ("Errors by popularity", "Lists of some users"), 1000, 720),
    Picture("time", "docs", ("Where the time went",), 1000, 500),
    Picture("phone", "mails", ("Topics",), 500, 760, True),
]


def main() -> None:
    """Make the runs and the pictures."""
    if CHROMIUM is None:
        raise SystemExit("make_gallery: needs chromium: apt-get install chromium")
    folder = Path(tempfile.mkdtemp(prefix="gallery-"))
    for name in PAGES:
        run_page(f"docs/tutorials/{name}-decision.md", folder / name)
    train("lda", folder / "lda" / "runs" / "docs")
    out = ROOT / "docs" / "pictures"
    out.mkdir(exist_ok=True)
    for picture in PICTURES:
        (run,) = folder.glob(f"*/runs/{picture.run}")
        with chdir(run.parents[1]):  # where the run finds its data
            text = only(report(read_run(run)), picture.sections)
        take(text, picture, folder, out / f"{picture.name}.png")
        print(out / f"{picture.name}.png")
    shutil.rmtree(folder)


def run_page(name: str, folder: Path) -> None:
    """Run all code of a page of the documentation."""
    folder.mkdir()
    run = PageRun(folder)
    for block in code_blocks(name, (ROOT / name).read_text(encoding="utf-8")):
        if block.title:
            (folder / block.title).write_text(block.text, encoding="utf-8")
        elif block.runs:
            run.run(block)


def train(config: str, out: Path) -> None:
    """Train a configuration that comes with the package."""
    try:
        learn(["--config", str(ROOT / "configs" / f"{config}.yaml"), "--out", str(out), "-q"])
    except SystemExit as stop:
        if stop.code:
            raise


def only(text: str, headings: tuple[str, ...]) -> str:
    """Return a page with some of the sections of a page."""
    found = {
        section.partition("</h2>")[0].rpartition("<h2>")[2]: Markup(section)
        for section in re.findall(r"<section>.*?</section>", text, re.S)
    }
    return page("report", *(found[heading] for heading in headings))


def take(text: str, picture: Picture, folder: Path, out: Path) -> None:
    """Write the picture of a page."""
    file = folder / "page.html"
    slim = "<style>main{padding-top:0}h2{margin-top:20px}</style></head>"
    file.write_text(text.replace("</head>", slim), encoding="utf-8")
    dark = ["--blink-settings=preferredColorScheme=0"] if picture.dark else []
    subprocess.run(
        [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", *dark,
         f"--user-data-dir={folder / 'profile'}", f"--screenshot={out}",
         f"--window-size={picture.width},{picture.height}", file.as_uri()],
        check=True, capture_output=True,
    )  # fmt: skip


if __name__ == "__main__":
    main()
