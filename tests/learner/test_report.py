"""The page of a run: valid, alone, complete. test_report_browser.py looks at it."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import shutil
from collections.abc import Callable
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon

import blocklearn as bl
from blocklearn.learner.command_line.cli import main
from blocklearn.learner.drawing.charts import (
    HEIGHT,
    MOST,
    WIDTH,
    Bar,
    Curve,
    bars,
    label,
    line_chart,
    linear_ticks,
    log_ticks,
    strips,
    thinned,
)
from blocklearn.learner.drawing.maps import PHONE, SCREEN, Disc, apart, disc_map
from blocklearn.learner.drawing.markup import Markup, tag
from blocklearn.learner.inspection.run_record import read_run
from blocklearn.learner.page.factor_sections import singular_values
from blocklearn.learner.page.frame import data_for_script
from blocklearn.learner.page.report import report
from blocklearn.learner.page.topic_map import distances, plane
from blocklearn.learner.reports.lines import topic_words
from blocklearn.learner.terminal import printable_text
from tests.support.beside import CONFIGS as FOLDER
from tests.support.hostile_names import HOSTILE

CONFIGS = ["lda", "nmf", "glm", "glm-path", "als", "als-implicit", "ranking", "kmeans", "svd"]
UNSCORED = ["gaussian-mixture"]  # without eval data
VOID = {"meta", "input"}
MAPS = (SCREEN, PHONE)


class Page(HTMLParser):
    """Checks that elements are closed in order, and keeps texts and attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: dict[str, int] = {}
        self.classes: dict[str, int] = {}
        self.texts: dict[str, list[str]] = {}
        self.attributes: list[tuple[str, str]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen[tag] = self.seen.get(tag, 0) + 1
        self.attributes += [(name, value or "") for name, value in attrs]
        for name in dict(attrs).get("class", "").split():  # type: ignore[union-attr]
            self.classes[name] = self.classes.get(name, 0) + 1
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)


