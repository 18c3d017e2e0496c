"""What a person sees of learners and their training: terminals, notebooks, pipes."""

from __future__ import annotations

import io
import logging
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from rich.console import Console

import blocklearn as bl
from blocklearn.datasources import MatrixSource
from blocklearn.learner.hooks import Progress
from blocklearn.learner.showing.history import History
from blocklearn.learner.showing.live import NotebookScreen, TerminalScreen, bar, in_notebook, screen
from blocklearn.learner.showing.progress import seconds_left, text, time_left

X = np.random.default_rng(0).poisson(0.5, (90, 6)) + 1.0


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "120")


def fitted(**given: Any) -> bl.Learner:
    return bl.Learner(bl.models.NMF(components=2), X, eval=0.2, threads=1, block_rows=32, **given)


# ---- progress ------------------------------------------------------------------------------------


def test_time_left_is_in_proportion_to_the_blocks_left() -> None:
    half = Progress(passes=4, blocks=10, pass_=1, block=10, closed=True, seconds=8.0)
    assert seconds_left(half) == 8.0 and time_left(half) == "about 8 s left"
    assert seconds_left(Progress(4, 10)) is None and time_left(Progress(4, 10)) == "-"
    end = Progress(4, 10, pass_=3, block=10, seconds=8.0, rows_per_s=1e4, scores={"rmse": 0.5})
    assert text(end) == "pass 4 of 4, 10,000 rows/s, rmse 0.5, none left"


@pytest.mark.parametrize("verbose", [True, False])
def test_a_terminal_shows_progress_unless_silenced(
    verbose: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    learner = fitted(passes=3, verbose=verbose).fit()
    seen = stream.getvalue()
    score = next(iter(learner.progress.scores))
    assert ("pass 3 of 3, " in seen and f"{score} " in seen and "none left" in seen) is verbose
    assert bool(seen) is verbose


def test_a_pipe_sees_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    fitted(passes=2).fit()
    assert capfd.readouterr() == ("", "")
    assert screen(io.StringIO()) is None
    assert isinstance(screen(Terminal()), TerminalScreen)


def test_the_terminal_is_given_back_when_training_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)

    class Fails(bl.Hook):
        def block(self, learner: Any, progress: Any) -> None:
            raise RuntimeError("full")

    with pytest.raises(RuntimeError, match="full"):
        fitted(hooks=[Fails()]).fit()
    assert stream.getvalue().endswith("\x1b[?25h")  # the cursor is visible again


def test_a_notebook_has_one_bar_that_is_updated(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []
    handle = SimpleNamespace(update=drawn.append)

    def display(shown: str, display_id: bool) -> Any:
        drawn.append("new")
        handle.update(shown)
        return handle

    shell = SimpleNamespace(kernel=None)
    display_module = SimpleNamespace(HTML=str, display=display)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "IPython.display", display_module)  # type: ignore[arg-type]
    assert in_notebook() and isinstance(screen(Terminal()), NotebookScreen)
    fitted(passes=2).fit()
    assert drawn[0] == "new" and drawn.count("new") == 1
    assert 'max="6"' in drawn[1] and 'value="6"' in drawn[-1] and "none left" in drawn[-1]


def test_names_of_scores_are_text_in_the_bar() -> None:
    assert "auc &lt;b&gt;" in bar(Progress(1, 1, scores={"auc <b>": 1.0}))


# ---- history -------------------------------------------------------------------------------------


def test_history_has_a_row_for_each_pass(tmp_path: Path) -> None:
    learner = fitted(passes=3)
    assert repr(learner.history) == "History(nothing is trained yet)"
    learner.fit()
    history, score = learner.history, next(iter(learner.progress.scores))
    assert history["pass"] == [1, 2, 3] and len(history) == 3
    assert history[score][-1] == learner.progress.scores[score]
    assert repr(history).splitlines()[0].split()[:2] == ["pass", "block"]
    assert len(repr(history).splitlines()) == 4
    with pytest.raises(KeyError, match="'zzz': must be one of pass, block"):
        history["zzz"]
    pytest.importorskip("matplotlib")
    figure = history.plot(score, path=tmp_path / "new" / "curve.png")
    (line,) = figure.axes[0].lines
    assert list(line.get_xdata()) == [1, 2, 3] and list(line.get_ydata()) == history[score]
    assert (tmp_path / "new" / "curve.png").read_bytes()[:4] == b"\x89PNG"


def test_history_tells_evaluations_within_a_pass_from_passes_without() -> None:
    learner = fitted(passes=2, evaluation=bl.Evaluation(every_passes=None, every_blocks=2)).fit()
    history, score = learner.history, next(iter(learner.progress.scores))
    places = list(zip(history["pass"], history["block"], strict=True))
    assert places == [(1, 2), (1, 3), (2, 1), (2, 3)]
    assert [value is None for value in history[score]] == [False, True, False, False]


def test_history_repeats_no_scores_of_training_data() -> None:
    history, progress = History(), Progress(passes=3, blocks=1, block=1, closed=True)
    for pass_, told in enumerate([{"rmse": 1.0}, {"rmse": 1.0}, None]):
        progress.pass_ = pass_
        progress.train_scores = progress.train_scores if told is None else told
        progress.scores = {"rmse": 2.0}
        history.hear("evaluated", progress)
        history.hear("pass_end", progress)
    assert history["train_rmse"] == [1.0, 1.0, None] and history["rmse"] == [2.0] * 3
    pytest.importorskip("matplotlib")
    assert [axes.get_ylabel() for axes in history.plot().axes] == ["rmse"]


# ---- repr ----------------------------------------------------------------------------------------


def test_a_learner_says_what_it_is() -> None:
    learner = fitted(passes=2)
    shape = "rows x 6 columns, "
    assert repr(learner).startswith("Learner(NMF(components=2), ") and shape in repr(learner)
    assert "not trained yet" in repr(learner)
    learner.fit()
    score = next(iter(learner.progress.scores))
    assert f"2 of 2 passes, {score} " in repr(learner)
    html = learner._repr_html_()
    assert html.count("<svg") == 1 and " kB" in html
    learner.close()
    assert "2 of 2 passes" in repr(learner)


def test_names_are_text_in_html() -> None:
    source = MatrixSource(sp.csr_array(X[:, :1]), names=["<script>alert(1)</script>"])
    html = source._repr_html_()
    assert "<script" not in html and "&lt;script&gt;" in html and "90 in 1 block of" in html


def test_models_and_matrices_have_html() -> None:
    assert "topics" in bl.models.LDA(topics=3)._repr_html_()
    learner = fitted(passes=1).fit()
    H = learner.model.parameters["H"]
    assert f"{H.shape[0]:,} x {H.shape[1]:,}" in H._repr_html_() and "48 bytes" in H._repr_html_()


def test_a_terminal_says_that_kernels_were_compiled() -> None:
    out = io.StringIO()
    log = logging.getLogger("blocklearn.compile")
    where = TerminalScreen(Console(file=out, force_terminal=True, width=80))
    log.info("kernels compiled in %d s", 7)
    where.close()
    log.info("kernels compiled in %d s", 8)
    assert "kernels compiled in 7 s" in out.getvalue()
    assert "8 s" not in out.getvalue()
