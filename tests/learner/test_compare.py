"""Runs side by side."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.beside import CONFIGS
from tests.support.learn_command import Learn, learn


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two of one kind, and one of another."""
    folder = tmp_path_factory.mktemp("runs")
    for name, kind, settings in [
        ("two", "als", ["learner.passes=2"]),
        ("reg", "als", ["learner.passes=2", "model.reg=0.02", "learner.seed=2"]),
        ("glm", "glm", ["learner.passes=1"]),
    ]:
        given = [part for setting in settings for part in ("--set", setting)]
        config = str(CONFIGS / f"{kind}.yaml")
        assert learn("--config", config, "--out", folder / name, "-q", *given) == 0
    return folder


@pytest.fixture
def compare(
    runs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Learn:
    monkeypatch.chdir(runs)
    return lambda *arguments: (learn("compare", *arguments), *capsys.readouterr())


def test_what_differs_and_what_came_of_it(compare: Learn, runs: Path) -> None:
    code, out, _ = compare("two", "reg")
    assert code == 0
    assert re.search(r"^ +two +reg$", out, re.M)
    assert re.search(r"^  model\.reg +0\.01 +0\.02$", out, re.M)
    assert re.search(r"^  learner.seed +1 +2$", out, re.M)
    assert "learner.passes" not in out and "out " not in out  # both have the same, or never
    scores = json.loads((runs / "two" / "metrics.json").read_text())
    assert re.search(rf"^  rmse +{scores['rmse']:.4g} +0\.\d+$", out, re.M)
    assert re.search(r"^  finished +yes +yes$", out, re.M)
    assert re.search(r"^  passes +2 +2$", out, re.M)


def test_as_json(compare: Learn, runs: Path) -> None:
    code, out, _ = compare("two", "glm", "reg", "--json")
    found = json.loads(out)
    assert code == 0 and found["runs"] == ["two", "glm", "reg"]
    assert found["settings"]["model.reg"] == [0.01, None, 0.02]
    assert found["settings"]["model.kind"] == ["als", "glm", "als"]
    assert found["scores"]["rmse"][1] is None and found["scores"]["auc/class"][0] is None
    assert found["scores"]["rmse"][0] == json.loads((runs / "two/metrics.json").read_text())["rmse"]
    assert found["cost"]["rows"][0] == 2 * (672 + 290) or found["cost"]["rows"][0] > 0
    assert all(seconds > 0 for seconds in found["cost"]["training seconds"])


def test_scores_of_single_targets_are_for_json_alone(compare: Learn) -> None:
    _, out, _ = compare("glm")
    assert "log_loss" in out and "auc/" not in out


def test_where_there_is_no_run(compare: Learn) -> None:
    code, _, err = compare("two", "nothing")
    assert code == 66 and "nothing: no run here" in err


def test_a_run_that_has_just_begun(compare: Learn, runs: Path) -> None:
    begun = runs / "begun"
    begun.mkdir()
    (begun / "run.json").write_text((runs / "two" / "run.json").read_text())
    code, out, _ = compare("two", "begun")
    assert code == 0 and re.search(r"^  finished +yes +no$", out, re.M)
    assert re.search(r"^  rmse +\S+ +-$", out, re.M)
