"""What data say about models in reports: against plain NumPy, and with hostile names."""

from __future__ import annotations

import json
import re
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from sklearn.metrics import average_precision_score, roc_auc_score

import blocklearn as bl
from blocklearn.datasources import DataError, FileData, MatrixSource
from blocklearn.datasources.formats.dates import day_of, read_dates
from blocklearn.datasources.formats.word_counts import read_texts
from blocklearn.learner.drawing.markup import Markup
from blocklearn.learner.evidence.documents import Best, Calendar, topic_evidence
from blocklearn.learner.evidence.opened import RunData, open_run_data
from blocklearn.learner.evidence.ratings import bin_of, name_of, rating_evidence
from blocklearn.learner.evidence.score_bins import POINTS, Scale, ScoreBins
from blocklearn.learner.evidence.targets import quality, target_evidence
from blocklearn.learner.page.model_sections import model_sections
from blocklearn.models.coherence import coherence_of
from tests.support.hostile_names import HOSTILE

RNG = np.random.default_rng(0)


# ---- curves of scores ----------------------------------------------------------------------------


def binned(link: str, predictions: Any, targets: Any, weights: Any = None) -> ScoreBins:
    """Add rows in three parts."""
    weights = np.ones(len(targets)) if weights is None else weights
    bins = ScoreBins(Scale.of(link, predictions))
    for part in np.array_split(np.arange(len(targets)), 3):
        bins.add(predictions[part], targets[part], weights[part])
    return bins


def test_areas_and_precision_are_those_of_scikit_learn() -> None:
    p = RNG.beta(0.5, 4.0, 3000)
    y = (RNG.random(3000) < p).astype(np.float64)
    w = RNG.integers(0, 3, 3000).astype(np.float64)
    bins = binned("logistic", p.astype(np.float32), y, w)
    assert bins.area == pytest.approx(roc_auc_score(y, p, sample_weight=w), abs=1e-3)
    wanted = average_precision_score(y, p, sample_weight=w)
    assert bins.average_precision == pytest.approx(wanted, abs=1e-2)
    assert bins.base_rate == pytest.approx(np.average(y, weights=w))
    for x, heights in (bins.roc(), bins.precision_recall()):
        assert 2 < len(x) <= POINTS + 2 and x == sorted(x)
        assert x[-1] == 1.0 and 0 <= min(heights) and max(heights) <= 1


def test_calibration_sums_to_the_data() -> None:
    p = RNG.random(999)
    y = (RNG.random(999) < p).astype(np.float64)
    bins = binned("logistic", p, y)
    predicted, found, weights = bins.calibration()
    assert weights.sum() == 999 and np.all(np.diff(predicted) > 0)
    assert weights @ predicted == pytest.approx(p.sum())
    assert weights @ found == pytest.approx(y.sum())
    assert bins.calibration_error < 0.1


@pytest.mark.parametrize("link", ["linear", "huber", "hinge", "poisson", "gamma"])
@pytest.mark.parametrize("scale", [1e-20, 1.0, 1e20])
def test_numbers_of_any_size_keep_their_order(link: str, scale: float) -> None:
    p = np.sort(RNG.gamma(2.0, size=500)) * scale
    bins = Scale.of(link, p).bins(p)
    assert np.all(np.diff(bins) >= 0) and bins.min() >= 0 and bins.max() < 4096
    if link in ("linear", "huber", "hinge"):
        assert len(np.unique(bins)) > 100


@pytest.mark.parametrize("predictions", [[0.0, 1.0], [0.5], [1e-45, 1.0]])
def test_probabilities_of_nought_and_one_have_bins(predictions: list[float]) -> None:
    values = np.array(predictions, np.float32)
    bins = binned("logistic", values, np.ones(len(values)))
    assert bins.weights.sum() == len(values) and np.isnan(bins.area)


def test_targets_are_compared_by_their_best_figure() -> None:
    scores = {"auc/a": 0.7, "log_loss/a": 9.0, "auc/b": float("nan"), "log_loss/b": 0.1}
    assert quality("a", scores) == 0.7 and quality("b", scores) == -0.1


