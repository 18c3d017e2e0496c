"""What `learn` prints: no control characters of foreign names; its exit code where it is full."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import blocklearn as bl
from blocklearn.datasources import MatrixSource
from blocklearn.learner.exit_codes import ExitCode
from blocklearn.learner.terminal import printable, printable_text
from blocklearn.models import ALS, LDA
from tests.support.learn_command import Learn
from tests.support.often import rarely

LEARN = [sys.executable, "-c", "from blocklearn.learner.command_line.cli import main; main()"]
HOSTILE = [
    "\x1b]0;title\x07",
    "\x9b31m",
    "a\rb",
    "c\nd",
    "\u202eabc",
    "tab\there",
    "x\u2028y",
    "é日",
]


@pytest.mark.parametrize(
    "text, shown",
    [
        ("é 日本 🎉 naïve", "é 日本 🎉 naïve"),
        ("\x1b[2J\x07", "\\u001b[2J\\u0007"),
        ("\x7f\x9b", "\\u007f\\u009b"),
        ("a\nb\tc\rd", "a\\u000ab\\u0009c\\u000dd"),
        ("\u202eabc\u2066", "\\u202eabc\\u2066"),
        ("\udc80", "\\udc80"),
        ("back\\slash", "back\\slash"),
    ],
)
def test_lines(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert printable(shown) == shown


def test_texts_keep_their_lines() -> None:
    assert printable_text("a\n\tb\r\x1b") == "a\n\tb\\u000d\\u001b"
    value = {"a\x9b": "\x1b\u202e"}
    assert json.loads(printable_text(json.dumps(value, indent=1, ensure_ascii=False))) == value


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Topics over hostile words."""
    X = sparse.csr_array(np.random.default_rng(0).poisson(1.0, (30, 8)).astype(np.float32))
    data = MatrixSource(X, names=HOSTILE, row_names=[f"{i}\x1b" for i in range(30)], block_rows=8)
    bl.save(bl.Learner(LDA(topics=2), data, passes=1, threads=1).fit(), tmp_path / "lda")
    als = bl.Learner(ALS(rank=2), data, passes=1, threads=1).fit()
    bl.save(als, tmp_path / "als")
    return tmp_path


def test_commands_print_no_control_characters(
    command: Learn,
    model: Path,
) -> None:
    (model / "ids").write_text("0\x1b\n")
    (model / "new.jsonl").write_text(json.dumps({"id": "d\x1b", "text": "tab here"}) + "\n")
    for arguments in [
        ["topics", "lda"],
        ["topics", "lda", "--json"],
        ["recommend", "als", "--users", "ids", "--include-seen"],
        ["recommend", "als", "--include-seen", "--json"],
        ["similar", "als", "--users", "ids"],
        ["inspect", "lda"],
        ["predict", "lda", "--data", "new.jsonl"],
        ["predict", "lda", "--data", "none\x1b.jsonl"],
        ["topics", "none\x1b"],
        ["--config", "none\x1b.yaml"],
        ["export", "lda", "--to", "a\x1b.npz"],
    ]:
        _, out, err = command(*arguments)
        found = {c for c in out + err if printable(c) != c} - {"\n"}
        assert not found, (arguments, out, err)
        assert out + err
    _, out, _ = command("topics", "lda", "--json")
    words = {word["word"] for topic in json.loads(out) for word in topic["words"]}
    assert words == set(HOSTILE)
    assert len(command("topics", "lda")[1].splitlines()) == 2


def test_export_asks_before_it_replaces(
    command: Learn,
    model: Path,
) -> None:
    for to in ("a.npz", "folder"):
        assert command("export", "lda", "--to", to)[0] == 0
        before = {path: path.stat().st_mtime_ns for path in model.rglob("*")}
        code, out, err = command("export", "lda", "--to", to)
        assert (code, out) == (2, "")
        assert "the file exists already. --overwrite replaces it." in err
        assert {path: path.stat().st_mtime_ns for path in model.rglob("*")} == before
        assert command("export", "lda", "--to", to, "--overwrite")[0] == 0
    (model / "other").mkdir()
    (model / "other" / "mine.txt").write_text("x")
    assert command("export", "lda", "--to", "other")[0] == 0  # replaces nothing
    assert (model / "other" / "mine.txt").read_text() == "x"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("also_stderr", [True, *rarely(False)])
def test_full_streams(model: Path, also_stderr: bool) -> None:
    with Path("/dev/full").open("w") as full:
        err = full if also_stderr else subprocess.PIPE
        done = subprocess.run([*LEARN, "topics", model / "lda"], stdout=full, stderr=err)
        assert done.returncode == 74
        if not also_stderr:
            assert b"No space left on device" in done.stderr
        wrong = subprocess.run([*LEARN, "topics", model / "none"], stdout=full, stderr=err)
        assert wrong.returncode == 66


def test_a_command_about_a_file_of_control_characters(command: Learn) -> None:
    with open("t.csv", "wb") as file:
        file.write(b"age,click\n1,0\n1\x1b[2J,0,0\n")
    with open("r.yaml", "w") as file:
        file.write(
            "model: {kind: glm}\n"
            "data: {train: {kind: table, path: t.csv, numeric: [age], targets: [click]}}\n"
        )
    code, _, err = command("train", "--config", "r.yaml", "-q")
    assert code == ExitCode.DATA and "\x1b" not in err and r"\u001b[2J" in err
    with open("r.yaml", "w") as file:
        file.write('model: {kind: "gl\\em"}\n')
    code, _, err = command("config", "--config", "r.yaml")
    assert code == ExitCode.CONFIG and "\x1b" not in err and "r.yaml:1" in err
