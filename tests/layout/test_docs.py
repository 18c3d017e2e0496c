"""The documentation keeps its word: its code runs, its configurations are valid, its pages exist.

`page_blocks.py` says what happens to which block. Running all pages takes minutes: the inner loop
checks everything that shows without running, `-m slow` runs them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import command_server
from tests.support.page_blocks import (
    INLINE,
    LEARN,
    PAGES,
    ROOT,
    CodeBlock,
    PageRun,
    check,
    check_mention,
    code_blocks,
    missing_lines,
)

LANGUAGES = {"python", "bash", "text", "yaml", "json", "toml", "ini"}
ALONE = {"README.md", "docs/how-to/replicas.md", "docs/how-to/resume.md", "docs/operations.md"}
"""Pages whose commands are processes of their own: what is read first, and what gets signals."""


def blocks_of(page: str) -> list[CodeBlock]:
    """The code blocks of a page of the repository."""
    return code_blocks(page, (ROOT / page).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def learn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The command `learn`, of which most of the start is done already."""
    folder = tmp_path_factory.mktemp("learn")
    server = command_server.start(folder / "socket")
    yield command_server.command(folder / "socket", folder / "call.py")
    server.kill()
    server.communicate()


@pytest.mark.parametrize("page", PAGES)
def test_code_of_a_page_is_valid(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python compiles, commands and their options exist, configurations follow the schema."""
    monkeypatch.setenv("CLICKS_SIGNATURE", "a-signature")  # docs/how-to/remote.md refers to it
    for block in blocks_of(page):
        assert block.language in LANGUAGES, f"{block.where}: a block of {block.language!r}"
        if block.language != "text":
            check(block, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_a_page_does_what_it_says(
    page: str, learn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLICKS_SIGNATURE", "a-signature")  # docs/how-to/remote.md refers to it
    run, printed = PageRun(tmp_path, LEARN if page in ALONE else learn), None
    for block in blocks_of(page):
        if block.title and not block.needs and not block.excerpt:
            (tmp_path / block.title).write_text(block.text)
        if block.runs:
            printed = run.run(block)
            continue
        if block.language == "text" and printed is not None:
            missing = missing_lines(block.text, printed)
            assert not missing, f"{block.where}: not printed: {missing}\nbut:\n{printed}"
        printed = None


@pytest.mark.parametrize("page", PAGES)
def test_code_is_fenced(page: str) -> None:
    """Code that is only indented would not be found, and not be run."""
    text = re.sub(r"^( *)```.*?^\1``` *$", "", (ROOT / page).read_text(), flags=re.M | re.S)
    assert not re.search(r"^(?![-*\d ]).+\n\n {4,}\S.*", text, re.M)


@pytest.mark.parametrize("page", PAGES)
def test_commands_within_sentences_exist(page: str) -> None:
    text = re.sub(r"^ *```.*?^ *```", "", (ROOT / page).read_text(), flags=re.M | re.S)
    for mention in INLINE.findall(text):
        check_mention(mention)


# ---- the checks themselves ----------------------------------------------------------------------


def block(language: str, text: str, title: str = "") -> CodeBlock:
    return CodeBlock("page.md", 7, language, title, text)


@pytest.mark.parametrize(
    "wrong",
    [
        block("yaml", "model: {kind: lda, topcis: 3}"),
        block("yaml", "learner: {passes: 0}"),
        block("yaml", "data: {train: {kind: parquet}}", "needs HDFS"),
        block("yaml", "model: {kind: lda}", "lda.yaml"),  # a file, and incomplete
        block("yaml", "colour: blue"),
        block("bash", "learn --config a.yaml --replicas 2", "needs GPUs"),
        block("bash", "learn retrain x", "needs time"),
        block("bash", "scripts/bench lda --colour red", "needs time"),
        block("bash", "if true; learn topics x", "needs time"),
        block("python", "import", "needs time"),
        block("python", "no such line", "models/lda/model.py"),
        block("json", "{"),
    ],
    ids=lambda block: block.text,
)
def test_what_is_wrong_is_found(wrong: CodeBlock, tmp_path: Path) -> None:
    with pytest.raises(BaseException) as caught:
        check(wrong, tmp_path)
    assert not isinstance(caught.value, KeyboardInterrupt)


def test_programs_run_in_a_folder_of_their_own(tmp_path: Path) -> None:
    run = PageRun(tmp_path)
    assert run.run(block("bash", "learn --version && pwd -P >here")).startswith("blocklearn ")
    assert (tmp_path / "here").read_text().strip() == str(tmp_path.resolve())
    before = Path.cwd()
    assert (
        run.run(block("python", "import pathlib\nx = pathlib.Path('here').read_text()\nprint(1)"))
        == "1\n"
    )
    assert run.run(block("python", "assert len(x) > 1")) == "" and Path.cwd() == before
    with pytest.raises(ZeroDivisionError) as caught:
        run.run(block("python", "a = 1\nb = 1 / 0"))
    assert caught.traceback[-1].lineno + 1 == 9  # fence in line 7
    with pytest.raises(AssertionError, match=r"page.md:7: exit code 3"):
        run.run(block("bash", "(exit 3)\ntrue"))


def test_a_command_of_the_server_is_as_any_other(tmp_path: Path, learn: str) -> None:
    run = PageRun(tmp_path, learn)
    assert run.run(block("bash", "learn --version | cat")).startswith("blocklearn ")
    with pytest.raises(AssertionError, match=r"exit code 66\nlearn: x.yaml: no such"):
        run.run(block("bash", "learn --config x.yaml"))
    assert "lda" in run.run(block("bash", "cd configs; learn config --config lda.yaml"))


@pytest.mark.parametrize("mention", ["learn fit", "learn convert --to arrow"])
def test_mentions_of_what_is_not_there(mention: str) -> None:
    with pytest.raises(AssertionError):
        check_mention(mention)