def test_curves_of_targets_are_of_held_out_rows() -> None:
    X = RNG.normal(size=(600, 4))
    y = (RNG.random(600) < 1 / (1 + np.exp(-2 * X[:, 0]))).astype(np.float64)
    learner = bl.Learner("glm", (X[:400], y[:400]), (X[400:], y[400:]), passes=2, threads=1).fit()
    data = RunData(learner.train, learner.eval)
    found = target_evidence(learner, data)
    assert found is not None and (found.rows, found.of, found.outputs) == (200, 200, 1)
    (_, bins) = found.bins["0"]
    assert bins.area == pytest.approx(learner.progress.scores["auc/0"], abs=5e-3)
    assert target_evidence(learner, RunData(learner.train)) is None


# ---- documents -----------------------------------------------------------------------------------


def test_typical_rows_are_those_of_a_sort_over_all_blocks() -> None:
    shares = RNG.dirichlet(np.ones(4), 50)
    best = Best(4)
    for part in np.array_split(np.arange(50), 4):
        best.add(part, shares[part], np.full(len(part), 9))
    np.testing.assert_array_equal(best.rows, np.argsort(-shares, axis=0)[:3].T)
    few = Best(2)
    few.add(np.array([7, 8]), np.array([[1.0, 0.0], [0.2, 0.8]]), np.array([1, 30]))
    assert few.rows[0].tolist() == [8, -1, -1]  # a single word says little


def topics_of(X: Any, **given: Any) -> bl.Learner:
    source = MatrixSource(X, block_rows=32, **given)
    return bl.Learner(bl.models.LDA(topics=3), source, passes=2, threads=1).fit()


def test_documents_and_coherence_of_topics() -> None:
    X = sp.csr_array(RNG.poisson(0.4, (100, 30)).astype(np.float32))
    learner = topics_of(X)
    found = topic_evidence(learner, RunData(learner.train))
    assert found is not None and (found.rows, found.of, found.periods) == (100, 100, None)
    theta = learner.predict(X)
    for topic, documents in enumerate(found.typical):
        assert documents[0].share == pytest.approx(theta[:, topic].max(), abs=1e-6)
        assert documents[0].name == f"row {theta[:, topic].argmax()}"
    tops = [[w for w, _ in words] for words in learner.model.topic_words(20)]
    np.testing.assert_allclose(found.coherence, coherence_of(tops, X, "c_npmi"))
    few = topic_evidence(learner, RunData(learner.train, rows=10))
    assert few is not None and few.rows == 32  # whole blocks


@pytest.mark.parametrize(
    "days, names",
    [
        (["2024-05-01", "2024-05-03"], ["2024-05-01", "2024-05-03"]),
        (["2024-01-09", "2024-09-30"], ["2024-01", "2024-09"]),
        (["1990-01-01", "2020-01-01"], ["1990", "2020"]),
        (["0001-01-01", "2020-01-01"], ["0000s", "2020s"]),
    ],
)
def test_periods_are_as_long_as_the_dates_ask_for(days: list[str], names: list[str]) -> None:
    calendar = Calendar({day: date.fromisoformat(day) for day in days}, 2)
    calendar.add([*days, days[0], "?"], np.array([[0.2, 0.8], [1, 0], [0.4, 0.6], [0, 1]]))
    periods = calendar.periods()
    assert periods is not None and periods.names == names and periods.undated == 1
    np.testing.assert_allclose(periods.shares, [[0.3, 0.7], [1.0, 0.0]])
    assert periods.documents.tolist() == [2, 1]


@pytest.mark.parametrize("text", ["", "5.6.2024", "20245", "2024-13", "2024-02-30", "2024-5", "x"])
def test_what_is_no_date_has_none(text: str) -> None:
    assert day_of(text) is None


ROWS = [{"text": "red green blue", "when": "2024-05-17"}, {"text": "green", "when": "2023-01"}]


