"""Code blocks of the documentation: found in the pages, run, and held against what pages say.

What a block is for, its first line says:

    ```python                    run; the Python blocks of a page are one program
    ```bash                      run, in the folder of the page; `learn` is this package
    ```text                      right behind one of these: what it printed (see `missing_lines`)
    ```yaml                      a configuration, or a part of one: validated
    ```json, ```toml, ```ini     parsed
    ```LANGUAGE title="a.yaml"   not run, but written to a file of this name
    ```LANGUAGE title="a/b.py"   an excerpt of this file of the repository
    ```LANGUAGE title="needs X"  cannot run everywhere: Python is compiled, commands are parsed

Blocks run from the top of a page to its end, in a folder of their own.
"""

from __future__ import annotations

import configparser
import io
import json
import os
import re
import shlex
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import typer
from ruamel.yaml import YAML

import blocklearn
from blocklearn.learner.command_line.cli import _with_command, app
from blocklearn.learner.configuration.config import RunConfig
from blocklearn.learner.configuration.kinds import left_unread
from blocklearn.learner.configuration.yaml_config import resolve

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    str(path.relative_to(ROOT))
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")]
)
FENCE = re.compile(
    r"^(?P<indent> *)(?P<fence>`{3,})(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=indent)(?P=fence) *$",
    re.M | re.S,
)
TITLE = re.compile(r'title="([^"]*)"')
INLINE = re.compile(r"(?<!`)`(?:scripts/)?(learn [^`\n]+)`(?!`)")
LIMIT = 900  # seconds of one block, many times what it takes: it ends what hangs
MAIN = "from blocklearn.learner.command_line.cli import main; main()"
LEARN = f'exec "{sys.executable}" -c "{MAIN}" "$@"'


@dataclass(frozen=True)
class CodeBlock:
    """A fenced block: the line of its first fence, its language, its title, and what is in it."""

    page: str
    line: int
    language: str
    title: str
    text: str

    @property
    def where(self) -> str:
        """For messages."""
        return f"{self.page}:{self.line}"

    @property
    def needs(self) -> bool:
        """Whether it says that it cannot run everywhere."""
        return self.title.startswith("needs ")

    @property
    def excerpt(self) -> bool:
        """Whether it shows a part of a file of the repository."""
        return not self.needs and "/" in self.title

    @property
    def runs(self) -> bool:
        """Whether it is a program."""
        return not self.title and self.language in ("python", "bash")


def code_blocks(page: str, text: str) -> list[CodeBlock]:
    """The fenced blocks of a page, from its top to its end.

    >>> code_blocks("p.md", "Words.\\n\\n```bash title=\\"a.sh\\"\\nls\\n```\\n")
    [CodeBlock(page='p.md', line=3, language='bash', title='a.sh', text='ls\\n')]
    """
    found = []
    for match in FENCE.finditer(text):
        info, title = match["info"].split(), TITLE.search(match["info"])
        found.append(
            CodeBlock(
                page,
                text.count("\n", 0, match.start()) + 1,
                info[0] if info else "",
                title[1] if title else "",
                textwrap.dedent(match["body"]),
            )
        )
    return found


# ---- running ----------------------------------------------------------------------------------


