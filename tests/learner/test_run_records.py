"""Files of a run that were edited or damaged are refused with file, line and field."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from blocklearn.learner.command_line.cli import main
from blocklearn.learner.errors import ModelFolderError
from blocklearn.learner.exit_codes import ExitCode
from blocklearn.learner.inspection.run_record import read_run
from blocklearn.learner.storage.schemas import Position, check_content
from blocklearn.learner.watch.events import events_of, rewind


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run."""
    folder = tmp_path_factory.mktemp("made")
    counts = np.random.default_rng(0).poisson(1.0, (40, 6)).astype(np.float32)
    sp.save_npz(folder / "x.npz", sp.csr_array(counts))
    config = folder / "c.yaml"
    config.write_text(
        "model: {kind: nmf, components: 2}\n"
        f"data: {{train: {{kind: file, path: {folder}/x.npz}}}}\n"
        "learner: {passes: 2}\n"
    )
    assert learn("--config", config, "--out", folder / "run", "--quiet") == 0
    return folder / "run"


def learn(*arguments: Any) -> int:
    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    return int(stop.value.code or 0)


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    """A copy of the run's records."""
    for name in ("run.json", "config.yaml", "metrics.jsonl", "plan.json"):
        (tmp_path / name).write_bytes((made / name).read_bytes())
    read_run(tmp_path)
    return tmp_path


EVENTS: list[tuple[str, Any, str]] = [
    ("rows", "40", 'rows="40": must be an integer'),
    ("rows", None, "rows=null: must be an integer"),
    ("event", "began", 'event="began": must be'),
    ("seconds", [1], r"seconds=\[1\]: must be a number"),
    ("pass", ..., "pass: is missing"),
    ("perplexity", "low", 'perplexity="low": must be a number'),
]


@pytest.mark.parametrize(("field", "value", "message"), EVENTS)
def test_an_edited_event_is_refused(run: Path, field: str, value: Any, message: str) -> None:
    file = run / "metrics.jsonl"
    lines = file.read_text().splitlines()
    event = json.loads(lines[1]) | {field: value}
    if value is ...:
        del event[field]
    lines[1] = json.dumps(event)
    file.write_text("\n".join(lines) + "\n")
    for read in (events_of, lambda file: rewind(file, 80), lambda file: read_run(run)):
        with pytest.raises(ModelFolderError, match=f"{re.escape(str(file))}: line 2: {message}"):
            read(file)
    assert len(file.read_text().splitlines()) == len(lines)  # as it was


@pytest.mark.parametrize("line", ["{", "[]", "3", "\x00", "[" * 100_000])
def test_a_damaged_line_is_refused(run: Path, line: str) -> None:
    file = run / "metrics.jsonl"
    count = len(file.read_text().splitlines())
    with file.open("a") as lines:
        lines.write(f"{line}\n")
    with pytest.raises(ModelFolderError, match=rf"metrics.jsonl: line {count + 1}: "):
        events_of(file)


def test_a_line_that_a_crash_cut_off_is_left_out(run: Path) -> None:
    file = run / "metrics.jsonl"
    before = events_of(file)
    with file.open("a") as lines:
        lines.write('{"ts": "2026')
    assert events_of(file) == before
    rewind(file, before[-1]["rows"] + 1)
    assert events_of(file) == before[:-1]  # without its end


PLANS: list[tuple[str, Any, str]] = [
    ("nbytes", "8", r'rows.0.nbytes="8": must be an integer'),
    ("nbytes", -1, "rows.0.nbytes=-1: must be at least 0"),
    ("shape", 3, "rows.0.shape=3: must be a list"),
    ("name", ..., "rows.0.name: is missing"),
]


@pytest.mark.parametrize(("field", "value", "message"), PLANS)
def test_an_edited_plan_is_refused(run: Path, field: str, value: Any, message: str) -> None:
    file = run / "plan.json"
    plan = json.loads(file.read_text())
    plan["rows"][0][field] = value
    if value is ...:
        del plan["rows"][0][field]
    file.write_text(json.dumps(plan))
    with pytest.raises(ModelFolderError, match=f"{re.escape(str(file))}: {message}"):
        read_run(run)


def test_a_plan_of_a_later_version_is_read(run: Path) -> None:
    file = run / "plan.json"
    plan = json.loads(file.read_text()) | {"new": 1}
    plan["rows"][0]["new"] = 1
    file.write_text(json.dumps(plan))
    assert read_run(run).plan is not None


def test_the_commands_say_so(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "plan.json").write_text("{}")
    assert learn("report", run) == ExitCode.DATA
    assert "plan.json: rows: is missing." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"optimizers": []}, "optimizers=[]: must have at least 1 item"),
        ({"optimizers": [{"steps": 3}]}, "optimizers.0.phase: is missing"),
        ({"block": -1}, "block=-1: must be at least 0"),
    ],
)
def test_a_wrong_position_is_told_by_its_field_and_one_rule(
    wrong: dict[str, Any], told: str
) -> None:
    with pytest.raises(ModelFolderError, match=re.escape(f"checkpoint.json: {told}")):
        check_content(Position, {"pass": 1, "rows": 3, **wrong}, "checkpoint.json")