def written(folder: Path, kind: str) -> Path:
    """Write `ROWS` as a file."""
    path = folder / f"texts.{kind}"
    if kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n\n" for row in ROWS))
    elif kind == "csv":
        lines = [f"{row['text']},{row['when']}\n" for row in ROWS]
        path.write_text("text,when\n" + "".join(lines))
    else:
        pq.write_table(pa.Table.from_pylist(ROWS), path)
    return path


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_dates_have_the_names_of_the_texts(kind: str, tmp_path: Path) -> None:
    path = written(tmp_path, kind)
    data = FileData(path=path, date="when")
    wanted = {name: row["when"] for (name, _), row in zip(data.texts(), ROWS, strict=True)}
    assert list(data.texts()) == list(read_texts(path, "text", None))
    assert dict(read_dates(path, "when", None)) == wanted
    assert dict(data.dates()) == dict(
        zip(wanted, [date(2024, 5, 17), date(2023, 1, 1)], strict=True)
    )
    assert data.load().row_names == list(wanted)
    with pytest.raises(DataError, match=r"wher"):
        FileData(path=path, date="wher").load()


def test_dates_of_parquet_may_be_times_and_missing(tmp_path: Path) -> None:
    when = pa.array([1_700_000_000, None], pa.timestamp("s"))
    pq.write_table(pa.table({"text": ["a", "b"], "when": when}), tmp_path / "t.parquet")
    data = FileData(path=tmp_path / "t.parquet", date="when")
    assert dict(data.dates()) == {"t.parquet:0": date(2023, 11, 14)}


# ---- ratings -------------------------------------------------------------------------------------


def test_groups_of_numbers_are_powers_of_two() -> None:
    counts = np.arange(70)
    for count, number in zip(counts, bin_of(counts), strict=True):
        low, _, high = name_of(int(number)).partition("-")
        assert int(low) <= count <= int(high or low)


@pytest.mark.parametrize("loss", ["explicit", "implicit"])
def test_errors_by_popularity_are_those_of_plain_numpy(loss: str) -> None:
    X = sp.csr_array(RNG.integers(1, 6, (40, 25)) * (RNG.random((40, 25)) < 0.3)).astype(np.float32)
    model = bl.models.ALS(rank=2, loss=loss)
    learner = bl.Learner(model, X, eval=0.2, passes=2, block_rows=16, threads=1).fit()
    train, held = learner.train, learner.eval
    found = rating_evidence(learner, RunData(train, held))
    assert found is not None and train is not None and held is not None
    known, later = (source.entries(np.arange(40)).tocoo() for source in (train, held))
    U, V = learner.row_state("users"), learner.row_state("items")
    predicted = learner.parameter("mean")[0, 0] + (U @ V.T)[later.coords]
    wanted = later.data if loss == "explicit" else np.ones(later.nnz)
    for groups, side in ((found.by_user, 0), (found.by_item, 1)):
        counts = np.bincount(known.coords[side], minlength=X.shape[side])
        assert sum(group.members for group in groups) == X.shape[side]
        assert sum(group.ratings for group in groups) == found.held_out == later.nnz
        for group in groups:
            low, _, high = group.name.partition("-")
            own = counts[later.coords[side]]
            own = (own >= int(low)) & (own <= int(high or low))
            assert group.ratings == own.sum()
            if own.any():
                error = np.sqrt(np.mean((wanted - predicted)[own] ** 2))
                assert group.error == pytest.approx(error, rel=1e-5)
                assert group.predicted == pytest.approx(predicted[own].mean(), rel=1e-5)
    for each in found.lists:
        rated = {item for item, _ in each.rated}
        assert not rated & {item for item, _, _ in each.recommended}
        ratings = [value for _, value in each.rated]
        assert ratings == sorted(ratings, reverse=True)
        for item, _, held_out in each.recommended:
            assert held_out == (held.entries(np.array([int(each.user)]))[0, int(item)] != 0)


def test_models_that_only_rank_have_lists_and_no_errors() -> None:
    X = sp.csr_array((RNG.random((40, 25)) < 0.3).astype(np.float32))
    model = bl.models.Ranking(rank=2)
    learner = bl.Learner(model, X, eval=0.2, passes=2, block_rows=16, threads=1).fit()
    found = rating_evidence(learner, RunData(learner.train, learner.eval))
    assert found is not None and found.held_out == 0 and found.lists
    assert sum(group.members for group in found.by_item) == 25
    text = "".join(model_sections(learner, RunData(learner.train, learner.eval)))
    assert "Lists of some users" in text and "Errors by popularity" not in text