class PageRun:
    """A page being run in `folder`, which gets what a page may expect there."""

    def __init__(self, folder: Path, learn: str = LEARN) -> None:
        """Commands `learn`, `python` and, as in the repository, `scripts/learn` and `configs/`.

        learn: what the first of them does, in the language of the shell.
        """
        self.folder, self.names = folder, {"__name__": "page"}
        command(folder / ".bin" / "learn", learn)
        command(folder / "scripts" / "learn", learn)
        command(folder / ".bin" / "python", f'exec "{sys.executable}" "$@"')
        (folder / "configs").symlink_to(ROOT / "configs")
        self.environ = os.environ | {
            "PATH": f"{folder / '.bin'}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(Path(blocklearn.__file__).parents[1]),
        }

    def run(self, block: CodeBlock) -> str:
        """Whatever the block prints. Fails where it fails."""
        return self.bash(block) if block.language == "bash" else self.python(block)

    def bash(self, block: CodeBlock) -> str:
        """Stops at the first command that fails."""
        done = subprocess.run(
            ["bash", "-eu", "-c", block.text],
            cwd=self.folder,
            env=self.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        assert done.returncode == 0, f"{block.where}: exit code {done.returncode}\n{done.stdout}"
        return done.stdout

    def python(self, block: CodeBlock) -> str:
        """In this process; tracebacks name the lines of the page."""
        code = compile("\n" * block.line + block.text, str(ROOT / block.page), "exec", 0, True)
        printed, before = io.StringIO(), Path.cwd()
        os.chdir(self.folder)
        try:
            with redirect_stdout(printed), redirect_stderr(printed):
                exec(code, self.names)
        finally:
            os.chdir(before)
        return printed.getvalue()


def command(path: Path, text: str) -> None:
    """A shell script that can be called."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def missing_lines(shown: str, printed: str) -> list[str]:
    """Lines that a page shows as output and that were not printed, in whatever order.

    Two lines are alike if they share half of their words, numbers being one word: figures, and now
    and then a topic, differ from one machine and Python to another. `...` is no line.

    >>> missing_lines("passes 3\\n...\\nin runs/a", "start\\npasses 10\\nmodel in runs/a\\n")
    []
    >>> missing_lines("one two\\none two\\nthree", "three\\none two\\n")
    ['one two']
    """
    waiting = [words(line) for line in printed.splitlines()]
    missing = []
    for line in shown.splitlines():
        if not (wanted := words(line)):
            continue
        at = next((i for i, there in enumerate(waiting) if alike(wanted, there)), None)
        if at is None:
            missing.append(line)
        else:
            del waiting[at]
    return missing


def words(line: str) -> list[str]:
    """What lines are compared by.

    >>> words("[  1.3 s] pass 2/30: loss -1.2e-3, 12,345 rows/s ...")
    ['[', '#', 's]', 'pass', '#/#:', 'loss', '#', '#', 'rows/s']
    """
    masked = re.sub(r"[-+]?(\d[\d,]*\.?\d*|\.\d+)(e[-+]?\d+)?%?,?", "#", line)
    return [word for word in masked.split() if word != "..."]


def alike(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether two lines share half of the words of both."""
    rest, common = list(other), 0
    for word in one:
        if word in rest:
            rest.remove(word)
            common += 1
    return 2 * common >= len(one) and 2 * common >= len(other)


# ---- checking without running -------------------------------------------------------------------


def check(block: CodeBlock, folder: Path) -> None:
    """Whatever can be known of a block that is not run."""
    if block.excerpt:
        check_excerpt(block)
    elif block.language == "python":
        compile(block.text, block.where, "exec")
    elif block.language == "bash":
        subprocess.run(["bash", "-n", "-c", block.text], check=True)
        for arguments in commands(block.text, "learn"):
            check_command(arguments)
        for arguments in commands(block.text, "bench"):
            check_benchmark(arguments)
    elif block.language == "yaml":
        check_configuration(block, folder)
    elif block.language == "json":
        json.loads(block.text)
    elif block.language == "toml":
        tomllib.loads(block.text)
    elif block.language == "ini":
        configparser.ConfigParser(strict=False).read_string(block.text)


def check_excerpt(block: CodeBlock) -> None:
    """Its lines stand in the file, in this order; `...` leaves some out."""
    file = ROOT / block.title
    if not file.exists():  # the tests of an installed wheel
        file = Path(blocklearn.__file__).parent / block.title
    lines = [line.strip() for line in file.read_text().splitlines()]
    for line in block.text.splitlines():
        if line.strip() not in ("", "..."):
            assert line.strip() in lines, f"{block.where}: not in {block.title}: {line.strip()}"
            lines = lines[lines.index(line.strip()) + 1 :]


def check_configuration(block: CodeBlock, folder: Path) -> None:
    """Keys and values are those of the schema; what a part of a configuration lacks is added."""
    tree = YAML(typ="safe").load(block.text)
    if not isinstance(tree, dict) or not tree.keys() & RunConfig.model_fields.keys():
        assert block.title, f"{block.where}: not a configuration; its title should say what it is"
        return
    rest: dict[str, Any] = {}
    if "kind" not in tree.get("model", {}):
        rest["model"] = {"kind": "lda"}
    if "train" not in tree.get("data", {}):
        rest["data"] = {"train": {"kind": "python-docs"}}
    assert not rest or not block.title or block.needs, f"{block.where}: a file needs all of it"
    base, part = folder / "base.yaml", folder / "part.yaml"
    base.write_text(json.dumps(rest))
    part.write_text(block.text)
    resolve(RunConfig, [base, part], {}, meanings=os.environ, extend=left_unread)


def commands(text: str, name: str) -> Iterator[list[str]]:
    """The arguments of every call of a command, or of the script of that name, in a shell script.

    >>> list(commands("srun learn topics \\\\\\n  --out 'b c' | tee log  # --no\\n", "learn"))
    [['topics', '--out', 'b c']]
    """
    for line in text.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        found: list[str] | None = None
        for word in [*lexer, ";"]:
            if found is None and word in (name, f"scripts/{name}"):
                found = []
            elif found is not None and re.fullmatch(r"[();<>|&]+", word):
                yield found
                found = None
            elif found is not None:
                found.append(word)


def check_benchmark(arguments: list[str]) -> None:
    """The task of `scripts/bench` and its options exist."""
    task, *rest = arguments
    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(printed), suppress(SystemExit):
        from scripts.benchmarks.__main__ import main as bench  # not in a wheel

        bench([task, "--help"])
    for option in rest:
        known = re.search(rf"{re.escape(option)}\b", printed.getvalue())
        assert not option.startswith("--") or known, f"scripts/bench {task}: no {option}"


def check_command(arguments: list[str]) -> None:
    """The command and its options exist, and nothing that it needs is missing."""
    name, *rest = _with_command(arguments)
    if not name.startswith("-"):
        known_command(name).make_context(name, rest).close()


def check_mention(text: str) -> None:
    """Of `learn convert --both-orientations` within a sentence: command and options exist."""
    name, *rest = _with_command(text.split()[1:])
    if name.startswith("-"):
        return
    parameters = known_command(name).params
    options = {option for p in parameters for option in [*p.opts, *p.secondary_opts, "--help"]}
    for word in rest:
        option = word.partition("=")[0].rstrip(".,;:")
        assert not option.startswith("-") or option in {*options, "-"}, f"{text}: no {option}"


def known_command(name: str) -> Any:
    """A command of `learn`."""
    known = commands_of_learn()
    assert name in known, f"learn {name}: there is no such command"
    return known[name]


@cache
def commands_of_learn() -> dict[str, Any]:
    """All commands of `learn`, by name."""
    return typer.main.get_command(app).commands  # type: ignore[attr-defined, no-any-return]