def learn(*arguments: str) -> None:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 0


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of each configuration that comes with the package, shortened."""
    folder = tmp_path_factory.mktemp("runs")
    for name in (*CONFIGS, *UNSCORED):
        learn("--config", str(FOLDER / f"{name}.yaml"), "--out", str(folder / name), "-q",
              "--set", "learner.passes=3", "--set", "evaluation.every_passes=1")  # fmt: skip
    return folder


PageOf = Callable[[str], str]


@pytest.fixture(scope="module")
def page_of(runs: Path) -> PageOf:
    """The text of the page of a run by its name, made once for all tests."""
    return cache(lambda name: report(read_run(runs / name)))


def check_alone(text: str) -> None:
    """It refers to nothing outside, and runs only its own script."""
    scripts = re.findall(r"<script(?: type=\"([^\"]*)\" id=\"[^\"]*\")?>(.*?)</script>", text, re.S)
    assert len(scripts) == text.count("<script")
    code = [body for kind, body in scripts if kind != "application/json"]
    digest = base64.b64encode(hashlib.sha256(code[0].encode()).digest()).decode()
    assert (
        len(code) == 1
        and f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in text
    )
    assert not re.search(r"\b(eval|Function|innerHTML|outerHTML|insertAdjacent|write)\b", code[0])
    assert "@import" not in text and "url(" not in text
    assert not re.search(r"https?:|//[a-z]", text)
    attributes = Page(text).attributes
    assert all(value.startswith("#") for name, value in attributes if name == "href")
    names = {name for name, _ in attributes}
    assert not names & {"src", "srcset", "data", "action", "onclick", "onload"}


def numbers_of(text: str) -> list[float]:
    """Coordinates in all paths, rectangles and circles."""
    found: list[float] = []
    for path in re.findall(r' d="([^"]*)"', text):
        found += [float(n) for n in re.findall(r"-?[\d.]+(?:e-?\d+)?|nan|inf", path)]
    for value in re.findall(r' (?:x|y|x1|x2|y1|y2|cx|cy|width|height)="([^"]*)"', text):
        found.append(float(value))
    return found


@pytest.mark.parametrize("name", CONFIGS)
def test_a_page_is_valid_alone_and_complete(runs: Path, page_of: PageOf, name: str) -> None:
    text = page_of(name)
    check_alone(text)
    page = Page(text)
    headings = page.texts["h2"]
    for heading in ("Scores", "Speed", "Where the time went", "Memory", "Settings"):
        assert heading in headings
    assert page.texts["h1"] == [name] and "finished" in page.texts["b"]
    coordinates = numbers_of(text)
    assert all(math.isfinite(n) for n in coordinates)
    assert min(coordinates) >= 0 and max(coordinates) <= 1180
    assert page.classes["curve"] >= 6 and page.classes["strip"] == 1
    assert "@media screen and (prefers-color-scheme: dark)" in text  # paper is light
    assert re.search(r"@media print .*\.fill[^}]*print-color-adjust: exact", text, re.S)
    scores = [n for n in read_run(runs / name).scores if "/" not in n]
    for score in scores:
        assert score in page.texts["span"]


def test_topics_are_bars_of_words(page_of: PageOf) -> None:
    for name, words in [("lda", "Topics"), ("nmf", "Parts")]:
        page = Page(page_of(name))
        assert words in page.texts["h2"]
        assert page.classes["topic"] == 40 and "16 more " in " ".join(page.texts["summary"])
        widths = [value for key, value in page.attributes if key == "style"]
        assert widths.count("width:100.0%") >= 40  # each has one bar that is full
    assert "Spectrum of factors" in page.texts["h2"]


def test_clusters_are_bars_of_columns(page_of: PageOf) -> None:
    page = Page(page_of("kmeans"))
    assert "Clusters" in page.texts["h2"] and page.classes["topic"] == 40
    shares = [float(text.split("%")[0]) for text in page.texts["small"] if "of rows" in text]
    assert shares == sorted(shares, reverse=True) and sum(shares) == pytest.approx(100, abs=2.1)


def test_components_are_bars_of_columns(page_of: PageOf) -> None:
    page = Page(page_of("gaussian-mixture"))
    assert "Components" in page.texts["h2"] and page.classes["topic"] == 12
    shares = [float(text.split("%")[0]) for text in page.texts["small"] if "of rows" in text]
    assert shares == sorted(shares, reverse=True) and sum(shares) == pytest.approx(100, abs=0.7)


def test_directions_are_bars_of_columns(runs: Path, page_of: PageOf) -> None:
    page = Page(page_of("svd"))
    assert {"Spectrum of factors", "Directions"} <= set(page.texts["h2"])
    assert page.classes["topic"] == 40
    shares = [float(text.split("%")[0]) for text in page.texts["small"] if "of squares" in text]
    learner = bl.load(runs / "svd")
    lengths = learner.parameter("singular_values")[0].astype(np.float64)
    exact = 100 * lengths**2 / learner.parameter("sum_of_squares")[0, 0]
    np.testing.assert_allclose(shares, exact, atol=0.051)


def test_topics_have_a_map_and_words_by_relevance(page_of: PageOf) -> None:
    for name, what in [("lda", "topic"), ("nmf", "part")]:
        page = Page(page_of(name))
        assert f"Map of {what}s" in page.texts["h2"]
        assert page.classes["disc"] == 80  # 40 for screens, 40 for phones
        assert page.classes["on-screens"] == page.classes["on-phones"] == 1
        places = {value for key, value in page.attributes if key == "id"}
        links = {value for key, value in page.attributes if key == "href"}
        assert links == {f"#{what}-{k}" for k in range(40)} and {x[1:] for x in links} <= places
        lists = lists_of(page)
        assert {each["card"] for each in lists} == {f"{what}-{k}" for k in range(40)}


def lists_of(page: Page) -> list[dict[str, Any]]:
    """What the script gets: words by relevance."""
    return json.loads(next(text for text in page.texts["script"] if text.startswith("[")))


def test_the_slider_has_the_lists_of_all_relevances(runs: Path, page_of: PageOf) -> None:
    learner = bl.load(runs / "lda")
    lists = {each["card"]: each for each in lists_of(Page(page_of("lda")))}
    for relevance in (0.0, 0.3, 1.0):
        for topic, words in enumerate(topic_words(learner, 10, relevance)):
            own = lists[f"topic-{topic}"]
            found = [own["words"][place] for place in own["orders"][round(10 * relevance)]]
            assert [name for name, _ in found] == [name for name, _ in words]
            np.testing.assert_allclose([s for _, s in found], [s for _, s in words], rtol=1e-3)


def test_few_topics_have_no_map(tmp_path: Path) -> None:
    learn("--config", str(FOLDER / "lda.yaml"), "--out", str(tmp_path / "two"), "-q",
          "--set", "learner.passes=1", "--set", "model.topics=2")  # fmt: skip
    page = Page(report(read_run(tmp_path / "two")))
    assert "disc" not in page.classes and page.classes["topic"] == 2


def test_distances_of_topics_are_those_of_scipy() -> None:
    shares = np.random.default_rng(0).dirichlet(np.full(30, 0.2), 5).T
    shares[3:9, 1] = 0.0
    shares /= shares.sum(axis=0)
    wanted = [[jensenshannon(p, q, base=2) for q in shares.T] for p in shares.T]
    np.testing.assert_allclose(distances(shares), wanted, atol=1e-7)


def test_points_of_a_plane_keep_their_distances() -> None:
    points = np.random.default_rng(1).normal(size=(12, 2))
    lengths = np.linalg.norm(points[:, None] - points, axis=2)
    found = plane(lengths)
    np.testing.assert_allclose(np.linalg.norm(found[:, None] - found, axis=2), lengths, atol=1e-12)
    assert not plane(np.zeros((3, 3))).any()


@given(
    st.lists(
        st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.floats(1e-3, 1e6)),
        min_size=1,
        max_size=40,
    )
)
def test_discs_lie_within_their_map(points: list[tuple[float, float, float]]) -> None:
    discs = [Disc(*point, str(k), "", f"t-{k}") for k, point in enumerate(points)]
    maps = disc_map(discs, about="a map")
    for drawing, (width, height) in zip(re.findall(r"<svg.*?</svg>", maps), MAPS, strict=True):
        page = Page(drawing)
        assert page.classes["disc"] == len(points) and page.seen["text"] >= 1
        circles = [(float(v), n) for n, v in page.attributes if n in ("cx", "cy", "r")]
        for (x, _), (y, _), (r, _) in zip(*[iter(circles)] * 3, strict=True):
            assert r <= x <= width - r + 1e-2 and r <= y <= height - r + 1e-2


@pytest.mark.parametrize("spread", [0.0, 1e-3, 1.0])
@pytest.mark.parametrize("box", MAPS)
def test_discs_lie_apart_and_their_neighbours_stay(spread: float, box: tuple[int, int]) -> None:
    rng = np.random.default_rng(3)
    centres = np.array(box) / 2 + spread * rng.normal(0, 60, (40, 2))
    radii = np.sqrt(0.2 * box[0] * box[1] / 40 / np.pi) * rng.uniform(0.7, 1.2, 40)
    found = apart(centres, radii, box)
    gaps = np.linalg.norm(found[:, None] - found, axis=2) - radii[:, None] - radii
    assert gaps[~np.eye(40, dtype=bool)].min() > -1.5  # they overlap by a pixel at most
    alone = np.array([[60.0, 60.0], [200.0, 200.0]])
    np.testing.assert_array_equal(apart(alone, np.array([20.0, 30.0]), box), alone)


def test_topics_come_in_order_of_size(page_of: PageOf) -> None:
    shares = [float(share) for share in re.findall(r"<small>([\d.]+)% of words", page_of("lda"))]
    assert shares == sorted(shares, reverse=True) and sum(shares) == pytest.approx(100, abs=2)


def test_targets_have_figures_and_features(page_of: PageOf) -> None:
    page = Page(page_of("glm"))
    assert {"Targets", "Features that weigh most"} <= set(page.texts["h2"])
    assert {"kind.class", "module"} <= set(page.texts["span"]) | set(page.texts["h3"])
    assert page.classes["topic"] == 6
    path = Page(page_of("glm-path"))
    assert "Paths of regularisation" in path.texts["h2"] and "Targets" not in path.texts["h2"]


def test_two_classes_have_the_charts_of_one_and_the_name_of_their_column(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    left = rng.random(300) < 0.4
    lines = [f"{v:.3f},{'yes' if k else 'no'}" for v, k in zip(rng.normal(left), left, strict=True)]
    (tmp_path / "t.csv").write_text("visits,left\n" + "\n".join(lines) + "\n")
    learn("glm", str(tmp_path / "t.csv"), "--out", str(tmp_path / "run"), "-q")
    page = Page(report(read_run(tmp_path / "run")))
    assert page.texts["h3"] == ["left.yes", "left.yes"]  # curves, and weights
    assert page.classes["curves"] == 1 and "Targets" not in page.texts["h2"]
    assert {"log_loss/left", "auc/left.no"} <= set(bl.load(tmp_path / "run").progress.scores)


def test_targets_without_a_score_are_left_out(runs: Path, tmp_path: Path) -> None:
    run = copy(runs, tmp_path, "glm")
    learner = bl.load(run)
    assert math.isfinite(learner.progress.scores["auc/module"])
    learner.progress.scores |= {"auc/module": math.nan, "auc": math.nan}
    bl.save(learner, run / "again")
    assert math.isnan(bl.load(run / "again").progress.scores["auc/module"])
    shutil.copy(run / "again/metrics.json", run / "metrics.json")
    shutil.copy(run / "again/model.json", run / "model.json")
    assert "Targets" in Page(report(read_run(run))).texts["h2"]


def test_models_are_shown_with_data(runs: Path, page_of: PageOf) -> None:
    wanted = {
        "lda": {"Coherence of topics"},
        "als": {"Ratings", "Errors by popularity", "Lists of some users"},
        "als-implicit": {"Entries", "Errors by popularity", "Lists of some users"},
        "ranking": {"Entries", "Lists of some users"},
        "glm": {"Held-out predictions"},
    }
    for name, headings in wanted.items():
        assert headings <= set(Page(page_of(name)).texts["h2"])
        assert not headings & set(Page(report(read_run(runs / name), rows=0)).texts["h2"])
    page = Page(page_of("lda"))
    assert page.classes["documents"] == 40 and page.seen["li"] == 120
    page = Page(page_of("glm"))
    assert page.texts["h3"][:6].count("kind.class") == 1 and page.classes["curves"] == 6


@pytest.mark.parametrize(
    "name, setting", [("ranking", "model.rank=4"), ("nmf", "model.term_weights=idf")]
)
def test_training_writes_the_page_that_the_command_writes(
    name: str, setting: str, tmp_path: Path
) -> None:
    """The data are read as they were given, without negatives or weights."""
    settings = [f"--set={each}" for each in ("learner.passes=2", "learner.report=true", setting)]
    learn("--config", str(FOLDER / f"{name}.yaml"), "--out", str(tmp_path / "run"), "-q", *settings)
    learn("report", str(tmp_path / "run"), "--out", str(tmp_path / "later.html"))
    wanted = (tmp_path / "later.html").read_text()
    assert (tmp_path / "run/report.html").read_text() == wanted
    assert ("Lists of some users" in wanted) == (name == "ranking")


def test_a_page_compares_with_an_earlier_run(runs: Path, tmp_path: Path) -> None:
    learn("report", str(runs / "als"), "--against", str(runs / "als-implicit"), "--rows", "0",
          "--out", str(tmp_path / "page.html"))  # fmt: skip
    text = (tmp_path / "page.html").read_text()
    check_alone(text)
    page = Page(text)
    assert "Compared with als-implicit" in page.texts["h2"]
    assert {"rmse", "rows/s", "model.loss"} <= set(page.texts["td"])
    legends = [text.strip() for text in page.texts["span"]]
    assert legends.count("als-implicit") == 2  # in the charts of rmse and objective


def test_python_writes_the_same_page(runs: Path, tmp_path: Path) -> None:
    bl.write_report(runs / "nmf", tmp_path / "page.html", rows=0)
    assert (tmp_path / "page.html").read_text() == report(read_run(runs / "nmf"), rows=0)
    with pytest.raises(ValueError, match=r"rows=-1: must not be negative"):
        bl.write_report(runs / "nmf", tmp_path / "page.html", rows=-1)


def test_factors_have_a_spectrum_and_neighbours(page_of: PageOf) -> None:
    page = Page(page_of("als-implicit"))
    assert {"Spectrum of factors", "What is alike", "Ranking"} <= set(page.texts["h2"])
    assert "ndcg@10" in page.texts["span"]


def test_singular_values_are_those_of_the_product() -> None:
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=(30, 4)), rng.normal(size=(50, 4))
    expected = np.linalg.svd(left @ right.T, compute_uv=False)[:4]
    np.testing.assert_allclose(singular_values(left, right), expected, rtol=1e-6)


def test_the_command_writes_into_the_run_or_where_it_is_told(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    learn("report", str(runs / "als"))
    assert capsys.readouterr().out.strip() == str(runs / "als" / "report.html")
    learn("report", str(runs / "als"), "--out", str(tmp_path / "page.html"))
    assert (tmp_path / "page.html").read_text() == (runs / "als" / "report.html").read_text()
    with pytest.raises(SystemExit) as stop:
        main(["report", str(tmp_path)])
    assert stop.value.code == 66
    short = ("--config", str(FOLDER / "als.yaml"), "-q", "--set", "learner.passes=1")
    learn(*short, "--out", str(tmp_path / "als"), "--set", "learner.report=true")
    written = Page((tmp_path / "als" / "report.html").read_text()).texts["h2"]
    assert "Lists of some users" in written
    learn(*short, "--out", str(runs / "als"), "--overwrite")
    assert not (runs / "als" / "report.html").exists()  # of the run before


# ---- runs that are not as they should be ---------------------------------------------------------


def copy(runs: Path, tmp_path: Path, name: str) -> Path:
    return Path(shutil.copytree(runs / name, tmp_path / name))


def test_a_run_that_is_not_finished(runs: Path, tmp_path: Path) -> None:
    run = copy(runs, tmp_path, "lda")
    for name in ("model.json", "metrics.json"):
        (run / name).unlink()
    lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
    for count in (0, 1, 2, 3, 4):
        (run / "metrics.jsonl").write_text("".join(lines[:count]) + '{"event": "tr')
        text = report(read_run(run))
        check_alone(text)
        assert "finished" not in Page(text).texts["b"]
        assert "written at the end" in text
    for name in ("metrics.jsonl", "plan.json", "config.yaml"):
        (run / name).unlink()
        Page(report(read_run(run)))


def test_a_damaged_model_leaves_the_rest(runs: Path, tmp_path: Path) -> None:
    run = copy(runs, tmp_path, "nmf")
    (run / "weights.safetensors").write_bytes(b"x")
    text = report(read_run(run))
    assert "cannot be read" in text and "Speed" in Page(text).texts["h2"]


def test_names_cannot_break_the_page(runs: Path, tmp_path: Path) -> None:
    run = copy(runs, tmp_path, "als").rename(tmp_path / "<script>alert(1)<")
    mark = json.loads((run / "run.json").read_text())
    mark["command"] = ["learn", "--set", '"><img src=x onerror=alert(1)>', "&amp;"]
    (run / "run.json").write_text(json.dumps(mark))
    text = report(read_run(run))
    page = Page(text)
    assert page.texts["h1"] == ["<script>alert(1)<"]
    assert page.seen["script"] == 1 and "img" not in page.seen


def test_scores_that_are_missing_or_far_apart(runs: Path, tmp_path: Path) -> None:
    run = copy(runs, tmp_path, "glm")
    events = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    for number, event in enumerate(event for event in events if event["event"] == "eval"):
        event["log_loss"] = None if number == 1 else 10.0 ** (number * 10 - 20)
        event["auc"] = None
    (run / "metrics.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    text = report(read_run(run))
    assert all(math.isfinite(n) for n in numbers_of(text))


# ---- parts ---------------------------------------------------------------------------------------

NUMBERS = st.floats(-1e30, 1e30, allow_subnormal=False)


@settings(deadline=None)
@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=30), st.booleans(), st.booleans())
def test_any_curve_stays_in_its_chart(points: Any, steps: bool, zero: bool) -> None:
    points = sorted((abs(x), y) for x, y in points)
    curve = Curve("c", [x for x, _ in points], [y for _, y in points], steps=steps)
    text = line_chart([curve], x_label="x", zero=zero)
    Page(text)
    found = numbers_of(text)
    assert all(-1 <= n <= max(WIDTH, HEIGHT) + 1 for n in found)


@settings(deadline=None)
@given(NUMBERS, st.floats(1e-6, 1e6), st.integers(1, 9))
def test_ticks_are_few_and_inside(low: float, width: float, most: int) -> None:
    high = low + width * max(abs(low), 1.0)
    ticks = linear_ticks(low, high, most)
    assert len(ticks) <= most + 1
    room = 1e-6 * (high - low)
    assert all(low - room <= tick <= high + room for tick in ticks)
    for tick in ticks:
        assert label(tick, ticks)


@given(st.floats(1e-30, 1e30), st.floats(1.01, 1e30))
def test_logarithmic_ticks_are_few_and_inside(low: float, ratio: float) -> None:
    ticks = log_ticks(low, low * ratio)
    assert len(ticks) <= 12
    assert all(low * 0.999 <= tick <= low * ratio * 1.001 for tick in ticks)


def test_many_points_become_few_with_the_same_mean() -> None:
    y = np.random.default_rng(0).random(10_000)
    few = thinned(Curve("c", list(range(10_000)), list(y)))
    assert len(few.x) == MOST and few.x[-1] == 9999
    assert np.mean(few.y) == pytest.approx(y.mean(), rel=1e-9)


@pytest.mark.parametrize("count", [1, 3, 240, 5000])
def test_strips_fill_every_interval(count: int) -> None:
    ends = np.cumsum(np.random.default_rng(0).random(count))
    parts = {"a": list(np.ones(count)), "b": list(np.full(count, 3.0))}
    text = strips(list(ends), parts, {"a": 1, "b": 2}, "s")
    tops = [float(h) for h in re.findall(r'height="([\d.]+)" class="area c1"', text)]
    rest = [float(h) for h in re.findall(r'height="([\d.]+)" class="area c2"', text)]
    assert len(tops) == len(rest) == min(count, 240)
    np.testing.assert_allclose(rest, 3 * np.array(tops), rtol=1e-3)


def test_bars_are_as_long_as_their_numbers() -> None:
    text = bars([Bar("a", 2.0), Bar("b", -1.0), Bar("c", 0.0)])
    assert re.findall(r"width:([\d.]+)%", text) == ["100.0", "50.0", "0.0"]
    assert 'class="fill c2"' in text
    Page(bars([]))
    Page(bars([Bar("", 0.0)]))


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_data_of_the_script(name: str) -> None:
    text = data_for_script("x", [name])
    assert "<" not in text.removeprefix("<script").removesuffix("</script>")
    assert json.loads(Page(text).texts["script"][0]) == [name]


@given(st.text(), st.text())
def test_text_stays_text(inside: str, attribute: str) -> None:
    text = tag("p", inside, title=attribute)
    page = Page(text)
    assert "".join(page.texts.get("p", [])) == printable_text(inside)
    assert page.attributes == [("title", printable_text(attribute))]
    assert tag("b", Markup("<i></i>")) == "<b><i></i></b>"
