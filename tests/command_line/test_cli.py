"""The command line: help at once, one exit code per kind of failure, messages on stderr."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from blocklearn.datasources import DataError
from blocklearn.learner.errors import (
    ConfigError,
    DivergedError,
    ModelFolderError,
    ModelMissingError,
    RunFolderError,
    RunInterrupted,
)
from blocklearn.learner.exit_codes import ExitCode, exit_code, message
from blocklearn.matcache.errors import MemoryPlanError
from tests.support.beside import CONFIGS
from tests.support.learn_command import Learn, learn

LDA = str(CONFIGS / "lda.yaml")
LEARN = [sys.executable, "-c", "from blocklearn.learner.command_line.cli import main; main()"]


# ---- streams -------------------------------------------------------------------------------------


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_a_stream_that_the_caller_has_closed_takes_nothing(closed: str) -> None:
    command = f"exec {shlex.join([*LEARN, 'config', '--config', LDA])} {closed}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == ""


def test_letters_that_a_stream_lacks_are_escaped(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "model: {kind: lda, seeds: {größe: [x]}}\ndata: {train: {kind: python-docs}}\n",
        encoding="utf-8",
    )
    environ = os.environ | {"PYTHONIOENCODING": "ascii"}
    command = [*LEARN, "config", "--config", str(tmp_path / "a.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, env=environ)
    assert done.returncode == 0 and r"gr\xf6\xdfe" in done.stdout


# ---- help ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments, most", [(["--help"], 160), (["--version"], 120), (["train", "--help"], 250)]
)
def test_help_imports_little(arguments: list[str], most: int) -> None:
    """Imports are what help would wait for: 120 light modules take a tenth of a second.

    The help of all commands reads the metadata of installed packages, too.
    """
    code = f"""
import sys
before = set(sys.modules)
from blocklearn.learner.command_line import cli
try:
    cli.main({arguments})
except SystemExit as stop:
    assert not stop.code
print(len(set(sys.modules) - before), *{{name.partition(".")[0] for name in sys.modules}})
"""
    count, *modules = in_a_process_of_its_own(code).splitlines()[-1].split()
    assert int(count) < most
    assert not {"numpy", "numba", "scipy", "pyarrow", "ruamel", "rich"} & {*modules}


def test_importing_the_package_imports_nothing() -> None:
    code = """
import sys
before = set(sys.modules)
import blocklearn
print(*{name.partition(".")[0] for name in set(sys.modules) - before} - sys.stdlib_module_names)
"""
    assert in_a_process_of_its_own(code).split() == ["blocklearn"]


@pytest.mark.parametrize("frozen", [False, True])
def test_what_imports_make_is_old_to_the_collector(frozen: bool) -> None:
    """Else the next collections of young objects look through all modules, once a generation."""
    code = f"""
import gc, blocklearn
{frozen} and gc.freeze()
blocklearn.Learner
print(gc.isenabled(), gc.get_count()[0], gc.get_freeze_count())
"""
    enabled, young, kept = in_a_process_of_its_own(code).split()
    assert enabled == "True"
    assert bool(int(kept)) is frozen  # what the program froze stays frozen
    assert frozen or int(young) < 100  # of some 300,000


def test_a_reader_that_has_seen_enough_is_no_failure() -> None:
    """Typer would exit with 1, in `help` and in any command that prints."""
    for arguments in (["--help"], ["kinds"]):
        command = [sys.executable, "-m", "blocklearn.learner.command_line.cli", *arguments]
        reading, writing = os.pipe()
        os.close(reading)
        with os.fdopen(writing, "wb") as closed:
            done = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, text=True)
        assert (done.returncode, done.stderr) == (0, "")


def in_a_process_of_its_own(code: str) -> str:
    """What it prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "command",
    ["train", "topics", "predict", "evaluate", "recommend", "similar", "config", "schema"],
)
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert learn(command, "--help") == 0
    assert "Usage: learn" in capsys.readouterr().out


def test_no_arguments_show_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert learn() == 0
    assert "Usage: learn" in capsys.readouterr().out


def test_every_exit_code_is_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    learn("--help")
    text = " ".join(capsys.readouterr().out.split())
    for code in set(ExitCode) - {ExitCode.KILLED}:
        assert f"{code:d} " in text


# ---- exit codes ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error, code",
    [
        (ConfigError(["x"]), 78),
        (RunFolderError("x"), 2),
        (RunInterrupted("x"), 75),
        (DivergedError("x"), 76),
        (DataError("x"), 65),
        (ModelFolderError("x"), 65),
        (ModelMissingError("x"), 66),
        (FileNotFoundError(2, "No such file", "x"), 66),
        (PermissionError(13, "Permission denied", "x"), 77),
        (OSError(28, "No space left on device", "x"), 74),
        (UnicodeEncodeError("utf-8", "\udcc3.csv", 0, 1, "surrogates not allowed"), 74),
        (UnicodeEncodeError("ascii", "ä", 0, 1, "ordinal not in range(128)"), 70),
        (MemoryError(), 71),
        (MemoryPlanError("x"), 71),
        (ModuleNotFoundError("No module named 'x'"), 69),
        (KeyboardInterrupt(), 130),
        (RuntimeError("x"), 70),
        (KeyError("x"), 70),
    ],
    ids=lambda value: type(value).__name__,
)
def test_exit_code_and_message(error: BaseException, code: int) -> None:
    assert exit_code(error) == code
    assert message(error) and "\n" not in message(error)


