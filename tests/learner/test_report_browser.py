"""Pages of runs in headless Chromium: three widths, the slider, the map, hostile names."""

from __future__ import annotations

from pathlib import Path

import pytest

from blocklearn.learner.command_line.cli import main
from blocklearn.learner.inspection.run_record import read_run
from blocklearn.learner.page.frame import page
from blocklearn.learner.page.report import report
from tests.learner.test_evidence import hostile_sections
from tests.support.beside import CONFIGS as FOLDER
from tests.support.browser import Frame, needs_chromium, visit

pytestmark = [pytest.mark.services, needs_chromium]
CONFIGS = ["lda", "nmf", "glm", "glm-path", "als", "als-implicit", "ranking"]
WIDTHS = (390, 820, 1280)  # a phone, a tablet, a screen

LAYOUT = """
const wrong = [], root = document.documentElement;
if (root.scrollWidth > window.innerWidth) {
  const wide = [...document.querySelectorAll("main *")].filter(
    (one) => one.getBoundingClientRect().right > window.innerWidth && !one.closest(".scroll"));
  wrong.push("wider than the window: " + wide.map((one) => one.className || one.tagName));
}
for (const svg of document.querySelectorAll("svg")) {
  const boxes = [...svg.querySelectorAll("text")].map((t) => [t, t.getBoundingClientRect()]);
  const frame = svg.getBoundingClientRect();
  const hidden = svg.closest("details:not([open])") || getComputedStyle(svg).display === "none";
  if (!frame.height && !hidden) wrong.push("an empty chart");
  if (svg.querySelector(".disc") && !hidden)  // labels of maps are as large as other text
    for (const [t, a] of boxes) if (a.height < 9) wrong.push(`small: ${t.textContent}`);
  for (const [t, a] of boxes) {
    if (a.width && (a.left < frame.left - 1 || a.right > frame.right + 1
        || a.bottom > frame.bottom + 1 || a.top < frame.top - 1))
      wrong.push(`outside: ${t.textContent}`);
    for (const [u, b] of boxes)
      if (t !== u && a.width && a.left < b.right && b.left < a.right
          && a.top + 2 < b.bottom && b.top + 2 < a.bottom)
        wrong.push(`overlap: ${t.textContent} and ${u.textContent}`);
  }
}
return wrong.slice(0, 5);
"""

SLIDE = """
const slider = document.getElementById("relevance");
const words = () => [...document.querySelectorAll("#topic-0 .name")].map((w) => w.textContent);
const found = {shown: !slider.closest("form").hidden, first: words()};
slider.value = 0;
slider.dispatchEvent(new window.Event("input"));
found.last = words();
found.label = document.getElementById("relevance-shown").textContent;
const link = document.querySelector("svg a");
link.dispatchEvent(new window.MouseEvent("click", {bubbles: true, cancelable: true}));
await new Promise((done) => setTimeout(done, 100));
found.target = document.querySelector(":target")?.id;
found.link = link.getAttribute("href");
return found;
"""


FOLDED = """
const details = [...document.querySelectorAll("details")];
const closed = () => details.map((one) => !one.open);
const found = {first: closed()};
window.dispatchEvent(new window.Event("beforeprint"));
found.printed = closed();
window.dispatchEvent(new window.Event("afterprint"));
found.later = closed();
const folded = document.querySelector("details .topic");
const link = [...document.querySelectorAll("svg a")].find(
  (one) => one.getAttribute("href") === "#" + folded.id);
link.dispatchEvent(new window.MouseEvent("click", {bubbles: true, cancelable: true}));
await new Promise((done) => setTimeout(done, 100));
const place = folded.getBoundingClientRect();
found.seen = place.height > 0 && place.top < window.innerHeight && place.bottom > 0;
return found;
"""


SAFE = """
if (document.getElementById("relevance")) {
  document.getElementById("relevance").value = 0;
  document.getElementById("relevance").dispatchEvent(new window.Event("input"));
}
await new Promise((done) => setTimeout(done, 50));
const wrong = [...document.querySelectorAll("script[src], img, iframe, object, embed, base, link")]
  .map((one) => one.outerHTML);
if (document.documentElement.scrollWidth > window.innerWidth)
  wrong.push(...[...document.querySelectorAll("main *")].filter(
    (one) => one.getBoundingClientRect().right > window.innerWidth && !one.closest(".scroll"))
    .map((one) => one.className || one.tagName));
return [document.title, wrong.slice(0, 5)];
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The page of a short run of each configuration that comes with the package."""
    folder = tmp_path_factory.mktemp("runs")
    for name in CONFIGS:
        with pytest.raises(SystemExit) as stop:
            main(("--config", str(FOLDER / f"{name}.yaml"), "--out", str(folder / name), "-q",
                  "--set", "learner.passes=3", "--set", "evaluation.every_passes=1"))  # fmt: skip
        assert stop.value.code == 0
    return {name: report(read_run(folder / name)) for name in CONFIGS}


def test_pages_fit_into_three_widths_without_errors(pages: dict[str, str], tmp_path: Path) -> None:
    frames = [Frame(text, width) for text in pages.values() for width in WIDTHS]
    seen = visit(tmp_path, frames, LAYOUT)
    assert seen.found == [[]] * len(frames)
    assert seen.console == []


def test_hostile_names_stay_text_and_fit(tmp_path: Path) -> None:
    pages = [page(name, *sections) for name, sections in hostile_sections().items()]
    seen = visit(tmp_path, [Frame(text, width) for text in pages for width in WIDTHS], SAFE)
    assert seen.console == []
    names = [name for name in ("lda", "als", "glm") for _ in WIDTHS]
    assert seen.found == [[name, []] for name in names]


def test_the_slider_orders_words_and_the_map_leads_to_them(
    pages: dict[str, str], tmp_path: Path
) -> None:
    seen = visit(tmp_path, [Frame(pages["lda"], 1280)], SLIDE)
    (found,) = seen.found
    assert found["shown"] and found["label"] == "0.0" and seen.console == []
    assert len(found["last"]) == 10 and found["first"] != found["last"]
    assert found["link"] == f"#{found['target']}"


def test_links_and_paper_open_what_is_folded(pages: dict[str, str], tmp_path: Path) -> None:
    seen = visit(tmp_path, [Frame(pages["lda"], width) for width in (390, 1280)], FOLDED)
    assert seen.console == []
    for found in seen.found:
        assert all(found["first"]) and found["later"] == found["first"]
        assert not any(found["printed"]) and found["seen"]