# ---- data that are missing, names that are hostile -----------------------------------------------


def test_a_run_whose_data_are_gone_says_so(tmp_path: Path) -> None:
    X = sp.csr_array(RNG.poisson(0.4, (60, 30)).astype(np.float32))
    learner = topics_of(X)
    bl.save(learner, tmp_path / "model")
    found = open_run_data(tmp_path / "model", learner)
    assert found.train is None and "configuration" in found.missing
    (tmp_path / "model" / "config.yaml").write_text(
        f"model: {{kind: lda}}\ndata: {{train: {{kind: file, path: {tmp_path}/x.npz}}}}\n"
    )
    assert "x.npz" in open_run_data(tmp_path / "model", learner).missing
    sp.save_npz(tmp_path / "x.npz", X[:, :29])
    assert "not those" in open_run_data(tmp_path / "model", learner).missing
    sp.save_npz(tmp_path / "x.npz", X)
    assert open_run_data(tmp_path / "model", learner).train is not None
    assert open_run_data(tmp_path / "model", learner, 0) == RunData(rows=0)
    lost = "<gone>: https://me:secret@host/x"
    text = "".join(model_sections(learner, RunData(missing=lost)))
    assert "&lt;gone&gt;" in text and "secret" not in text and "host/x" in text


class Torn(MatrixSource):
    """A source whose file was damaged after it was opened."""

    def read(self, pass_: int, index: int, into: Any) -> None:
        raise DataError("block 0: <torn>")


def test_data_that_cannot_be_read_leave_the_rest_of_the_page() -> None:
    X = sp.csr_array(RNG.poisson(0.4, (60, 30)).astype(np.float32))
    text = "".join(model_sections(topics_of(X), RunData(Torn(X))))
    assert "&lt;torn&gt;" in text and "<h2>Topics</h2>" in text and "Coherence" not in text


def hostile_learners() -> dict[str, bl.Learner]:
    """Models whose columns, rows and targets have hostile names."""
    n = len(HOSTILE)
    X = sp.csr_array(RNG.poisson(1.0, (60, n)).astype(np.float32) + 1.0)
    rows = [HOSTILE[i % n] + str(i // n) for i in range(60)]
    names = [f"{name}." for name in HOSTILE]
    rated = sp.csr_array(X.toarray() * (RNG.random(X.shape) < 0.6))
    Y = (RNG.random((60, n)) < 0.5).astype(np.float32)
    labelled = MatrixSource(X, targets=Y, block_rows=32, names=names, target_names=names)
    return {
        "lda": topics_of(X, names=names, row_names=rows),
        "als": bl.Learner(
            bl.models.ALS(rank=2),
            MatrixSource(rated, block_rows=32, names=whole(names), row_names=whole(rows)),
            passes=1,
            threads=1,
        ).fit(),
        "glm": bl.Learner("glm", labelled, labelled, passes=1, threads=1).fit(),
    }


def whole(names: list[str]) -> list[str]:
    """Names without halves of characters, which ids cannot have."""
    return [name.replace("\ud800", "?") for name in names]


def hostile_sections() -> dict[str, list[Markup]]:
    """The sections of the hostile models."""
    return {
        name: list(model_sections(learner, RunData(learner.train, learner.train)))
        for name, learner in hostile_learners().items()
    }


def test_hostile_names_are_never_markup() -> None:
    ours = {"section", "h2", "h3", "p", "div", "span", "b", "i", "small", "figure", "figcaption",
            "svg", "g", "a", "circle", "text", "title", "line", "path", "rect", "script", "form",
            "label", "output", "input", "ul", "ol", "li", "details", "summary", "table", "thead",
            "tbody", "tr", "th", "td"}  # fmt: skip
    for name, sections in hostile_sections().items():
        text = "".join(sections)
        assert set(re.findall(r"<([a-zA-Z!][^\s/>]*)", text)) <= ours, name
        assert not set(text) & {"\0", "\a", "\x1b", "\u202e", "\ud800"}
        text.encode()