def test_the_table_is_that_of_sysexits() -> None:
    import os

    for name, ours in [("USAGE", "USAGE"), ("DATAERR", "DATA"), ("NOINPUT", "NO_INPUT"),
                       ("UNAVAILABLE", "UNAVAILABLE"), ("SOFTWARE", "INTERNAL"), ("IOERR", "IO"),
                       ("TEMPFAIL", "INTERRUPTED"), ("NOPERM", "PERMISSION"),
                       ("CONFIG", "CONFIG")]:  # fmt: skip
        if name != "USAGE":  # 64 there; every parser of options uses 2
            assert getattr(os, f"EX_{name}") == ExitCode[ours]


@pytest.mark.parametrize(
    "arguments",
    [
        ["train"],
        ["train", "--config"],
        ["--config", LDA, "--resume", "never"],
        ["--config", LDA, "--resume", "auto", "--overwrite"],
        ["--config", LDA, "--set", "topics"],
        ["--config", LDA, "--threads", "many"],
        ["--confg", LDA],
        ["trian", "--config", LDA],
        ["topics"],
        ["predict", "x", "--data", "y", "--out", "z.txt"],
    ],
)
def test_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert learn(*arguments) == ExitCode.USAGE
    out, err = capsys.readouterr()
    assert not out and "Error:" in err and "Traceback" not in err


def test_configuration_mistakes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a bad.yaml"
    path.write_text("model: {kind: lda, topiks: 3}\n")
    assert learn("--config", str(path)) == ExitCode.CONFIG
    out, err = capsys.readouterr()
    assert not out
    assert err.splitlines() == [
        f"{path}:1:1: data: missing, and there is no default; --set data=VALUE gives one",
        f"{path}:1:20: model.topiks: unknown key (did you mean 'topics'?)",
    ]
    assert learn("--config", str(path), "-v") == ExitCode.CONFIG
    assert "Traceback" in capsys.readouterr().err


def test_missing_inputs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nowhere = str(tmp_path / "nowhere")
    assert learn("--config", nowhere) == ExitCode.NO_INPUT
    assert learn("topics", nowhere) == ExitCode.NO_INPUT
    data = ["--set", "data.train={kind: file, path: nowhere.txt}", "--out", nowhere]
    assert learn("--config", LDA, *data) == ExitCode.NO_INPUT
    err = capsys.readouterr().err
    assert err.count("learn: ") == 3 and "nowhere.txt: No such file" in err
    assert not Path(nowhere).exists()


def test_an_unforeseen_error_shows_its_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import blocklearn.learner.results.persistence as persistence

    def broken(*_: object) -> None:
        raise RuntimeError("surprise")

    monkeypatch.setattr(persistence, "load", broken)
    assert learn("topics", "x") == ExitCode.INTERNAL
    err = capsys.readouterr().err
    assert "RuntimeError: surprise" in err and "please report" in err


def test_a_second_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    import blocklearn.learner.results.persistence as persistence

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(persistence, "load", interrupted)
    assert learn("topics", "x") == ExitCode.KILLED


# ---- config and schema ---------------------------------------------------------------------------


def test_config_prints_what_train_would_use(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from ruamel.yaml import YAML

    monkeypatch.setenv("LEARN__MODEL__TOPICS", "7")
    options = ["--seed", "5", "--threads", "2", "--set", "learner.passes=3"]
    assert learn("config", "--config", LDA, *options) == 0
    out, err = capsys.readouterr()
    config = YAML(typ="safe").load(out)
    assert not err
    assert (config["model"]["topics"], config["out"]) == (7, "runs/lda")
    assert [config["learner"][key] for key in ("seed", "threads", "passes")] == [5, 2, 3]

    (tmp_path / "more.yaml").write_text("learner: {passes: 4}\n")
    learn("config", "--config", LDA, "--config", str(tmp_path / "more.yaml"), "--out", "2024")
    assert YAML(typ="safe").load(capsys.readouterr().out)["out"] == "2024"
    learn("config", "--config", LDA, "--config", str(tmp_path / "more.yaml"))
    assert "out: runs/lda-more\n" in capsys.readouterr().out


def test_schema_is_json_schema(capsys: pytest.CaptureFixture[str]) -> None:
    import json

    assert learn("schema") == 0
    schema = json.loads(capsys.readouterr().out)
    assert set(schema["properties"]) == {
        "model", "data", "optimizer", "mixins", "learner", "evaluation", "checkpoint", "code",
        "distributed", "out"}  # fmt: skip
    assert schema["required"] == ["model", "data"]


def test_the_list_of_commands_has_whole_sentences(
    command: Learn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The help cuts off what does not fit into a line of 80 characters."""
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = command("--help")
    listed = out.split("Commands:")[1].split("Exit codes")[0].strip().splitlines()
    assert len(listed) > 15 and [line for line in listed if "..." in line] == []
