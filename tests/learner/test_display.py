"""What a person sees: lines in a file, a table on a terminal, nothing when asked."""

import io
import re
from typing import Any

import pytest
from rich.console import Console

from blocklearn.learner.hooks import Progress
from blocklearn.learner.showing.progress import memory, scores
from blocklearn.learner.training.settings.work import Work
from blocklearn.learner.watch.display import LiveTable, PlainLines, display

LEARNER: Any = None


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")


def progress(**changes: Any) -> Progress:
    return Progress(**{
        "passes": 5, "blocks": 10, "pass_": 1, "block": 4, "rows": 14000, "seconds": 12.34,
        "rows_per_s": 71204.4, "gflops": 9.84, "scores": {"perplexity": 1290.123, "elbo": -7.1},
        "cache_bytes": 42_100_000,
        "work": Work(blocks=10, rows=5000, nbytes=10**9, flops=10**10, seconds=2.0, ready=9.0),
        } | changes)  # fmt: skip


def run(hook: Any) -> None:
    hook.start(LEARNER, progress(scores={}, work=Work()))
    hook.block(LEARNER, progress())
    hook.evaluated(LEARNER, progress())
    hook.pass_end(LEARNER, progress())
    hook.end(LEARNER, progress())


def test_lines_where_there_is_no_terminal() -> None:
    stream = io.StringIO()
    hook = display(stream, every=0.0)
    assert isinstance(hook, PlainLines)
    run(hook)
    lines = stream.getvalue().splitlines()
    beat, memory = lines[0].split(", host ")
    assert beat == (
        "[   12.3 s] pass 2/5, block 4/10, 2,500 rows/s, 0.50 GB/s, 5.0 gflops, queue 90% full"
    )
    assert re.fullmatch(r"[0-9.]+ [MG]B, cache 42\.1 MB", memory)
    assert lines[1:] == [
        "[   12.3 s] pass 2/5, held out: perplexity 1,290.1, elbo -7.1, 71,204 rows/s, 9.8 gflops",
        "[   12.3 s] pass 2/5, done: 14,000 rows, cache 42.1 MB, 0 allocations after warm-up, "
        "71,204 rows/s, 9.8 gflops",
    ]


def test_lines_do_not_flood() -> None:
    stream = io.StringIO()
    hook = display(stream, every=1000.0)
    for _ in range(100):
        hook.block(LEARNER, progress())
    assert stream.getvalue() == ""


def test_the_speed_of_a_line_is_that_since_the_last() -> None:
    stream = io.StringIO()
    hook = display(stream, every=0.0)
    first = progress()
    second = progress(work=first.work + Work(blocks=1, rows=10, seconds=0.1))
    for now in (first, second):
        hook.block(LEARNER, now)
    assert "block 4/10, 100 rows/s, 0.00 GB/s" in stream.getvalue().splitlines()[1]


def test_memory_of_a_device_is_named() -> None:
    assert memory(progress(device_bytes=3 * 10**9)).endswith("cache 42.1 MB, device 3.0 GB")


def test_a_table_on_a_terminal() -> None:
    stream = Terminal()
    hook = display(stream, every=0.0)
    assert isinstance(hook, LiveTable)
    run(hook)
    hook.close()
    text = stream.getvalue()
    for part in ("2 of 5, block 4 of 10", "0.50 GB/s, queue 90% full",
                 "71,204 rows/s", "9.8 gflops", "perplexity 1,290.1",
                 "42.1 MB", "allocations after warm-up", "12.3 s"):  # fmt: skip
        assert part in text
    assert text.rstrip().endswith("\x1b[?25h")  # the cursor is given back


def test_the_terminal_is_given_back_when_training_fails() -> None:
    stream = Terminal()
    hook = display(stream, every=0.0)
    assert isinstance(hook, LiveTable)
    hook.start(LEARNER, progress())
    hook.close()
    assert "\x1b[?25h" in stream.getvalue()


def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    run(display(stream, every=0.0))
    assert not re.search(r"\x1b\[[0-9;]*(3[0-9]|9[0-7]|48|38)[0-9;]*m", stream.getvalue())


def test_a_dumb_terminal_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(display(Terminal(), every=0.0), PlainLines)


def test_a_narrow_terminal_does_not_break() -> None:
    hook = LiveTable(Console(file=Terminal(), width=20, force_terminal=True))
    run(hook)
    hook.close()


def test_before_the_first_evaluation() -> None:
    assert scores(progress(scores={})) == "-"


def test_evaluations_do_not_flood() -> None:
    """Of many evaluations in no time: the first, and the last."""
    stream = io.StringIO()
    lines = PlainLines(stream, 1000.0)
    for pass_ in range(5):
        lines.evaluated(LEARNER, progress(pass_=pass_))
    assert len(stream.getvalue().splitlines()) == 2


def test_scores_at_an_early_end_are_shown() -> None:
    """A tolerance or patience ends training before its last pass."""
    stream = io.StringIO()
    lines = PlainLines(stream, 1000.0)
    for pass_ in range(3):
        lines.evaluated(LEARNER, progress(pass_=pass_, scores={"perplexity": 300.0 - pass_}))
    lines.end(LEARNER, progress(pass_=2, scores={"perplexity": 298.0}))
    shown = [line.split("] ")[1].split(", ")[:2] for line in stream.getvalue().splitlines()]
    assert shown == [
        ["pass 1/5", "held out: perplexity 300"],
        ["pass 3/5", "held out: perplexity 298"],
        ["pass 3/5", "done: 14,000 rows"],
    ]
